"""The numeric group configs (resource type GROUP), limited to the bounds that the broker's configs set."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.cluster.image.cluster_image import ClusterImage
from ottla.cluster.store import config_entities
from ottla.config.broker.broker_config import BrokerConfig

CONSUMER, SHARE, STREAMS = "consumer", "share", "streams"
SESSION_TIMEOUT = "session.timeout.ms"
HEARTBEAT_INTERVAL = "heartbeat.interval.ms"
RECORD_LOCK_DURATION = "record.lock.duration.ms"
DELIVERY_COUNT_LIMIT = "delivery.count.limit"
MAX_RECORD_LOCKS = "partition.max.record.locks"
STANDBY_REPLICAS = "num.standby.replicas"
INITIAL_REBALANCE_DELAY = "initial.rebalance.delay.ms"
ASSIGNMENT_INTERVAL = "assignment.interval.ms"
MAXIMA = {"streams.num.standby.replicas": "group.streams.max.standby.replicas"}
"""Broker configs for maximum values that do not follow the pattern group.TYPE.max.NAME."""


class GroupConfigs:
    """The numeric configs of all groups of one type. They are dynamic, so each call looks up the current value."""

    def __init__(self, kind: str, config: BrokerConfig, image: Callable[[], ClusterImage]) -> None:
        self._kind = kind
        self._config = config
        self._image = image

    def session_timeout_ms(self, group_id: str) -> int:
        return self._value(group_id, SESSION_TIMEOUT)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return self._value(group_id, HEARTBEAT_INTERVAL)

    def record_lock_ms(self, group_id: str) -> int:
        """Return the time in ms for which a member of a share group may hold a record that it has acquired."""
        return self._value(group_id, RECORD_LOCK_DURATION)

    def delivery_count_limit(self, group_id: str) -> int:
        """Return the maximum number of deliveries of one record to a share group."""
        return self._value(group_id, DELIVERY_COUNT_LIMIT)

    def max_record_locks(self, group_id: str) -> int:
        """Return how many records of one partition a share group may have in flight."""
        return self._value(group_id, MAX_RECORD_LOCKS)

    def standby_replicas(self, group_id: str) -> int:
        """Return the number of standby replicas of each stateful task of a streams group."""
        return self._value(group_id, STANDBY_REPLICAS)

    def initial_rebalance_delay_ms(self, group_id: str) -> int:
        """Return the time in ms that the first assignment of a streams group waits for more members."""
        return self._value(group_id, INITIAL_REBALANCE_DELAY)

    def assignment_interval_ms(self, group_id: str) -> int:
        """Return the minimum time in ms between two assignments of a group."""
        return self._value(group_id, ASSIGNMENT_INTERVAL)

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
        least, most = bounds(f"{kind}.{name}", values)
        return int(min(max(int(own), least), most))


def bounds(name: str, broker: Mapping[str, int]) -> tuple[int, float]:
    """Return the minimum and the maximum that broker configs set for a group config; by default 0 and infinity."""
    kind, _, option = name.partition(".")
    return broker.get(f"group.{kind}.min.{option}", 0), broker.get(maximum(name), float("inf"))


def maximum(name: str) -> str:
    """Return the name of the broker config for the maximum of a group config. Not all of them have one."""
    kind, _, option = name.partition(".")
    return MAXIMA.get(name, f"group.{kind}.max.{option}")
