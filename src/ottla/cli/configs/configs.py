"""Describe and alter configs, quotas and SCRAM credentials, as kafka-configs.sh does."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ottla.cli.configs import users
from ottla.cli.configs.entities import DEFAULT, ENTITY_OPTIONS, Entity, entities
from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.command import Action
from ottla.cli.framework.connection import connection
from ottla.cli.framework.options import Flag, Option
from ottla.cli.framework.output import Output
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.configs import ConfigEntry, ConfigResource, ConfigResourceType, ConfigSource
from ottla.config import properties
from ottla.errors import ConfigurationError, InvalidConfigError, UnsupportedVersionError

Changes = Mapping[str, str | None]
"""The new value of each config; None removes the config."""

_COMMA: Final = re.compile(r",(?![^\[]*\])")
"""Matches a comma between two configs, but not within a list in brackets."""


def describe(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> Any:
    """Print the configs, or the quotas and SCRAM credentials, of the selected entities, and return them for JSON."""
    targets = entities(args)
    return (_describe if targets[0].kind.resource else users.describe)(admin, targets, args, output)


def alter(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> None:
    """Set and remove the configs, quotas or SCRAM credentials of the selected entity. Raises ConfigurationError for
    invalid changes, such as a combination of quotas and credentials, and InvalidConfigError if a quota to remove is not
    set, or a logger to remove does not exist.
    """
    targets = entities(args)
    if targets[0].kind.resource:
        _alter(admin, targets, _changes(args), output)
    else:
        users.alter(admin, targets, _changes(args))
    print(f"Completed updating {targets[0]}.")


def _check_entities(args: argparse.Namespace) -> None:
    entities(args)


def _check_alter(args: argparse.Namespace) -> None:
    if args.add_config and args.add_config_file:
        raise ConfigurationError("--add-config and --add-config-file cannot be used together")
    if not (args.add_config or args.add_config_file or args.delete_config):
        raise ConfigurationError("--alter needs --add-config, --add-config-file or --delete-config")
    _changes(args)


class _ZooKeeper(argparse.Action):
    """Rejects `--zookeeper`, which Kafka's tool had up to 3.9, with a ConfigurationError."""

    def __call__(self, *_: Any) -> None:
        raise ConfigurationError(
            "--zookeeper is not supported: configs are altered through a broker. Use --bootstrap-server HOST:PORT"
        )


COMMAND = AdminCommand(
    check=_check_entities,
    actions=(
        Action("describe", "print configs, quotas or SCRAM credentials", describe),
        Action("alter", "set and remove configs, quotas or SCRAM credentials", alter, check=_check_alter),
    ),
    options=(
        *connection(),
        Option("--zookeeper HOST:PORT", "not supported: use --bootstrap-server", action=_ZooKeeper),
        *ENTITY_OPTIONS,
        Flag(
            "--all",
            "also print inherited and default values, not only configs that are set on the entity",
            actions="describe",
        ),
        Option(
            "--add-config K=V,K=[V,V]",
            "configs, quotas or SCRAM credentials to set; a value with commas needs brackets",
            actions="alter",
        ),
        Option(
            "--add-config-file FILE",
            "properties file of configs to set, in place of --add-config",
            Path,
            actions="alter",
        ),
        Option(
            "--delete-config K,K",
            "names of configs, quotas or SCRAM credentials to remove; for a config, the inherited or default value "
            "applies again",
            actions="alter",
        ),
        Flag("--force", "accepted for compatibility with Kafka's tool; this command never asks for confirmation"),
        Flag("--json", "print JSON instead of text", actions="describe"),
    ),
)


def _changes(args: argparse.Namespace) -> Changes:
    added = dict(properties.load(args.add_config_file)) if args.add_config_file else pairs(args.add_config or "")
    removed = [name.strip() for name in (args.delete_config or "").split(",") if name.strip()]
    for name in removed:
        if name in added:
            raise ConfigurationError(f"--delete-config: {name} would be set and removed at once; leave one out")
    return {**added, **dict.fromkeys(removed)}


def pairs(text: str) -> dict[str, str]:
    """Parse configs such as `a=1,b=[x,y]`. Raises ConfigurationError for a part without `=` or without a name. Empty
    values are allowed, and empty parts are ignored.
    """
    configs = {}
    for part in filter(None, map(str.strip, _COMMA.split(text))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            # The value may be a password.
            raise ConfigurationError(
                f"--add-config: {name!r} is not allowed: expected name=value, or name=[a,b] for a value with commas"
            )
        value = value.strip()
        configs[name.strip()] = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    return configs


def _alter(admin: KafkaAdminClient, targets: list[Entity], changes: Changes, output: Output) -> None:
    (entity,) = targets
    assert entity.kind.resource is not None, "users have quotas"
    assert entity.name is not None, "checked with the command line"
    missing = _missing(admin, entity, {name for name, value in changes.items() if value is None})
    if missing:
        # Kafka's tool says nothing since 4.0, where it failed before; the name may be misspelt.
        output.warn(f"Not set, so not removed: {', '.join(sorted(missing))}")
    admin.incremental_alter_configs([ConfigResource(entity.kind.resource, entity.name, dict(changes))])


def _missing(admin: KafkaAdminClient, entity: Entity, removed: set[str]) -> set[str]:
    """Return those of the configs in `removed` that are not set on the entity. For a broker's loggers, return none, but
    raise InvalidConfigError if a name is not that of a logger.
    """
    assert entity.kind.resource is not None
    assert entity.name is not None
    if not removed:
        return set()
    (entries,) = admin.describe_configs([ConfigResource(entity.kind.resource, entity.name)]).values()
    # Loggers whose level is not set are also listed: Kafka's tool accepts all existing loggers.
    is_logger = entity.kind.resource == ConfigResourceType.BROKER_LOGGER
    missing = removed - {entry.name for entry in entries.values() if is_logger or _is_own(entry, entity)}
    if missing and is_logger:
        raise InvalidConfigError(f"Invalid config(s): {','.join(sorted(missing))}: not set, so not removed")
    return missing


def _is_own(entry: ConfigEntry, entity: Entity) -> bool:
    return entity.kind.prints_all or entry.is_modified


def _describe(
    admin: KafkaAdminClient, targets: list[Entity], args: argparse.Namespace, output: Output
) -> list[dict[str, Any]]:
    target = targets[0]
    assert target.kind.resource is not None, "users have quotas"
    existing = _existing(admin, target)
    if target.name and existing is not None and target.name not in existing and not args.all:
        output.text(f"The {target.kind.singular} '{target.name}' doesn't exist and doesn't have dynamic config.")
        return []
    names = (existing or []) if target.name is None else [target.name]
    resources = [ConfigResource(target.kind.resource, name) for name in names]
    configs = admin.describe_configs(resources, include_synonyms=True) if resources else {}
    document = []
    for resource in resources:
        entity = Entity(target.kind, resource.name)
        entries = sorted(e for e in configs[resource].values() if args.all or _is_own(e, entity))
        output.text(*_lines(entity, entries, every=args.all))
        document.append({"type": target.kind.name, "name": entity.name, "configs": [_as_json(e) for e in entries]})
    return document


def _existing(admin: KafkaAdminClient, entity: Entity) -> list[str] | None:
    """Return the names of the existing entities of the entity's kind. Return None if one broker, its loggers or the
    default is selected: a request to describe the configs of a broker fails if the broker does not exist.
    """
    match entity.kind.resource:
        case ConfigResourceType.TOPIC:
            return sorted(admin.list_topics())
        case ConfigResourceType.GROUP:
            return sorted({group.group_id for group in admin.list_groups()} | _groups_with_configs(admin, entity))
        case ConfigResourceType.CLIENT_METRICS:
            return sorted(admin.list_client_metrics_resources())
    if entity.name is not None:
        return None
    brokers = [str(node) for node in sorted(node.id for node in admin.describe_cluster().nodes)]
    return [*brokers, DEFAULT] if entity.kind.has_default else brokers


def _groups_with_configs(admin: KafkaAdminClient, entity: Entity) -> set[str]:
    """Return the groups that have configs; they may have no members. If `entity` is one group, check only that one. All
    groups can only be listed since Kafka 4.1 (KIP-1142); before, return an empty set.
    """
    group = ConfigResourceType.GROUP
    if entity.name is None:
        with suppress(UnsupportedVersionError):
            return {resource.name for resource in admin.list_config_resources([group])}
        return set()
    (entries,) = admin.describe_configs([ConfigResource(group, entity.name)]).values()
    return {entity.name} if any(_is_own(entry, entity) for entry in entries.values()) else set()


def _lines(entity: Entity, entries: Iterable[ConfigEntry], *, every: bool) -> Iterator[str]:
    if entity.name == DEFAULT:
        yield f"Default configs for {entity.kind.name} in the cluster are:"
    else:
        yield f"{'All' if every else 'Dynamic'} configs for {entity.kind.singular} {entity.name} are:"
    for entry in entries:
        synonyms = ", ".join(f"{_source(s.source)}:{s.name}={_text(s.value)}" for s in entry.synonyms)
        sensitive = str(entry.is_sensitive).lower()
        yield f"  {entry.name}={_text(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _text(value: str | None) -> str:
    return "null" if value is None else value


_JAVA_NAMES: Final[Mapping[int, str]] = {
    ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG: "DYNAMIC_BROKER_LOGGER_CONFIG",
    ConfigSource.CLIENT_METRICS_CONFIG: "DYNAMIC_CLIENT_METRICS_CONFIG",
    ConfigSource.GROUP_CONFIG: "DYNAMIC_GROUP_CONFIG",
}
"""Java's names of config sources that differ from those of `ConfigSource`."""


def _source(number: int) -> str:
    is_valid = number in ConfigSource.__members__.values()
    return _JAVA_NAMES.get(number, ConfigSource(number).name if is_valid else "UNKNOWN")


def _as_json(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "sensitive": entry.is_sensitive,
        "source": _source(entry.source),
        "synonyms": [{"name": s.name, "value": s.value, "source": _source(s.source)} for s in entry.synonyms],
    }
