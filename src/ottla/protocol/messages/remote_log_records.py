"""Values of the records in `__remote_log_metadata` (KIP-405), which have no keys.

A value begins with the version of the frame, the number of its type and its version, all as unsigned varints
(`remote_log.metadata_records`).
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Data, Struct


class TopicIdPartitionEntry(Struct):
    """A partition of a topic that name and id identify."""

    name: str = f.string("0+")
    id: UUID = f.uuid("0+")
    partition: int = f.int32("0+")


class RemoteLogSegmentIdEntry(Struct):
    """The unique id of one copy of a segment."""

    topic_id_partition: TopicIdPartitionEntry = f.struct(TopicIdPartitionEntry, "0+")
    id: UUID = f.uuid("0+")


class SegmentLeaderEpochEntry(Struct):
    """A leader epoch and its first offset in the segment."""

    leader_epoch: int = f.int32("0+")
    offset: int = f.int64("0+")


class RemoteLogSegmentMetadataRecord(Data, versions="0", flexible="0+"):
    """A segment that a leader starts to copy."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = f.struct(RemoteLogSegmentIdEntry, "0+")
    start_offset: int = f.int64("0+")
    # Of the last record.
    end_offset: int = f.int64("0+")
    broker_id: int = f.int32("0+")
    max_timestamp_ms: int = f.int64("0+")
    event_timestamp_ms: int = f.int64("0+")
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = f.array(SegmentLeaderEpochEntry, "0+")
    segment_size_in_bytes: int = f.int32("0+")
    # Data that the remote storage needs for the segment.
    custom_metadata: bytes | None = f.binary("0+", nullable="0+", default=None)
    remote_log_segment_state: int = f.int8("0+")
    txn_index_empty: bool = f.boolean("0+", tag=0)


class RemoteLogSegmentMetadataUpdateRecord(Data, versions="0", flexible="0+"):
    """A new state of a segment, such as COPY_SEGMENT_FINISHED (1)."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = f.struct(RemoteLogSegmentIdEntry, "0+")
    broker_id: int = f.int32("0+")
    event_timestamp_ms: int = f.int64("0+")
    custom_metadata: bytes | None = f.binary("0+", nullable="0+", default=None)
    remote_log_segment_state: int = f.int8("0+")


class RemotePartitionDeleteMetadataRecord(Data, versions="0", flexible="0+"):
    """The deletion of all segments of a partition."""

    topic_id_partition: TopicIdPartitionEntry = f.struct(TopicIdPartitionEntry, "0+")
    broker_id: int = f.int32("0+")
    event_timestamp_ms: int = f.int64("0+")
    remote_partition_delete_state: int = f.int8("0+")


class RemoteLogSegmentMetadataSnapshotRecord(Data, versions="0", flexible="0+"):
    """A segment in a snapshot of a partition's metadata, which Kafka's manager keeps in files."""

    segment_id: UUID = f.uuid("0+")
    start_offset: int = f.int64("0+")
    end_offset: int = f.int64("0+")
    broker_id: int = f.int32("0+")
    max_timestamp_ms: int = f.int64("0+")
    event_timestamp_ms: int = f.int64("0+")
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = f.array(SegmentLeaderEpochEntry, "0+")
    segment_size_in_bytes: int = f.int32("0+")
    custom_metadata: bytes | None = f.binary("0+", nullable="0+", default=None)
    remote_log_segment_state: int = f.int8("0+")
    txn_index_empty: bool = f.boolean("0+", tag=0)
