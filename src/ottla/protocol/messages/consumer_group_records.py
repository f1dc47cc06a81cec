"""Keys and values of a KIP-848 group's records in `__consumer_offsets`.

The number that a key begins with (`protocol.versioned`) is the type of the record; each class of keys below lists its
own. All values have version 0 so far; fields that were added later are tagged.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Data, Struct

METADATA_KEY: Final = 3
PARTITION_METADATA_KEY: Final = 4
MEMBER_KEY: Final = 5
TARGET_METADATA_KEY: Final = 6
TARGET_MEMBER_KEY: Final = 7
CURRENT_MEMBER_KEY: Final = 8
REGEX_KEY: Final = 16


class ConsumerGroupMetadataKey(Data, versions="0"):
    """Key of a group, of its target assignment's epoch, and of the metadata of its topics (3, 6 and 4)."""

    group_id: str = f.string("0")


class ConsumerGroupMemberMetadataKey(Data, versions="0"):
    """Key of a member, of its target and of its current assignment (5, 7 and 8)."""

    group_id: str = f.string("0")
    member_id: str = f.string("0")


class ConsumerGroupRegularExpressionKey(Data, versions="0"):
    """Key of a regular expression (16)."""

    group_id: str = f.string("0")
    regular_expression: str = f.string("0")


class ConsumerGroupMetadataValue(Data, versions="0", flexible="0+"):
    """A group's epoch, and from Kafka 4.1 on a hash of the metadata of its topics."""

    epoch: int = f.int32("0+")
    metadata_hash: int = f.int64("0+", tag=0)


class ClassicProtocol(Struct):
    """One assignment protocol that a classic member supports, with the member's data for it."""

    name: str = f.string("0+")
    metadata: bytes = f.binary("0+")


class ClassicMemberMetadata(Struct):
    """The metadata of a member that uses the classic protocol."""

    session_timeout_ms: int = f.int32("0+")
    supported_protocols: list[ClassicProtocol] = f.array(ClassicProtocol, "0+")


class ConsumerGroupMemberMetadataValue(Data, versions="0", flexible="0+"):
    """A member's client, subscription and other settings."""

    instance_id: str | None = f.string("0+", nullable="0+")
    rack_id: str | None = f.string("0+", nullable="0+")
    client_id: str = f.string("0+")
    client_host: str = f.string("0+")
    subscribed_topic_names: list[str] = f.array(f.string(), "0+")
    subscribed_topic_regex: str | None = f.string("0+", nullable="0+")
    rebalance_timeout_ms: int = f.int32("0+", default=-1)
    server_assignor: str | None = f.string("0+", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = f.struct(ClassicMemberMetadata, "0+", nullable="0+", tag=0)


class TargetTopicPartition(Struct):
    """Partitions of one topic."""

    topic_id: UUID = f.uuid("0+")
    partitions: list[int] = f.array(f.int32(), "0+")


class ConsumerGroupTargetAssignmentMetadataValue(Data, versions="0", flexible="0+"):
    """The group epoch that the target assignment is for, and the time in ms when it was computed."""

    assignment_epoch: int = f.int32("0+")
    assignment_timestamp: int = f.int64("0+", tag=0, ignorable=True)


class ConsumerGroupTargetAssignmentMemberValue(Data, versions="0", flexible="0+"):
    """A member's target assignment."""

    topic_partitions: list[TargetTopicPartition] = f.array(TargetTopicPartition, "0+")


class CurrentTopicPartitions(Struct):
    """Partitions of one topic, and in newer Kafka the epochs in which the member was assigned them."""

    topic_id: UUID = f.uuid("0+")
    partitions: list[int] = f.array(f.int32(), "0+")
    assignment_epochs: list[int] | None = f.array(f.int32(), "0+", nullable="0+", tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Data, versions="0", flexible="0+"):
    """A member's current assignment, with the partitions that it has yet to revoke."""

    member_epoch: int = f.int32("0+")
    previous_member_epoch: int = f.int32("0+")
    state: int = f.int8("0+")
    assigned_partitions: list[CurrentTopicPartitions] = f.array(CurrentTopicPartitions, "0+")
    partitions_pending_revocation: list[CurrentTopicPartitions] = f.array(CurrentTopicPartitions, "0+")


class ConsumerGroupRegularExpressionValue(Data, versions="0", flexible="0+"):
    """The topics that a regular expression matched, the version of the metadata, and the time."""

    topics: list[str] = f.array(f.string(), "0+")
    version: int = f.int64("0+")
    timestamp: int = f.int64("0+")


class PartitionMetadata(Struct):
    """The racks of one partition's replicas."""

    partition: int = f.int32("0+")
    racks: list[str] = f.array(f.string(), "0+")


class TopicMetadata(Struct):
    """One topic: its id, its number of partitions, and the racks of their replicas."""

    topic_id: UUID = f.uuid("0+")
    topic_name: str = f.string("0+")
    num_partitions: int = f.int32("0+")
    partition_metadata: list[PartitionMetadata] = f.array(PartitionMetadata, "0+")


class ConsumerGroupPartitionMetadataValue(Data, versions="0", flexible="0+"):
    """The topics as a group saw them (up to Kafka 4.0)."""

    topics: list[TopicMetadata] = f.array(TopicMetadata, "0+")
