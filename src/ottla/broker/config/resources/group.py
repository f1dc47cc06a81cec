"""Configs of groups (KIP-848, KIP-932, KIP-1071). They override the broker's defaults, within its bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.broker.config.config_entries import DEFAULT_CONFIG, ConfigSource, Entry, class_entries
from ottla.broker.request_context import RequestContext
from ottla.cluster.store import config_entities
from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.group import GroupConfig
from ottla.coordinator.group.common.group_configs import (
    CONSUMER,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    SHARE,
    STREAMS,
    bounds,
    maximum,
)
from ottla.errors import ConfigurationError, InvalidConfigError, InvalidRequestError
from ottla.security.acl import ResourceType

GROUP_CONFIG = 8


class GroupResource:
    """Groups, whose configs are stored below `/config/groups`. A group with configs need not exist yet."""

    ruled_as = ResourceType.GROUP
    lists: frozenset[str] = frozenset()

    def path(self, name: str) -> str:
        return config_entities.entity(config_entities.GROUPS, name)

    def names(self, context: RequestContext) -> Iterable[str]:
        return sorted(
            config_entities.name_of(path) or ""
            for path, options in context.broker.image.configs.items()
            if path.startswith(f"{config_entities.GROUPS}/") and options
        )

    def entries(self, name: str, context: RequestContext) -> Iterable[Entry]:
        places = {
            key: ConfigSource(DEFAULT_CONFIG, f"group.{key}" if f"group.{key}" in BrokerConfig.options else key, value)
            for key, value in _defaults(context.broker.config.values).items()
        }
        return class_entries(GroupConfig, self.options(name, context), GROUP_CONFIG, places)

    def options(self, name: str, context: RequestContext) -> Mapping[str, str]:
        if not name:
            raise InvalidRequestError("Group name must not be empty.")
        return context.broker.image.configs.get(config_entities.entity(config_entities.GROUPS, name), {})

    def check(self, name: str, options: Mapping[str, str | None], context: RequestContext) -> dict[str, str]:
        """Return the configs to set.

        Raises InvalidConfigError for an unknown config, a null value, a value that is invalid or outside the broker's
        bounds, and a session timeout that is not longer than the heartbeat interval.
        """
        checked = {}
        for key, value in options.items():
            if key not in GroupConfig.options:
                raise InvalidConfigError(f"Unknown group config name: {key}")
            if value is None:
                raise InvalidConfigError(f"Null value not supported for group configs: {key}")
            checked[key] = value
        values = context.broker.config.values
        merged = _defaults(values) | checked
        try:
            config = GroupConfig(merged)
        except ConfigurationError as error:
            raise InvalidConfigError(error.message) from None
        for key in checked:
            if f"group.{key}" in values:
                _check_bounds(key, config.values[key], values)
        for kind in (CONSUMER, SHARE, STREAMS):
            session, heartbeat = f"{kind}.{SESSION_TIMEOUT}", f"{kind}.{HEARTBEAT_INTERVAL}"
            if config.values[heartbeat] >= config.values[session]:
                raise InvalidConfigError(f"{session} must be greater than {heartbeat}")
        return checked

    async def set(self, name: str, options: Mapping[str, str], context: RequestContext) -> None:
        await context.broker.config_store.set(self.path(name), options)


def _defaults(broker: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of all group configs: the broker's values, or Kafka's defaults if the broker has none."""
    return {key: broker.get(f"group.{key}", option.default) for key, option in GroupConfig.options.items()}


def _check_bounds(key: str, value: int, broker: Mapping[str, int]) -> None:
    kind, _, option = key.partition(".")
    least, most = bounds(key, broker)
    if value < least:
        raise InvalidConfigError(f"{key} must be greater than or equal to group.{kind}.min.{option} ({least})")
    if value > most:
        raise InvalidConfigError(f"{key} must be less than or equal to {maximum(key)} ({most})")
