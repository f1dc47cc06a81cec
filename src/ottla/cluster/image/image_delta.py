"""What is different between two images of the cluster, without I/O: the ground of what brokers are told."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla.cluster.image.cluster_image import ClusterImage, PartitionImage, TopicImage
from ottla.model import TopicPartition

CHANGES: Final = 1
EVERYTHING: Final = 2
"""Types of requests: what has changed, or all that there is."""
DELETED: Final = -2
"""The leader of partitions whose topic is being deleted; and the epoch of replicas that go with it."""
PROTOCOL_NUMBERS: Final = MappingProxyType({"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3})


class Stopped(NamedTuple):
    """How a replica ends: in which leader epoch, and whether its log is to be deleted."""

    leader_epoch: int
    delete: bool


Changed = Iterator[tuple[TopicImage, int, PartitionImage, PartitionImage | None]]


def changed(before: ClusterImage | None, after: ClusterImage) -> Changed:
    """(topic, index, state now, state before) of every partition whose state is another now."""
    known = {} if before is None else before.topics
    for name, topic in after.topics.items():
        was = known.get(name)
        if was is topic:
            continue
        old = was.partitions if was is not None and was.id == topic.id else ()
        for index, now in enumerate(topic.partitions):
            earlier = old[index] if index < len(old) else None
            if earlier != now:
                yield topic, index, now, earlier


def gone(before: ClusterImage | None, after: ClusterImage) -> Iterator[TopicImage]:
    """The topics that are not there any more."""
    for name, topic in () if before is None else before.topics.items():
        if name not in after.topics:
            yield topic


def stopped(before: ClusterImage | None, after: ClusterImage, broker_id: int) -> dict[TopicPartition, Stopped]:
    """The replicas that a broker holds no longer, and deletes; those that rest, as it is about to stop."""
    known = {} if before is None else before.deleting
    found: dict[TopicPartition, Stopped] = {}
    for name, topic in after.deleting.items():
        for index, p in enumerate(topic.partitions):
            if name not in known and broker_id in p.replicas:
                found[TopicPartition(name, index)] = Stopped(DELETED, True)
    for topic, index, now, was in changed(before, after):
        if was is None or broker_id not in was.replicas:
            continue
        if broker_id not in now.replicas:
            found[TopicPartition(topic.name, index)] = Stopped(now.leader_epoch, True)
        elif broker_id in after.leaving and broker_id in was.isr and broker_id not in now.isr:
            found[TopicPartition(topic.name, index)] = Stopped(now.leader_epoch, False)
    return found
