"""Options of topics, brokers, their loggers, groups and client metrics: described, set, listed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from ottla.client.admin.driver import AdminCalls, Errors, check, failure
from ottla.errors import KafkaError, UnknownTopicOrPartitionError, UnsupportedVersionError
from ottla.protocol.messages import alter_configs as alter
from ottla.protocol.messages import describe_configs as describe
from ottla.protocol.messages import incremental_alter_configs as incremental
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest


class ConfigResourceType(IntEnum):
    """What has options."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


TOPIC = ConfigResourceType.TOPIC
BROKER = ConfigResourceType.BROKER


class AlterConfigOp(IntEnum):
    """What is done to an option. Append and subtract are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(IntEnum):
    """Where an option's value comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


Change = str | None | tuple[AlterConfigOp | int, str | None]
"""A value to set, None to remove the option, or what to do and with what value."""


class ConfigResource(NamedTuple):
    """What has options: a type and a name (a broker's is its id, empty for all of them).

    `configs` are the options to set, or (names only, or a mapping) to describe.
    """

    resource_type: ConfigResourceType | int | str
    name: str
    configs: Mapping[str, Change] | Sequence[str] | None = None

    @property
    def plain(self) -> ConfigResource:
        """Type (as a number) and name alone."""
        kind = self.resource_type
        return ConfigResource(ConfigResourceType[kind.upper()] if isinstance(kind, str) else int(kind), self.name)


class ConfigSynonym(NamedTuple):
    """A value that would count if those before it were removed."""

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """One option. The source is a `ConfigSource`, the type Kafka's number of it (1 boolean, 2 string, 3 int…)."""

    name: str
    value: str | None
    read_only: bool
    source: int
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    config_type: int = 0
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.source == ConfigSource.DEFAULT_CONFIG

    @property
    def is_modified(self) -> bool:
        """Whether the value was set on the resource itself."""
        return self.source not in INHERITED


INHERITED: Final = (
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    ConfigSource.STATIC_BROKER_CONFIG,
    ConfigSource.DEFAULT_CONFIG,
)
FILTERS: Final[dict[str, Callable[[ConfigEntry], bool]]] = {
    "all": lambda entry: True,
    "modified": lambda entry: entry.is_modified,
    "default": lambda entry: not entry.is_modified,
    "static": lambda entry: entry.source == ConfigSource.STATIC_BROKER_CONFIG,
}
"""What describe_configs leaves."""

Entries = dict[str, ConfigEntry]


class ConfigsAdmin(AdminCalls):
    """Calls about options."""

    async def describe_configs(
        self,
        config_resources: Iterable[ConfigResource],
        timeout_ms: float | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        *,
        config_filter: str = "all",
        errors: Errors | None = None,
    ) -> dict[ConfigResource, Entries]:
        """The options of resources (with names in `configs`: only those), by resource (without them) and name.

        The filter is all, modified (set on the resource itself), default (all others) or static (of the broker's file).
        """
        wants = FILTERS.get(config_filter.lower())
        if wants is None:
            raise ValueError(f"config_filter: {config_filter!r} is not allowed: one of {', '.join(FILTERS)} is wanted")
        wanted = {resource.plain: resource for resource in config_resources}

        async def attempt(left: list[ConfigResource]) -> dict[ConfigResource, Entries | KafkaError]:
            found: dict[ConfigResource, Entries | KafkaError] = {}
            for node, some in (await self._by_node(left)).items():
                request = describe.DescribeConfigsRequest(
                    resources=[_described(wanted[plain]) for plain in some],
                    include_synonyms=include_synonyms,
                    include_documentation=include_documentation,
                )
                response = await (
                    self.connections.ask_any(request) if node is None else self.connections.ask(node, request)
                )
                for result in response.results:
                    plain = ConfigResource(result.resource_type, result.resource_name)
                    error = failure(result.error_code, result.resource_name, result.error_message)
                    found[plain] = error or {e.name: e for e in map(_entry, result.configs) if wants(e)}
            return found

        return await self.settled(wanted, attempt, timeout_ms, errors, doubted=UnknownTopicOrPartitionError)

    async def _by_node(self, resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
        """Brokers answer for themselves and their loggers; everything else any of them knows."""
        await self.nodes()
        found: dict[int | None, list[ConfigResource]] = {}
        for resource in resources:
            own = resource.resource_type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
            found.setdefault(int(resource.name) if own and resource.name else None, []).append(resource)
        return found

    async def alter_configs(
        self,
        config_resources: Iterable[ConfigResource] | Mapping[ConfigResource, Mapping[str, Change]],
        timeout_ms: float | None = None,
        incremental: bool | None = True,
        validate_only: bool = False,
        *,
        raise_on_unknown: bool = True,
        errors: Errors | None = None,
    ) -> None:
        """Set options: those in `configs`, None removing one, `(AlterConfigOp.APPEND, "x")` adding to a list.

        Others stay, unless `incremental` is False: then every option that is not named is removed. Brokers refuse
        unknown options of their own accord; `raise_on_unknown` is kafka-python's.
        """
        wanted = _changes(config_resources)

        async def attempt(left: list[ConfigResource]) -> dict[ConfigResource, KafkaError | None]:
            found: dict[ConfigResource, KafkaError | None] = {}
            for node, some in (await self._by_node(left)).items():
                target = await self.controller() if node is None else node
                make = _incrementally if incremental is not False else _as_a_whole
                request = make({plain: wanted[plain] for plain in some}, validate_only)
                response: Any = await self.connections.ask(target, request)
                for r in response.responses:
                    plain = ConfigResource(r.resource_type, r.resource_name)
                    found[plain] = failure(r.error_code, r.resource_name, r.error_message)
            return found

        await self.settled(wanted, attempt, timeout_ms, errors, doubted=UnknownTopicOrPartitionError)

    async def incremental_alter_configs(
        self,
        configs: Iterable[ConfigResource] | Mapping[ConfigResource, Mapping[str, Change]],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Java's name for alter_configs."""
        await self.alter_configs(configs, timeout_ms, True, validate_only, errors=errors)

    async def reset_configs(
        self,
        config_resources: Iterable[ConfigResource],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        *,
        raise_on_unknown: bool = True,
        incremental: bool | None = True,
        errors: Errors | None = None,
    ) -> None:
        """Remove options, so that their defaults count again: those in `configs`, a mapping or names only."""
        removed = [
            ConfigResource(r.resource_type, r.name, dict.fromkeys(r.configs or (), None)) for r in config_resources
        ]
        await self.alter_configs(removed, timeout_ms, True, validate_only, errors=errors)

    async def list_config_resources(
        self, resource_types: Collection[ConfigResourceType | int | str] = (), timeout_ms: float | None = None
    ) -> list[ConfigResource]:
        """Resources that can have options, of some types or of all. Brokers before 4.1 know client metrics only."""
        kinds = [int(ConfigResource(kind, "").plain.resource_type) for kind in resource_types]

        def request(version: int) -> ListConfigResourcesRequest:
            if version < 1 and kinds != [ConfigResourceType.CLIENT_METRICS]:
                raise UnsupportedVersionError("the broker lists resources of type CLIENT_METRICS only")
            return ListConfigResourcesRequest(resource_types=kinds if version else [])

        async def attempt() -> list[ConfigResource]:
            response = await self.connections.ask_any_of(ListConfigResourcesRequest, request)
            check(response.error_code, "config resources")
            return sorted(ConfigResource(r.resource_type, r.resource_name) for r in response.config_resources)

        return await self.retried(attempt, timeout_ms)

    async def list_client_metrics_resources(self, timeout_ms: float | None = None) -> list[str]:
        """The names of client metrics subscriptions (KIP-714)."""
        found = await self.list_config_resources([ConfigResourceType.CLIENT_METRICS], timeout_ms)
        return [resource.name for resource in found]


def _described(resource: ConfigResource) -> describe.DescribeConfigsResource:
    plain = resource.plain
    return describe.DescribeConfigsResource(
        resource_type=int(plain.resource_type),
        resource_name=plain.name,
        configuration_keys=None if resource.configs is None else list(resource.configs),
    )


def _entry(c: describe.DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        c.name,
        c.value,
        c.read_only,
        ConfigSource.DEFAULT_CONFIG if c.is_default else c.config_source,
        c.is_sensitive,
        tuple(ConfigSynonym(s.name, s.value, s.source) for s in c.synonyms),
        c.config_type,
        c.documentation,
    )


def _changes(
    given: Iterable[ConfigResource] | Mapping[ConfigResource, Mapping[str, Change]],
) -> dict[ConfigResource, Any]:
    if isinstance(given, Mapping):
        return {resource.plain: dict(changes) for resource, changes in given.items()}
    found = {}
    for resource in given:
        if not isinstance(resource.configs, Mapping):
            raise TypeError(f"{resource.name}: configs must map names to values")
        found[resource.plain] = dict(resource.configs)
    return found


def _operation(change: Change) -> tuple[int, str | None]:
    if isinstance(change, tuple):
        return int(change[0]), change[1]
    return (AlterConfigOp.DELETE, None) if change is None else (AlterConfigOp.SET, change)


def _incrementally(changes: Mapping[ConfigResource, Mapping[str, Change]], validate_only: bool) -> Any:
    resources = []
    for resource, options in changes.items():
        configs = []
        for name, change in options.items():
            operation, value = _operation(change)
            configs.append(incremental.AlterableConfig(name=name, config_operation=operation, value=value))
        resources.append(
            incremental.AlterConfigsResource(
                resource_type=int(resource.resource_type), resource_name=resource.name, configs=configs
            )
        )
    return incremental.IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)


def _as_a_whole(changes: Mapping[ConfigResource, Mapping[str, Change]], validate_only: bool) -> Any:
    resources = []
    for resource, options in changes.items():
        configs = []
        for name, change in options.items():
            operation, value = _operation(change)
            if operation not in (AlterConfigOp.SET, AlterConfigOp.DELETE):
                raise UnsupportedVersionError(f"{name}: lists are appended to with incremental=True only")
            if operation == AlterConfigOp.SET:
                configs.append(alter.AlterableConfig(name=name, value=value))
        resources.append(
            alter.AlterConfigsResource(
                resource_type=int(resource.resource_type), resource_name=resource.name, configs=configs
            )
        )
    return alter.AlterConfigsRequest(resources=resources, validate_only=validate_only)
