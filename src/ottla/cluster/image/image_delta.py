"""The difference between two images, which the controller sends to brokers, without I/O. KRaft's `MetadataDelta`."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla.cluster.image.cluster_image import ClusterImage, PartitionImage, TopicImage
from ottla.model import TopicPartition

INCREMENTAL: Final = 1
FULL: Final = 2
"""INCREMENTAL and FULL: types of controller requests, with changes only, or with the complete image."""
DELETED: Final = -2
"""The leader, and in StopReplica the leader epoch, of partitions whose topic is being deleted."""
PROTOCOL_NUMBERS: Final = MappingProxyType({"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3})


class StoppedReplica(NamedTuple):
    """A replica to stop: the leader epoch in which it is stopped, and whether to delete its log."""

    leader_epoch: int
    delete: bool


ChangedPartition = tuple[TopicImage, int, PartitionImage, PartitionImage | None]
"""A changed partition: its topic, its number, its new state, and its old state (None if it is new)."""


def changed_partitions(before: ClusterImage | None, after: ClusterImage) -> Iterator[ChangedPartition]:
    """Yield every partition of `after` that is new or whose state has changed. Deleted ones are not included."""
    old_topics = {} if before is None else before.topics
    for name, topic in after.topics.items():
        was = old_topics.get(name)
        if was is topic:
            continue
        old = was.partitions if was is not None and was.id == topic.id else ()
        for index, now in enumerate(topic.partitions):
            earlier = old[index] if index < len(old) else None
            if earlier != now:
                yield topic, index, now, earlier


def deleted_topics(before: ClusterImage | None, after: ClusterImage) -> Iterator[TopicImage]:
    for name, topic in () if before is None else before.topics.items():
        if name not in after.topics:
            yield topic


def stopped_replicas(
    before: ClusterImage | None, after: ClusterImage, broker_id: int
) -> dict[TopicPartition, StoppedReplica]:
    """Return the replicas that a broker has to delete, and those it has to stop because it is shutting down."""
    deleting_before = {} if before is None else before.deleting
    replicas: dict[TopicPartition, StoppedReplica] = {}
    for name, topic in after.deleting.items():
        for index, p in enumerate(topic.partitions):
            if name not in deleting_before and broker_id in p.replicas:
                replicas[TopicPartition(name, index)] = StoppedReplica(DELETED, True)
    if before is None:
        return replicas  # a broker that has received nothing yet has no running replica to stop
    for topic, index, now, was in changed_partitions(before, after):
        if was is None or broker_id not in was.replicas:
            continue
        if broker_id not in now.replicas:
            replicas[TopicPartition(topic.name, index)] = StoppedReplica(now.leader_epoch, True)
        elif broker_id in after.shutting_down and broker_id in was.isr and broker_id not in now.isr:
            replicas[TopicPartition(topic.name, index)] = StoppedReplica(now.leader_epoch, False)
    return replicas
