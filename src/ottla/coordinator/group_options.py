"""Options of single groups (resource type GROUP): what is set on a group, within the broker's bounds."""

from __future__ import annotations

from collections.abc import Callable

from ottla.cluster import entities
from ottla.cluster.metadata import ClusterImage
from ottla.config.broker import BrokerConfig

SESSION_TIMEOUT = "session.timeout.ms"
HEARTBEAT_INTERVAL = "heartbeat.interval.ms"


class GroupOptions:
    """Looked up as they are now, since they can be set while the group lives."""

    def __init__(self, config: BrokerConfig, image: Callable[[], ClusterImage]) -> None:
        self._config = config
        self._image = image

    def session_timeout_ms(self, group_id: str) -> int:
        """How long a member may be silent."""
        return self._value(group_id, SESSION_TIMEOUT)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """How often members send heartbeats."""
        return self._value(group_id, HEARTBEAT_INTERVAL)

    def _value(self, group_id: str, name: str) -> int:
        values: dict[str, int] = self._config.values
        own = self._image().options.get(entities.entity(entities.GROUPS, group_id), {}).get(f"consumer.{name}")
        if own is None:
            return values[f"group.consumer.{name}"]
        return min(max(int(own), values[f"group.consumer.min.{name}"]), values[f"group.consumer.max.{name}"])
