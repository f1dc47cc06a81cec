"""Configs of groups (resource type GROUP), within the broker's limits."""

from __future__ import annotations

from collections.abc import Callable

from ottla.cluster.image.cluster_image import ClusterImage
from ottla.cluster.store import config_entities
from ottla.config.broker import BrokerConfig

CONSUMER, SHARE = "consumer", "share"
SESSION_TIMEOUT = "session.timeout.ms"
HEARTBEAT_INTERVAL = "heartbeat.interval.ms"
RECORD_LOCK_DURATION = "record.lock.duration.ms"


class GroupConfigs:
    """The configs of groups of one type, read at each use, as they may change."""

    def __init__(self, kind: str, config: BrokerConfig, image: Callable[[], ClusterImage]) -> None:
        self._kind = kind
        self._config = config
        self._image = image

    def session_timeout_ms(self, group_id: str) -> int:
        return self._value(group_id, SESSION_TIMEOUT)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return self._value(group_id, HEARTBEAT_INTERVAL)

    def record_lock_ms(self, group_id: str) -> int:
        """Return how long a member of a share group may hold a record that it has acquired."""
        return self._value(group_id, RECORD_LOCK_DURATION)

    def _value(self, group_id: str, name: str) -> int:
        values: dict[str, int] = self._config.values
        kind = self._kind
        own = (
            self._image()
            .configs.get(config_entities.entity(config_entities.GROUPS, group_id), {})
            .get(f"{kind}.{name}")
        )
        if own is None:
            return values[f"group.{kind}.{name}"]
        return min(max(int(own), values[f"group.{kind}.min.{name}"]), values[f"group.{kind}.max.{name}"])
