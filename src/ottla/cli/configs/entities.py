"""The entities of `ottla configs`: their kinds, as Kafka's ConfigCommand names them, and the options that name them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from ottla.cli.framework.options import Option
from ottla.client.admin.configs import ConfigResourceType, ConfigSource
from ottla.errors import ConfigurationError

DEFAULT: Final = ""
"""The name of the entity that applies to all of its kind without configs of their own."""


class Kind(NamedTuple):
    """A kind of entity: it has configs if it is a resource, otherwise quotas."""

    name: str
    """The name of the kind in the plural, as for --entity-type."""
    resource: ConfigResourceType | None = None
    quota: str | None = None
    """The entity type of the kind for quotas (KIP-546)."""
    has_default: bool = False
    is_numbered: bool = False
    own: ConfigSource | None = None
    """The source of configs that are set on an entity of the kind; None: all are printed."""

    @property
    def singular(self) -> str:
        """The name of the kind in the singular."""
        return self.name.removesuffix("s")

    @property
    def flag(self) -> str:
        """The short option of the kind."""
        return f"--{self.name if self.name == 'client-metrics' else self.singular}"


KINDS: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("topics", ConfigResourceType.TOPIC, own=ConfigSource.DYNAMIC_TOPIC_CONFIG),
        Kind(
            "brokers",
            ConfigResourceType.BROKER,
            has_default=True,
            is_numbered=True,
            own=ConfigSource.DYNAMIC_BROKER_CONFIG,
        ),
        Kind("broker-loggers", ConfigResourceType.BROKER_LOGGER, is_numbered=True),
        Kind("groups", ConfigResourceType.GROUP, own=ConfigSource.GROUP_CONFIG),
        Kind("client-metrics", ConfigResourceType.CLIENT_METRICS, own=ConfigSource.CLIENT_METRICS_CONFIG),
        Kind("users", quota="user", has_default=True),
        Kind("clients", quota="client-id", has_default=True),
        Kind("ips", quota="ip", has_default=True),
    )
}
"""Every kind of entity."""


class Entity(NamedTuple):
    """An entity by its name; the name is DEFAULT, or None for all of the kind."""

    kind: Kind
    name: str | None

    def __str__(self) -> str:
        if self.name == DEFAULT:
            return f"default config for {self.kind.name} in the cluster"
        return f"config for {self.kind.singular} {self.name}"


class _Short(argparse.Action):
    """Kind and name in one option."""

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
    """Yield the short forms of KIP-543 and KIP-714."""
    text = f"short for --entity-type {kind.name} --entity-name NAME"
    yield Option(f"{kind.flag} NAME", text, action=_Short, kind=kind, dest="short")
    if kind.has_default:
        text = f"short for --entity-type {kind.name} --entity-default"
        yield Option(f"{kind.flag}-defaults", text, action=_Short, kind=kind, nargs=0, dest="short")


ENTITY_OPTIONS: Final = (
    Option("--entity-type", "kind of the entity", action="append", dest="types", default=[], choices=KINDS),
    Option("--entity-name NAME", "name of the entity", action="append", dest="names", default=[]),
    Option(
        "--entity-default",
        "the default of the kind, which applies to entities without configs of their own",
        action="append_const",
        dest="names",
        const=DEFAULT,
    ),
    *(option for kind in KINDS.values() for option in _short_options(kind)),
)
"""Options that name entities."""


def entities(args: argparse.Namespace) -> list[Entity]:
    """Return the entities on the command line: one, or a user and a client. Raises ConfigurationError for others."""
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
    """Pair types with names in their order; a type without a name means all of the kind."""
    if len(names) > len(types):
        raise ConfigurationError(f"--entity-name {names[len(types)]!r} has no --entity-type")
    padded: list[str | None] = [*names, *([None] * (len(types) - len(names)))]
    return [Entity(KINDS[kind], name) for kind, name in zip(types, padded, strict=True)]


def _check(entity: Entity) -> None:
    kind, name = entity
    if name == DEFAULT and not kind.has_default:
        raise ConfigurationError(f"--entity-default: {kind.name} have no default of their own")
    if kind.is_numbered and name and not name.isdecimal():
        raise ConfigurationError(f"--entity-name: {name!r} is not allowed for {kind.name}: expected a broker id")
