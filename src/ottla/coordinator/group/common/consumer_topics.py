"""The cluster's topics as modern groups need them: the ids and partition counts of named topics, and a hash whose
change requires a new assignment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from uuid import UUID

from ottla.cluster.image.cluster_image import ClusterImage
from ottla.coordinator.group.common.consumer_member import Assignment
from ottla.model import TopicIdPartition
from ottla.protocol.messages.consumer_protocol import TopicPartitions


def ids_of(names: Iterable[str], image: ClusterImage) -> frozenset[UUID]:
    """Return the ids of the topics that exist."""
    return frozenset(image.topics[name].id for name in names if name in image.topics)


def sizes_of(names: Iterable[str], image: ClusterImage) -> dict[UUID, int]:
    """Return the number of partitions of each topic that exists, by topic id."""
    topics = (image.topics[name] for name in names if name in image.topics)
    return {topic.id: len(topic.partitions) for topic in topics}


def metadata_hash(names: Iterable[str], image: ClusterImage) -> int:
    """Return a 64-bit hash that changes when one of these topics is created, deleted or expanded; 0 if none of the
    topics exists.

    Kafka stores another hash in the same field (XXH3). A group that moves between Kafka and this broker is therefore
    assigned once more. Kafka's hash also contains the racks of the replicas. Here only those of live brokers are known,
    so that each restart of a broker would rebalance all groups, and no assignor uses racks.
    """
    digest = hashlib.blake2b(digest_size=8)
    existing = sorted(name for name in names if name in image.topics)
    for name in existing:
        topic = image.topics[name]
        digest.update(repr((name, topic.id.hex, len(topic.partitions))).encode())
    return int.from_bytes(digest.digest(), "big", signed=True) if existing else 0


def partitions_by_name(topics: Iterable[TopicPartitions], image: ClusterImage) -> Assignment:
    """Return the partitions that a classic member names by topic name, with topic ids. Deleted topics are left out."""
    return frozenset(
        TopicIdPartition(image.topics[t.topic].id, p) for t in topics if t.topic in image.topics for p in t.partitions
    )
