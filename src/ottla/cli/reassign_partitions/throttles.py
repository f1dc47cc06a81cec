"""Throttles of reassignments (KIP-73): rate limits of brokers, and the replicas of topics to which they apply.

The options of `--execute` set them before reassignments start. Unless `--preserve-throttles` is set, `--verify` removes
them when all reassignments and moves are complete, and `--cancel` removes them, too. Brokers that are not alive are
left out: each broker changes its own configs, and a broker that is down transfers nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.cli.reassign_partitions.plan_json import Assignment
from ottla.cli.reassign_partitions.states import Moving
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.configs import BROKER, TOPIC, Change, ConfigResource
from ottla.model import TopicPartition

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
"""The limits in bytes per second for sending throttled replicas (leader) and for fetching them (follower)."""
LOG_DIR_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"


class Route(NamedTuple):
    """The ids of the brokers that a partition is copied from, and of those that it is copied to."""

    sources: frozenset[int]
    destinations: frozenset[int]


Routes = Mapping[TopicPartition, Route]


def routes(moving: Moving, targets: Assignment, current: Assignment) -> dict[TopicPartition, Route]:
    """Return the routes of all partitions that are or will be reassigned. If a partition is already being reassigned,
    its sources stay the same.
    """
    by_partition = {
        tp: Route(frozenset(move.replicas) - frozenset(move.adding_replicas), frozenset(move.adding_replicas))
        for tp, move in moving.items()
    }
    for tp, replicas in targets.items():
        sources = by_partition[tp].sources if tp in by_partition else frozenset(current[tp])
        by_partition[tp] = Route(sources, frozenset(replicas) - sources)
    return by_partition


def brokers_of(routes: Routes) -> set[int]:
    """Return the ids of all brokers that are sources or destinations."""
    return {broker for route in routes.values() for broker in route.sources | route.destinations}


def topic_configs(routes: Routes) -> dict[str, dict[str, str | None]]:
    """Return the configs by topic: leaders are throttled on the sources, followers on the destinations. None removes a
    config.
    """
    configs: dict[str, dict[str, str | None]] = {}
    for topic in {tp.topic for tp in routes}:
        own = sorted((tp.partition, route) for tp, route in routes.items() if tp.topic == topic)
        leaders = ",".join(f"{number}:{broker}" for number, route in own for broker in sorted(route.sources))
        followers = ",".join(f"{number}:{broker}" for number, route in own for broker in sorted(route.destinations))
        configs[topic] = {LEADERS: leaders or None, FOLLOWERS: followers or None}
    return configs


def throttle_brokers(admin: KafkaAdminClient, brokers: Iterable[int], routes: Routes, rate: int) -> None:
    """Limit reassignments between `brokers` to `rate` bytes per second, for the replicas in `routes`."""
    _set(admin, TOPIC, topic_configs(routes))
    _set(admin, BROKER, {str(broker): dict.fromkeys(RATES, str(rate)) for broker in sorted(brokers)})


def throttle_log_dirs(admin: KafkaAdminClient, brokers: Iterable[int], rate: int) -> None:
    """Limit moves between the log directories of `brokers` to `rate` bytes per second."""
    _set(admin, BROKER, {str(broker): {LOG_DIR_RATE: str(rate)} for broker in sorted(brokers)})


def clear_brokers(admin: KafkaAdminClient, brokers: Iterable[int]) -> None:
    """Remove the limits of `throttle_brokers` and `throttle_log_dirs` from brokers."""
    _set(admin, BROKER, {str(broker): dict.fromkeys((*RATES, LOG_DIR_RATE)) for broker in sorted(brokers)})


def clear_topics(admin: KafkaAdminClient, topics: Iterable[str]) -> None:
    """Remove the lists of throttled replicas from topics."""
    _set(admin, TOPIC, {topic: dict.fromkeys((LEADERS, FOLLOWERS)) for topic in sorted(topics)})


def _set(admin: KafkaAdminClient, kind: int, configs: Mapping[str, Mapping[str, Change]]) -> None:
    if configs:
        admin.incremental_alter_configs([ConfigResource(kind, name, changes) for name, changes in configs.items()])
