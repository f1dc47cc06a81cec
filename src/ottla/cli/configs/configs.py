"""Describe and alter options of topics, brokers, groups and clients, quotas and passwords, as kafka-configs.sh does."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ottla.cli.configs import users
from ottla.cli.configs.entities import DEFAULT, Entity, add_entities, entities
from ottla.cli.framework.action_options import check_belongs
from ottla.cli.framework.connection import add_connection, client_options
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.configs import ConfigEntry, ConfigResource, ConfigResourceType, ConfigSource
from ottla.config import properties
from ottla.errors import ConfigurationError, UnsupportedVersionError

Options = Mapping[str, str | None]
"""What to set; None removes."""

_COMMA: Final = re.compile(r",(?![^\[]*\])")
"""Between options, not within a list in brackets."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla configs`."""
    add_connection(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--describe", action="store_const", const="describe", dest="action", help="tell what is set")
    action.add_argument("--alter", action="store_const", const="alter", dest="action", help="set or remove options")
    add_entities(parser)
    parser.add_argument("--all", action="store_true", help="with --describe: defaults, too")
    parser.add_argument("--add-config", metavar="K=V,K=[V,V]", help="with --alter: options to set")
    parser.add_argument("--add-config-file", type=Path, metavar="FILE", help="the same, from a properties file")
    parser.add_argument("--delete-config", metavar="K,K", help="with --alter: options to remove")
    parser.add_argument("--force", action="store_true", help="taken as Kafka's tool takes it: nothing is asked")
    parser.add_argument("--json", action="store_true", help="with --describe: answer in JSON")


def run(args: argparse.Namespace) -> int:
    """Do it; what is refused is a KafkaError."""
    wanted = entities(args)
    _check(args)
    changes = _changes(args) if args.action == "alter" else {}
    with KafkaAdminClient(client_options(args)) as admin:
        if args.action == "alter":
            (_alter if wanted[0].kind.resource else users.alter)(admin, wanted, changes)
            print(f"Completed updating {wanted[0]}.")
        elif wanted[0].kind.resource:
            _describe(admin, wanted[0], args)
        else:
            users.describe(admin, wanted, as_json=args.json)
    return 0


BELONGS: Final[Mapping[str, tuple[str, ...]]] = {
    "all": ("describe",),
    "json": ("describe",),
    "add_config": ("alter",),
    "add_config_file": ("alter",),
    "delete_config": ("alter",),
}
"""Actions by option."""


def _check(args: argparse.Namespace) -> None:
    """ConfigurationError for an option that would be ignored, or is missing."""
    check_belongs(args, BELONGS)
    if args.add_config and args.add_config_file:
        raise ConfigurationError("--add-config and --add-config-file cannot be used together")
    if args.action == "alter" and not (args.add_config or args.add_config_file or args.delete_config):
        raise ConfigurationError("--alter needs --add-config, --add-config-file or --delete-config")


def _changes(args: argparse.Namespace) -> Options:
    added = dict(properties.load(args.add_config_file)) if args.add_config_file else pairs(args.add_config or "")
    removed = [name.strip() for name in (args.delete_config or "").split(",") if name.strip()]
    for name in removed:
        if name in added:
            raise ConfigurationError(f"--delete-config: {name} is to be set and removed at once: leave one out")
    return {**added, **dict.fromkeys(removed)}


def pairs(text: str) -> dict[str, str]:
    """`a=1,b=[x,y]` by name, without the brackets. ConfigurationError where a name has no value."""
    found = {}
    for part in filter(None, map(str.strip, _COMMA.split(text))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            # The value may be a password.
            raise ConfigurationError(
                f"--add-config: {name!r} is not allowed: name=value is wanted, and [a,b] where a value has commas"
            )
        value = value.strip()
        found[name.strip()] = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    return found


def _alter(admin: KafkaAdminClient, wanted: list[Entity], changes: Options) -> None:
    (entity,) = wanted
    assert entity.kind.resource is not None, "users have quotas"
    assert entity.name is not None, "checked with the command line"
    admin.incremental_alter_configs([ConfigResource(entity.kind.resource, entity.name, dict(changes))])


def _is_own(entry: ConfigEntry, entity: Entity) -> bool:
    if entity.kind.own is None:
        return True
    own = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG if entity.name == DEFAULT else entity.kind.own
    return entry.source == own


def _describe(admin: KafkaAdminClient, wanted: Entity, args: argparse.Namespace) -> None:
    assert wanted.kind.resource is not None, "users have quotas"
    known = _known(admin, wanted)
    if wanted.name and known is not None and wanted.name not in known and not args.all:
        print(f"The {wanted.kind.singular} '{wanted.name}' doesn't exist and doesn't have dynamic config.")
        return
    names = (known or []) if wanted.name is None else [wanted.name]
    resources = [ConfigResource(wanted.kind.resource, name) for name in names]
    found = admin.describe_configs(resources, include_synonyms=True) if resources else {}
    told = []
    for resource in resources:
        entity = Entity(wanted.kind, resource.name)
        options = sorted(e for e in found[resource].values() if args.all or _is_own(e, entity))
        if args.json:
            told.append({"type": wanted.kind.name, "name": entity.name, "configs": [_as_json(e) for e in options]})
        else:
            _print(entity, options, every=args.all)
    if args.json:
        print(json.dumps(told))


def _known(admin: KafkaAdminClient, entity: Entity) -> list[str] | None:
    """The names there are; None where one was named whose kind is asked for itself, and errs where it is not there."""
    match entity.kind.resource:
        case ConfigResourceType.TOPIC:
            return sorted(admin.list_topics())
        case ConfigResourceType.GROUP:
            return sorted({group.group_id for group in admin.list_groups()} | _groups_with_options(admin, entity))
        case ConfigResourceType.CLIENT_METRICS:
            return sorted(admin.list_client_metrics_resources())
    if entity.name is not None:
        return None
    brokers = [str(node) for node in sorted(node.id for node in admin.describe_cluster().nodes)]
    return [*brokers, DEFAULT] if entity.kind.has_default else brokers


def _groups_with_options(admin: KafkaAdminClient, entity: Entity) -> set[str]:
    """A group may have options before it has members. All such groups are known from Kafka 4.1 on."""
    group = ConfigResourceType.GROUP
    if entity.name is None:
        with suppress(UnsupportedVersionError):
            return {resource.name for resource in admin.list_config_resources([group])}
        return set()
    (options,) = admin.describe_configs([ConfigResource(group, entity.name)]).values()
    return {entity.name} if any(_is_own(option, entity) for option in options.values()) else set()


def _print(entity: Entity, options: Iterable[ConfigEntry], *, every: bool) -> None:
    if entity.name == DEFAULT:
        print(f"Default configs for {entity.kind.name} in the cluster are:")
    else:
        print(f"{'All' if every else 'Dynamic'} configs for {entity.kind.singular} {entity.name} are:")
    for option in options:
        synonyms = ", ".join(f"{_source(s.source)}:{s.name}={_text(s.value)}" for s in option.synonyms)
        sensitive = str(option.is_sensitive).lower()
        print(f"  {option.name}={_text(option.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


def _text(value: str | None) -> str:
    return "null" if value is None else value


_JAVA_NAMES: Final[Mapping[int, str]] = {
    ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG: "DYNAMIC_BROKER_LOGGER_CONFIG",
    ConfigSource.CLIENT_METRICS_CONFIG: "DYNAMIC_CLIENT_METRICS_CONFIG",
    ConfigSource.GROUP_CONFIG: "DYNAMIC_GROUP_CONFIG",
}
"""Where the names of the protocol and of Java's client differ."""


def _source(number: int) -> str:
    known = number in ConfigSource.__members__.values()
    return _JAVA_NAMES.get(number, ConfigSource(number).name if known else "UNKNOWN")


def _as_json(option: ConfigEntry) -> dict[str, Any]:
    return {
        "name": option.name,
        "value": option.value,
        "sensitive": option.is_sensitive,
        "source": _source(option.source),
        "synonyms": [{"name": s.name, "value": s.value, "source": _source(s.source)} for s in option.synonyms],
    }
