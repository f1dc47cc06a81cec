"""Keys and values of a share group's records in `__consumer_offsets`, and of its progress in `__share_group_state`.

The number that a key begins with is 10 to 15 in `__consumer_offsets`; in `__share_group_state` it is 0 for a snapshot,
or 1 for changes since the snapshot.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Data, Struct

MEMBER_KEY: Final = 10
METADATA_KEY: Final = 11
TARGET_METADATA_KEY: Final = 12
TARGET_MEMBER_KEY: Final = 13
CURRENT_MEMBER_KEY: Final = 14
STATE_PARTITIONS_KEY: Final = 15

SNAPSHOT_KEY: Final = 0
UPDATE_KEY: Final = 1


class ShareGroupMetadataKey(Data, versions="0"):
    """Key of a group, of its target assignment's epoch, and of the partitions with a state (11, 12 and 15)."""

    group_id: str = f.string("0")


class ShareGroupMemberMetadataKey(Data, versions="0"):
    """Key of a member, of its target and of its current assignment (10, 13 and 14)."""

    group_id: str = f.string("0")
    member_id: str = f.string("0")


class ShareGroupMemberMetadataValue(Data, versions="0", flexible="0+"):
    """A member's client, subscription and other settings, from its heartbeats."""

    rack_id: str | None = f.string("0+", nullable="0+")
    client_id: str = f.string("0+")
    client_host: str = f.string("0+")
    subscribed_topic_names: list[str] = f.array(f.string(), "0+")


class ShareGroupMetadataValue(Data, versions="0", flexible="0+"):
    """A group's epoch, and a hash of the metadata of its topics."""

    epoch: int = f.int32("0+")
    metadata_hash: int = f.int64("0+")


class ShareGroupTargetAssignmentMetadataValue(Data, versions="0", flexible="0+"):
    """The group epoch that the target assignment is for, and the time in ms when it was computed."""

    assignment_epoch: int = f.int32("0+")
    assignment_timestamp: int = f.int64("0+", tag=0, ignorable=True)


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: UUID = f.uuid("0+")
    partitions: list[int] = f.array(f.int32(), "0+")


class ShareGroupTargetAssignmentMemberValue(Data, versions="0", flexible="0+"):
    """A member's target assignment."""

    topic_partitions: list[TopicPartitions] = f.array(TopicPartitions, "0+")


class ShareGroupCurrentMemberAssignmentValue(Data, versions="0", flexible="0+"):
    """A member's current assignment."""

    member_epoch: int = f.int32("0+")
    previous_member_epoch: int = f.int32("0+")
    state: int = f.int8("0+")
    assigned_partitions: list[TopicPartitions] = f.array(TopicPartitions, "0+")


class NamedTopicPartitions(Struct):
    """Partitions of a topic whose state is being, or has been, initialized."""

    topic_id: UUID = f.uuid("0+")
    topic_name: str = f.string("0+")
    partitions: list[int] = f.array(f.int32(), "0+")


class NamedTopic(Struct):
    """A topic whose state is being deleted."""

    topic_id: UUID = f.uuid("0+")
    topic_name: str = f.string("0+")


class ShareGroupStatePartitionMetadataValue(Data, versions="0", flexible="0+"):
    """The share partitions of a group, by whether the share coordinator is initializing, has initialized or is deleting
    their state.
    """

    initializing_topics: list[NamedTopicPartitions] = f.array(NamedTopicPartitions, "0+")
    initialized_topics: list[NamedTopicPartitions] = f.array(NamedTopicPartitions, "0+")
    deleting_topics: list[NamedTopic] = f.array(NamedTopic, "0+")


class SharePartitionKey(Data, versions="0"):
    """Key of a partition's progress in a group (0 and 1)."""

    group_id: str = f.string("0")
    topic_id: UUID = f.uuid("0")
    partition: int = f.int32("0")


class StateBatch(Struct):
    """Consecutive records in the same state: 0 available, 2 acknowledged, 4 archived."""

    first_offset: int = f.int64("0+")
    last_offset: int = f.int64("0+")
    delivery_state: int = f.int8("0+")
    delivery_count: int = f.int16("0+")


class ShareSnapshotValue(Data, versions="0", flexible="0+"):
    """A partition's whole progress."""

    snapshot_epoch: int = f.int32("0+")
    state_epoch: int = f.int32("0+")
    leader_epoch: int = f.int32("0+")
    start_offset: int = f.int64("0+")
    # Kafka 4.2 and later; -1: unknown.
    delivery_complete_count: int = f.int32("0+", default=-1, ignorable=True, tag=0)
    create_timestamp: int = f.int64("0+")
    write_timestamp: int = f.int64("0+")
    state_batches: list[StateBatch] = f.array(StateBatch, "0+")


class ShareUpdateValue(Data, versions="0", flexible="0+"):
    """Changes to a share partition's state, to be applied to the snapshot of this epoch after all earlier updates."""

    snapshot_epoch: int = f.int32("0+")
    leader_epoch: int = f.int32("0+")
    start_offset: int = f.int64("0+")
    # Kafka 4.2 and later; -1: unknown.
    delivery_complete_count: int = f.int32("0+", default=-1, ignorable=True, tag=0)
    state_batches: list[StateBatch] = f.array(StateBatch, "0+")
