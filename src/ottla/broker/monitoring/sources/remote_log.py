"""Values of the metrics of tiered storage. A broker without it has none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.monitoring.metric import Samples, Source
from ottla.broker.monitoring.scrape import Scrape
from ottla.broker.monitoring.sources.replicas import per_topic
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla.remote_log.metadata_store import RemotePartitionMetadataStore
    from ottla.remote_log.remote_log_manager import RemoteLogManager


def counted(name: str) -> Source:
    """Return a function that yields the counter with this name in `TopicStats`: the total, and that of each topic."""
    source = per_topic(name)

    def of_tiered(scrape: Scrape) -> Samples | int | float | None:
        return None if scrape.context.remote_log is None else source(scrape)

    return of_tiered


def of_leaders(measure: Callable[[Partition, RemotePartitionMetadataStore], int]) -> Source:
    """Return a function that yields a value summed over the tiered partitions that this broker leads: the total, and
    the sum of each topic.
    """

    def source(scrape: Scrape) -> Samples | int | float | None:
        remote_log = scrape.context.remote_log
        return None if remote_log is None else _by_topic(remote_log, measure)

    return source


def _by_topic(
    remote_log: RemoteLogManager, measure: Callable[[Partition, RemotePartitionMetadataStore], int]
) -> Samples:
    sums: dict[str, int] = {}
    for partition, store in list(remote_log.replicas()):
        if partition.leads:
            topic = partition.topic_partition.topic
            sums[topic] = sums.get(topic, 0) + measure(partition, store)
    for topic, value in sums.items():
        yield (topic,), value
    yield (), sum(sums.values())


@of_leaders
def copy_lag_bytes(partition: Partition, _store: RemotePartitionMetadataStore) -> int:
    log = partition.log
    return sum(segment.size for segment in log.segments[log.segment_number(log.remote_end_offset) : -1])


@of_leaders
def copy_lag_segments(partition: Partition, _store: RemotePartitionMetadataStore) -> int:
    log = partition.log
    return len(log.segments[log.segment_number(log.remote_end_offset) : -1])


@of_leaders
def delete_lag_bytes(_partition: Partition, store: RemotePartitionMetadataStore) -> int:
    return sum(segment.size for segment in store.to_delete)


@of_leaders
def delete_lag_segments(_partition: Partition, store: RemotePartitionMetadataStore) -> int:
    return len(store.to_delete)


@of_leaders
def metadata_count(_partition: Partition, store: RemotePartitionMetadataStore) -> int:
    return len(store)


@of_leaders
def size_bytes(_partition: Partition, store: RemotePartitionMetadataStore) -> int:
    return store.readable_bytes


def task_queue_size(scrape: Scrape) -> int | None:
    remote_log = scrape.context.remote_log
    return None if remote_log is None else remote_log.pending_reads


def tasks_idle_fraction(scrape: Scrape) -> float | None:
    """Return the share of the tiered partitions led by this broker whose task is not in a pass, in which it copies and
    deletes segments; 1 if there are no such partitions.

    None without tiered storage.
    """
    remote_log = scrape.context.remote_log
    if remote_log is None:
        return None
    tasks = remote_log.leader_tasks
    return 1.0 - remote_log.busy_tasks / tasks if tasks else 1.0
