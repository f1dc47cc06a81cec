"""Configs of topics, brokers, loggers, groups and client metrics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from ottla.client.admin.driver import AdminCall, AdminDriver, Errors, Shares, failure
from ottla.errors import KafkaError, UnknownTopicOrPartitionError, UnsupportedVersionError
from ottla.protocol.messages import alter_configs as alter
from ottla.protocol.messages import describe_configs as describe
from ottla.protocol.messages import incremental_alter_configs as incremental
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest


class ConfigResourceType(IntEnum):
    """A type of resource with configs."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


TOPIC = ConfigResourceType.TOPIC
BROKER = ConfigResourceType.BROKER


class AlterConfigOp(IntEnum):
    """An operation on a config. APPEND and SUBTRACT change lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(IntEnum):
    """The source of a config's value."""

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
"""A value to set, None to remove the config, or an operation with its value."""


class ConfigResource(NamedTuple):
    """A resource with configs: its type and name. The name of a broker is its id, or empty for the default of all
    brokers.

    `configs` maps names to changes, or contains the names of the configs to describe or to reset (a list, or the keys
    of a mapping).
    """

    resource_type: ConfigResourceType | int | str
    name: str
    configs: Mapping[str, Change] | Sequence[str] | None = None

    @property
    def plain(self) -> ConfigResource:
        """The same resource without configs, and with its type as a number."""
        kind = self.resource_type
        return ConfigResource(ConfigResourceType[kind.upper()] if isinstance(kind, str) else int(kind), self.name)


class ConfigSynonym(NamedTuple):
    """A value of a config from one source. It applies if the synonyms before it in the list are removed."""

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """A config of a resource. `source` is a number of `ConfigSource`, or -1 if the broker does not report it.
    `config_type` is Kafka's number of the type (1 boolean, 2 string, 3 int…). The synonyms, if they were requested,
    start with the value that applies. `own_source` is the source of the configs that are set on the resource itself;
    None if it is unknown.
    """

    name: str
    value: str | None
    read_only: bool
    source: int
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    config_type: int = 0
    documentation: str | None = None
    own_source: int | None = None

    @property
    def is_default(self) -> bool:
        """Whether the value is the default, because the config is not set anywhere."""
        return self.source == ConfigSource.DEFAULT_CONFIG

    @property
    def is_modified(self) -> bool:
        """Whether the value is set on the resource itself. Inherited values do not count: a topic inherits from its
        broker, a broker from its configuration file and from the default of all brokers. Brokers before 1.1 do not
        report sources: there, all values but defaults count.
        """
        return self.source not in INHERITED if self.own_source is None else self.source == self.own_source


OWN_SOURCES: Final[Mapping[int, ConfigSource]] = {
    ConfigResourceType.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ConfigResourceType.BROKER: ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigResourceType.BROKER_LOGGER: ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
    ConfigResourceType.CLIENT_METRICS: ConfigSource.CLIENT_METRICS_CONFIG,
    ConfigResourceType.GROUP: ConfigSource.GROUP_CONFIG,
}
"""The source of the configs that are set on a resource itself, by type. The default of all brokers has another one."""
INHERITED: Final = (
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    ConfigSource.STATIC_BROKER_CONFIG,
    ConfigSource.DEFAULT_CONFIG,
)
"""The sources of inherited values, for entries without an `own_source`."""
FILTERS: Final[dict[str, Callable[[ConfigEntry], bool]]] = {
    "all": lambda entry: True,
    "modified": lambda entry: entry.is_modified,
    "default": lambda entry: not entry.is_modified,
    "static": lambda entry: entry.source == ConfigSource.STATIC_BROKER_CONFIG,
}
"""The values of describe_configs' `config_filter`, with the entries that each selects."""

Entries = dict[str, ConfigEntry]


class ConfigsAdmin(AdminDriver):
    """Admin calls for configs."""

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
        """Return the configs of resources, by resource and config name.

        If the `configs` of a resource names some, only these are returned. The keys of the result are resources without
        `configs`. `config_filter` is "all", "modified" (set on the resource itself), "default" (all others; see
        `ConfigEntry.is_modified`) or "static" (from the broker's configuration file).
        """
        is_included = FILTERS.get(config_filter.lower())
        if is_included is None:
            raise ValueError(f"config_filter: {config_filter!r} is not allowed: expected one of {', '.join(FILTERS)}")
        resources = {resource.plain: resource for resource in config_resources}
        call: AdminCall[ConfigResource, Entries] = AdminCall(
            lambda remaining: describe.DescribeConfigsRequest(
                resources=[_to_describe(resources[plain]) for plain in remaining],
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
            ),
            lambda response, *_: {
                ConfigResource(r.resource_type, r.resource_name): _failure(r)
                or {e.name: e for e in _entries(r) if is_included(e)}
                for r in response.results
            },
            _to_own_brokers,
            retried_briefly=(UnknownTopicOrPartitionError,),
        )
        return await self.call_per_key(call, resources, timeout_ms, errors)

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
        """Change the configs of resources. A config is set to a value, removed by None, or changed by an operation:
        `(AlterConfigOp.APPEND, "x")` appends to a list.

        Configs that are not named stay as they are, unless `incremental` is False: then they are removed. The broker
        decides whether it accepts unknown configs; kafka-python's `raise_on_unknown` is ignored.
        """
        changes = _changes(config_resources)
        make_request = _incremental if incremental is not False else _complete

        async def lookup(driver: AdminDriver, remaining: list[ConfigResource]) -> Shares:
            by_broker, failed = await _to_own_brokers(driver, remaining)
            merged: dict[int | None, list[ConfigResource]] = {}
            for broker, share in by_broker.items():
                merged.setdefault(await driver.controller() if broker is None else broker, []).extend(share)
            return merged, failed

        call: AdminCall[ConfigResource, None] = AdminCall(
            lambda remaining: make_request({plain: changes[plain] for plain in remaining}, validate_only),
            lambda response, *_: {
                ConfigResource(r.resource_type, r.resource_name): _failure(r) for r in response.responses
            },
            lookup,
            retried_briefly=(UnknownTopicOrPartitionError,),
        )
        await self.call_per_key(call, changes, timeout_ms, errors)

    async def incremental_alter_configs(
        self,
        configs: Iterable[ConfigResource] | Mapping[ConfigResource, Mapping[str, Change]],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Change configs. Java's name for `alter_configs`."""
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
        """Remove the configs that each resource names in its `configs` (a list, or the keys of a mapping), so that
        inherited values or defaults apply again. kafka-python's `raise_on_unknown` and `incremental` are ignored.
        """
        removed = [
            ConfigResource(r.resource_type, r.name, dict.fromkeys(r.configs or (), None)) for r in config_resources
        ]
        await self.alter_configs(removed, timeout_ms, True, validate_only, errors=errors)

    async def list_config_resources(
        self, resource_types: Collection[ConfigResourceType | int | str] = (), timeout_ms: float | None = None
    ) -> list[ConfigResource]:
        """Return the cluster's config resources of `resource_types` (default: all types).

        Brokers before 4.1 list client metrics only: UnsupportedVersionError is raised unless only that type is
        requested.
        """
        kinds = [int(ConfigResource(kind, "").plain.resource_type) for kind in resource_types]

        def request(version: int) -> ListConfigResourcesRequest:
            if version < 1 and kinds != [ConfigResourceType.CLIENT_METRICS]:
                raise UnsupportedVersionError("the broker lists resources of type CLIENT_METRICS only")
            return ListConfigResourcesRequest(resource_types=kinds if version else [])

        return await self.call(
            request,
            lambda response: sorted(
                ConfigResource(r.resource_type, r.resource_name) for r in response.config_resources
            ),
            timeout_ms,
            "config resources",
            of=ListConfigResourcesRequest,
        )

    async def list_client_metrics_resources(self, timeout_ms: float | None = None) -> list[str]:
        """Return the names of client metrics subscriptions (KIP-714)."""
        resources = await self.list_config_resources([ConfigResourceType.CLIENT_METRICS], timeout_ms)
        return [resource.name for resource in resources]


async def _to_own_brokers(_: AdminDriver, resources: list[ConfigResource]) -> Shares:
    """Route the configs and loggers of single brokers to the broker itself, and all others to any broker."""
    by_broker: dict[int | None, list[ConfigResource]] = {}
    for resource in resources:
        is_broker = resource.resource_type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
        by_broker.setdefault(int(resource.name) if is_broker and resource.name else None, []).append(resource)
    return by_broker, {}


def _failure(result: Any) -> KafkaError | None:
    return failure(result.error_code, result.resource_name, result.error_message)


def _to_describe(resource: ConfigResource) -> describe.DescribeConfigsResource:
    plain = resource.plain
    return describe.DescribeConfigsResource(
        resource_type=int(plain.resource_type),
        resource_name=plain.name,
        configuration_keys=None if resource.configs is None else list(resource.configs),
    )


def own_source(resource_type: int, name: str) -> ConfigSource | None:
    """Return the source of the configs that are set on a resource itself; None for an unknown type."""
    if resource_type == ConfigResourceType.BROKER and not name:
        return ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return OWN_SOURCES.get(resource_type)


def _entries(result: describe.DescribeConfigsResult) -> list[ConfigEntry]:
    own = own_source(result.resource_type, result.resource_name)
    return [_entry(c, own) for c in result.configs]


def _entry(c: describe.DescribeConfigsResourceResult, own: ConfigSource | None) -> ConfigEntry:
    return ConfigEntry(
        c.name,
        c.value,
        c.read_only,
        ConfigSource.DEFAULT_CONFIG if c.is_default else c.config_source,
        c.is_sensitive,
        tuple(ConfigSynonym(s.name, s.value, s.source) for s in c.synonyms),
        c.config_type,
        c.documentation,
        own if c.config_source >= 0 else None,  # brokers before 1.1 do not name sources
    )


def _changes(
    resources: Iterable[ConfigResource] | Mapping[ConfigResource, Mapping[str, Change]],
) -> dict[ConfigResource, Any]:
    if isinstance(resources, Mapping):
        return {resource.plain: dict(changes) for resource, changes in resources.items()}
    by_resource = {}
    for resource in resources:
        if not isinstance(resource.configs, Mapping):
            raise TypeError(f"{resource.name}: configs must map names to values")
        by_resource[resource.plain] = dict(resource.configs)
    return by_resource


def _operation(change: Change) -> tuple[int, str | None]:
    if isinstance(change, tuple):
        return int(change[0]), change[1]
    return (AlterConfigOp.DELETE, None) if change is None else (AlterConfigOp.SET, change)


def _incremental(changes: Mapping[ConfigResource, Mapping[str, Change]], validate_only: bool) -> Any:
    resources = []
    for resource, updates in changes.items():
        configs = []
        for name, change in updates.items():
            operation, value = _operation(change)
            configs.append(incremental.AlterableConfig(name=name, config_operation=operation, value=value))
        resources.append(
            incremental.AlterConfigsResource(
                resource_type=int(resource.resource_type), resource_name=resource.name, configs=configs
            )
        )
    return incremental.IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)


def _complete(changes: Mapping[ConfigResource, Mapping[str, Change]], validate_only: bool) -> Any:
    resources = []
    for resource, updates in changes.items():
        configs = []
        for name, change in updates.items():
            operation, value = _operation(change)
            if operation not in (AlterConfigOp.SET, AlterConfigOp.DELETE):
                raise UnsupportedVersionError(f"{name}: APPEND and SUBTRACT need incremental=True")
            if operation == AlterConfigOp.SET:
                configs.append(alter.AlterableConfig(name=name, value=value))
        resources.append(
            alter.AlterConfigsResource(
                resource_type=int(resource.resource_type), resource_name=resource.name, configs=configs
            )
        )
    return alter.AlterConfigsRequest(resources=resources, validate_only=validate_only)
