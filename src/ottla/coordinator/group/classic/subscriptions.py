"""Subscriptions and assignments of the consumer protocol, which classic members embed in JoinGroup and SyncGroup."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.cluster.image.cluster_image import ClusterImage
from ottla.coordinator.group.common.consumer_member import Assignment, by_topic
from ottla.errors import MalformedMessageError
from ottla.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from ottla.protocol.versioned import decode_versioned, encode_versioned, version_of

CONSUMER = "consumer"
"""The only protocol type whose metadata the broker can decode."""


def topics_of(metadata: Iterable[bytes | None]) -> frozenset[str] | None:
    """Return the topics that members subscribe to; None if the metadata of one of them cannot be parsed."""
    topics: set[str] = set()
    for raw in metadata:
        try:
            topics.update(decode_versioned(ConsumerProtocolSubscription, raw or b"").topics)
        except MalformedMessageError:
            return None  # some clients use their own format, which only the group's leader understands
    return frozenset(topics)


def assignment_bytes(partitions: Assignment, metadata: bytes, image: ClusterImage) -> bytes:
    """Encode an assignment, without deleted topics, in the version of the member's subscription `metadata`; at most in
    the newest version that this broker supports.
    """
    topics = [
        TopicPartitions(topic=image.names[topic_id], partitions=indexes)
        for topic_id, indexes in by_topic(partitions)
        if topic_id in image.names
    ]
    newest = ConsumerProtocolAssignment.VERSIONS.stop - 1
    version = min(version_of(metadata), newest)
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=topics), version)
