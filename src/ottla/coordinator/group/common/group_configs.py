"""Options of single groups (resource type GROUP): what is set on a group, within the broker's bounds."""

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
    """Those of one kind of groups; looked up as they are now, since they can be set while the group lives."""

    def __init__(self, kind: str, config: BrokerConfig, image: Callable[[], ClusterImage]) -> None:
        self._kind = kind
        self._config = config
        self._image = image

    def session_timeout_ms(self, group_id: str) -> int:
        """How long a member may be silent."""
        return self._value(group_id, SESSION_TIMEOUT)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """How often members send heartbeats."""
        return self._value(group_id, HEARTBEAT_INTERVAL)

    def record_lock_ms(self, group_id: str) -> int:
        """How long a record belongs to the member of a share group that acquired it."""
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
