"""What `ottla configs` is about: kinds of entities, as Kafka's ConfigCommand names them, and those that were meant."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ottla.client.admin.configs import ConfigResourceType, ConfigSource
from ottla.errors import ConfigurationError

DEFAULT: Final = ""
"""The name of what counts for all that have nothing of their own."""


class Kind(NamedTuple):
    """A kind of entity, whose options are those of a resource, or quotas."""

    name: str
    """In the plural, as --entity-type has it."""
    resource: ConfigResourceType | None = None
    quota: str | None = None
    """What quotas call it (KIP-546)."""
    has_default: bool = False
    is_numbered: bool = False
    own: ConfigSource | None = None
    """Where options come from that were set on one; None: all are shown."""

    @property
    def singular(self) -> str:
        """One of them, as Kafka's tool tells it."""
        return self.name.removesuffix("s")

    @property
    def flag(self) -> str:
        """The short form of an option for one of them."""
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
"""What has options."""


class Entity(NamedTuple):
    """One that was meant: its name, DEFAULT, or None for all of its kind."""

    kind: Kind
    name: str | None

    def __str__(self) -> str:
        if self.name == DEFAULT:
            return f"default config for {self.kind.name} in the cluster"
        return f"config for {self.kind.singular} {self.name}"


def add_entities(parser: argparse.ArgumentParser) -> None:
    """`--entity-type`, `--entity-name`, `--entity-default`, and the short forms of KIP-543 and KIP-714."""
    parser.add_argument("--entity-type", action="append", dest="types", default=[], choices=KINDS, help="what it is")
    parser.add_argument("--entity-name", action="append", dest="names", default=[], metavar="NAME", help="its name")
    parser.add_argument(
        "--entity-default", action="append_const", dest="names", const=DEFAULT, help="the one that counts for all"
    )
    parser.set_defaults(short=[])
    for kind in KINDS.values():
        text = f"the same as --entity-type {kind.name} --entity-name NAME"
        parser.add_argument(kind.flag, action=_Short, kind=kind, metavar="NAME", help=text)
        if kind.has_default:
            text = f"the same as --entity-type {kind.name} --entity-default"
            parser.add_argument(f"{kind.flag}-defaults", action=_Short, kind=kind, nargs=0, help=text)


class _Short(argparse.Action):
    """Kind and name at once."""

    def __init__(self, *, kind: Kind, **options: Any) -> None:
        super().__init__(**{**options, "dest": "short"}, default=argparse.SUPPRESS)
        self.kind = kind

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        given = Entity(self.kind, DEFAULT if self.nargs == 0 else _named(values, str(option_string)))
        namespace.short = [*namespace.short, given]


def _named(name: str, option: str) -> str:
    if not name:
        raise ConfigurationError(f"{option}: '' is not allowed: a name is wanted")
    return name


def entities(args: argparse.Namespace) -> list[Entity]:
    """The entities that options belong to together: one, or a user and a client. ConfigurationError for others."""
    found = [*_paired(args.types, args.names), *args.short]
    if not found:
        raise ConfigurationError(f"--entity-type is needed: one of {', '.join(KINDS)}")
    kinds = [entity.kind.name for entity in found]
    if len(found) > 1 and sorted(kinds) != ["clients", "users"]:
        raise ConfigurationError(f"{' and '.join(kinds)} cannot be used together: only one of users and one of clients")
    for entity in found:
        _check(entity)
        if args.action == "alter" and entity.name is None:
            raise ConfigurationError(f"--alter of {entity.kind.name} needs --entity-name{_or_default(entity.kind)}")
    return found


def _or_default(kind: Kind) -> str:
    return " or --entity-default" if kind.has_default else ""


def _paired(types: Sequence[str], names: Sequence[str]) -> list[Entity]:
    """Types with the names in their order; a type without one means all."""
    if len(names) > len(types):
        raise ConfigurationError(f"--entity-name {names[len(types)]!r} has no --entity-type")
    padded: list[str | None] = [*names, *([None] * (len(types) - len(names)))]
    return [Entity(KINDS[kind], name) for kind, name in zip(types, padded, strict=True)]


def _check(entity: Entity) -> None:
    kind, name = entity
    if name == DEFAULT and not kind.has_default:
        raise ConfigurationError(f"--entity-default: {kind.name} have no default of their own")
    if kind.is_numbered and name and not name.isdecimal():
        raise ConfigurationError(f"--entity-name: {name!r} is not allowed for {kind.name}: a broker's id is wanted")
