"""What holds reassignments back: bytes per second of brokers, and the replicas of topics that they count for (KIP-73).

They are set before partitions move, and removed when all have arrived. Brokers that are not there are left out: each
takes its own options, and one that is gone neither sends nor fetches.
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
"""What a broker sends of throttled replicas, and what it fetches of them, in bytes per second."""
LOG_DIR_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"


class Way(NamedTuple):
    """The brokers that a partition is on, and those that it comes to."""

    sources: frozenset[int]
    destinations: frozenset[int]


Ways = Mapping[TopicPartition, Way]


def ways(moving: Moving, wanted: Assignment, current: Assignment) -> dict[TopicPartition, Way]:
    """Those of all partitions that are moving, and of those that shall; sources stay those of the first move."""
    found = {
        tp: Way(frozenset(move.replicas) - frozenset(move.adding_replicas), frozenset(move.adding_replicas))
        for tp, move in moving.items()
    }
    for tp, replicas in wanted.items():
        sources = found[tp].sources if tp in found else frozenset(current[tp])
        found[tp] = Way(sources, frozenset(replicas) - sources)
    return found


def brokers_of(found: Ways) -> set[int]:
    """All brokers that send or fetch."""
    return {broker for way in found.values() for broker in way.sources | way.destinations}


def topic_options(found: Ways) -> dict[str, dict[str, str | None]]:
    """What is set on each topic: leaders are throttled on all sources, followers where they come to (None: nowhere)."""
    options: dict[str, dict[str, str | None]] = {}
    for topic in {tp.topic for tp in found}:
        own = sorted((tp.partition, way) for tp, way in found.items() if tp.topic == topic)
        leaders = ",".join(f"{number}:{broker}" for number, way in own for broker in sorted(way.sources))
        followers = ",".join(f"{number}:{broker}" for number, way in own for broker in sorted(way.destinations))
        options[topic] = {LEADERS: leaders or None, FOLLOWERS: followers or None}
    return options


def throttle_brokers(admin: KafkaAdminClient, brokers: Iterable[int], found: Ways, rate: int) -> None:
    """Let partitions move at `rate` bytes per second, between `brokers`."""
    _set(admin, TOPIC, topic_options(found))
    _set(admin, BROKER, {str(broker): dict.fromkeys(RATES, str(rate)) for broker in sorted(brokers)})


def throttle_log_dirs(admin: KafkaAdminClient, brokers: Iterable[int], rate: int) -> None:
    """Let replicas move between the data directories of `brokers` at `rate` bytes per second."""
    _set(admin, BROKER, {str(broker): {LOG_DIR_RATE: str(rate)} for broker in sorted(brokers)})


def clear_brokers(admin: KafkaAdminClient, brokers: Iterable[int]) -> None:
    """Remove what brokers were throttled to."""
    _set(admin, BROKER, {str(broker): dict.fromkeys((*RATES, LOG_DIR_RATE)) for broker in sorted(brokers)})


def clear_topics(admin: KafkaAdminClient, topics: Iterable[str]) -> None:
    """Remove what names the throttled replicas of topics."""
    _set(admin, TOPIC, {topic: dict.fromkeys((LEADERS, FOLLOWERS)) for topic in sorted(topics)})


def _set(admin: KafkaAdminClient, kind: int, options: Mapping[str, Mapping[str, Change]]) -> None:
    if options:
        admin.incremental_alter_configs([ConfigResource(kind, name, changes) for name, changes in options.items()])
