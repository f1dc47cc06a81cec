"""The entities of `ottla configs`, such as topics, brokers and users, and the options that select them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from ottla.cli.framework.options import Option
from ottla.client.admin.configs import ConfigResourceType
from ottla.errors import ConfigurationError

DEFAULT: Final = ""
"""The name of the default entity of a kind. Its configs apply to entities that do not set them."""


class Kind(NamedTuple):
    """A kind of entity. It has configs if `resource` is set, otherwise quotas, and users also SCRAM credentials."""

    name: str
    """The plural name of the kind, as --entity-type takes it."""
    resource: ConfigResourceType | None = None
    quota: str | None = None
    """The kind's entity type in quotas (KIP-546)."""
    has_default: bool = False
    is_numbered: bool = False
    prints_all: bool = False
    """Whether all configs are printed; otherwise without --all only those that are set on the entity itself."""

    @property
    def singular(self) -> str:
        """The singular name of the kind."""
        return self.name.removesuffix("s")

    @property
    def flag(self) -> str:
        """The short option that selects an entity of this kind, such as --topic."""
        return f"--{self.name if self.name == 'client-metrics' else self.singular}"


KINDS: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("topics", ConfigResourceType.TOPIC),
        Kind("brokers", ConfigResourceType.BROKER, has_default=True, is_numbered=True),
        Kind("broker-loggers", ConfigResourceType.BROKER_LOGGER, is_numbered=True, prints_all=True),
        Kind("groups", ConfigResourceType.GROUP),
        Kind("client-metrics", ConfigResourceType.CLIENT_METRICS),
        Kind("users", quota="user", has_default=True),
        Kind("clients", quota="client-id", has_default=True),
        Kind("ips", quota="ip", has_default=True),
    )
}
"""All kinds of entities, by name."""


class Entity(NamedTuple):
    """An entity. `name` is DEFAULT for the default entity, and None for all entities of the kind."""

    kind: Kind
    name: str | None

    def __str__(self) -> str:
        if self.name == DEFAULT:
            return f"default config for {self.kind.name} in the cluster"
        return f"config for {self.kind.singular} {self.name}"


class _Short(argparse.Action):
    """The argparse action of an option that selects kind and name at once, such as `--topic NAME` or
    `--user-defaults`.
    """

    def __init__(self, *, kind: Kind, **settings: Any) -> None:
        super().__init__(**settings, default=[])
        self.kind = kind

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        name = DEFAULT if self.nargs == 0 else values
        if not name and self.nargs != 0:
            raise ConfigurationError(f"{option_string}: '' is not allowed: expected a name")
        namespace.short = [*namespace.short, Entity(self.kind, name)]


def _short_options(kind: Kind) -> Iterator[Option]:
    """Yield the short options of a kind, such as `--user NAME` and `--user-defaults` (KIP-543)."""
    text = f"short for --entity-type {kind.name} --entity-name NAME"
    yield Option(f"{kind.flag} NAME", text, action=_Short, kind=kind, dest="short")
    if kind.has_default:
        text = f"short for --entity-type {kind.name} --entity-default"
        yield Option(f"{kind.flag}-defaults", text, action=_Short, kind=kind, nargs=0, dest="short")


ENTITY_OPTIONS: Final = (
    Option(
        "--entity-type",
        "type of the entity; users and clients can be combined",
        action="append",
        dest="types",
        default=[],
        choices=KINDS,
    ),
    Option(
        "--entity-name NAME",
        "name of the entity, for a broker its id (default with --describe: all entities of the type)",
        action="append",
        dest="names",
        default=[],
    ),
    Option(
        "--entity-default",
        "the default entity of brokers, users, clients or ips, whose configs apply to entities that do not set them",
        action="append_const",
        dest="names",
        const=DEFAULT,
    ),
    *(option for kind in KINDS.values() for option in _short_options(kind)),
)
"""The options that select entities."""


def entities(args: argparse.Namespace) -> list[Entity]:
    """Return the entities that the options select: one entity, or a user and a client. The name of an entity may be
    missing, for all entities, unless the action is `alter`.

    Raises ConfigurationError for other combinations, for a broker id that is not a number, and for the default entity
    of a kind that has none.
    """
    targets = [*_paired(args.types, args.names), *args.short]
    if not targets:
        raise ConfigurationError(f"--entity-type is needed: one of {', '.join(KINDS)}")
    kinds = [entity.kind.name for entity in targets]
    if len(targets) > 1 and sorted(kinds) != ["clients", "users"]:
        raise ConfigurationError(f"{' and '.join(kinds)} cannot be used together: only one of users and one of clients")
    for entity in targets:
        _check(entity)
        if args.action == "alter" and entity.name is None:
            raise ConfigurationError(f"--alter of {entity.kind.name} needs --entity-name{_or_default(entity.kind)}")
    return targets


def _or_default(kind: Kind) -> str:
    return " or --entity-default" if kind.has_default else ""


def _paired(types: Sequence[str], names: Sequence[str]) -> list[Entity]:
    """Combine the values of --entity-type and --entity-name, in their order. A type without a name means all entities
    of the kind. Raises ConfigurationError if there are more names than types.
    """
    if len(names) > len(types):
        raise ConfigurationError(f"--entity-name {names[len(types)]!r} has no --entity-type")
    padded: list[str | None] = [*names, *([None] * (len(types) - len(names)))]
    return [Entity(KINDS[kind], name) for kind, name in zip(types, padded, strict=True)]


def _check(entity: Entity) -> None:
    kind, name = entity
    if name == DEFAULT and not kind.has_default:
        raise ConfigurationError(f"--entity-default: {kind.name} have no default entity")
    if kind.is_numbered and name and not name.isdecimal():
        raise ConfigurationError(f"--entity-name: {name!r} is not allowed for {kind.name}: expected a broker id")
