"""Fetch (key 1): read record batches, as a consumer or as a replica.

The broker responds when `min_bytes` are available or `max_wait_ms` has elapsed, and at once after an error. The first
batch of a partition may begin before the offset. From version 3 on, the first batch of a response is returned whole,
even if it exceeds the limits, so that a reader always advances.

- version 1 adds the throttle time; 2 allows format 1;
  3 bounds the whole response (KIP-74), so the order of partitions counts
- 4 adds the isolation level, the last stable offset and the aborted transactions (KIP-98); allows format 2
- 5 adds the log start offset; 6 may answer KAFKA_STORAGE_ERROR
- 7 adds sessions (KIP-227): later requests name only the partitions that have changed
- 9 fences old leaders by epoch (KIP-320); 10 allows zstd; 11 reads from the closest replica (KIP-392)
- 12 is flexible and detects diverging logs by epoch; 13 names topics by id
- 14 may answer OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405); 15 adds the replica's epoch, beside its id (KIP-903)
- 16 adds new leaders (KIP-951); 17 adds the replica's directory (KIP-853); 18 adds the follower's high watermark
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct
from ottla.protocol.wire import RecordData


class ReplicaState(Struct):
    """The replica that fetches; -1 for a consumer."""

    replica_id: int = f.int32("15+", default=-1)
    replica_epoch: int = f.int64("15+", default=-1)


class FetchPartition(Struct):
    """A partition to fetch, with the offset at which to begin."""

    partition: int = f.int32("0+")
    current_leader_epoch: int = f.int32("9+", default=-1, ignorable=True)
    fetch_offset: int = f.int64("0+")
    # Leader epoch of the last record that the reader has; -1 if it does not request the check.
    last_fetched_epoch: int = f.int32("12+", default=-1)
    # Of a replica; a consumer leaves it at -1.
    log_start_offset: int = f.int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = f.int32("0+")
    replica_directory_id: UUID = f.uuid("17+", ignorable=True, tag=0)
    high_watermark: int = f.int64("18+", default=0x7FFF_FFFF_FFFF_FFFF, ignorable=True, tag=1)


class FetchTopic(Struct):
    """The partitions of one topic."""

    topic: str = f.string("0-12", ignorable=True)
    topic_id: UUID = f.uuid("13+", ignorable=True)
    partitions: list[FetchPartition] = f.array(FetchPartition, "0+")


class ForgottenTopic(Struct):
    """Partitions that leave the fetch session."""

    topic: str = f.string("7-12", ignorable=True)
    topic_id: UUID = f.uuid("13+", ignorable=True)
    partitions: list[int] = f.array(f.int32(), "7+")


class FetchRequest(Request["FetchResponse"], api_key=1, versions="0-18", flexible="12+"):
    """The partitions to fetch, and how long to wait for `min_bytes`."""

    cluster_id: str | None = f.string("12+", nullable="12+", default=None, ignorable=True, tag=0)
    # -1 for a consumer.
    replica_id: int = f.int32("0-14", default=-1)
    replica_state: ReplicaState | None = f.struct(ReplicaState, "15+", tag=1)
    max_wait_ms: int = f.int32("0+")
    min_bytes: int = f.int32("0+")
    max_bytes: int = f.int32("3+", default=0x7FFFFFFF, ignorable=True)
    # For consumers. 0: up to the high watermark; 1: up to the last stable offset.
    isolation_level: int = f.int8("4+", ignorable=True)
    session_id: int = f.int32("7+", ignorable=True)
    # 0 to open a session; -1 to close it, or without one.
    session_epoch: int = f.int32("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = f.array(FetchTopic, "0+")
    forgotten_topics_data: list[ForgottenTopic] = f.array(ForgottenTopic, "7+")
    rack_id: str = f.string("11+", ignorable=True)


class EpochEndOffset(Struct):
    """The largest epoch of the leader's log that does not exceed the reader's last one, and the end offset of that
    epoch. The logs agree at most up to there.
    """

    epoch: int = f.int32("12+", default=-1)
    end_offset: int = f.int64("12+", default=-1)


class LeaderIdAndEpoch(Struct):
    """The current leader; -1 if the broker does not know it."""

    leader_id: int = f.int32("12+", default=-1)
    leader_epoch: int = f.int32("12+", default=-1)


class SnapshotId(Struct):
    """The snapshot to load instead of reading the log (metadata quorum)."""

    end_offset: int = f.int64("0+", default=-1)
    epoch: int = f.int32("0+", default=-1)


class AbortedTransaction(Struct):
    """A transaction to skip when reading committed records."""

    producer_id: int = f.int64("4+")
    first_offset: int = f.int64("4+")


class PartitionData(Struct):
    """The batches of one partition."""

    partition_index: int = f.int32("0+")
    error_code: int = f.int16("0+")
    # The offset after the last record that every in-sync replica has.
    high_watermark: int = f.int64("0+")
    # The first offset of the oldest open transaction, or the high watermark.
    last_stable_offset: int = f.int64("4+", default=-1, ignorable=True)
    log_start_offset: int = f.int64("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = f.struct(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = f.struct(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId | None = f.struct(SnapshotId, "12+", tag=2)
    # None when the reader reads uncommitted.
    aborted_transactions: list[AbortedTransaction] | None = f.array(
        AbortedTransaction, "4+", nullable="4+", ignorable=True
    )
    # A broker closer to the reader; -1 to stay at this broker.
    preferred_read_replica: int = f.int32("11+", default=-1)
    records: RecordData | None = f.records("0+", nullable="0+")


class FetchableTopicResponse(Struct):
    """The partitions of one topic."""

    topic: str = f.string("0-12", ignorable=True)
    topic_id: UUID = f.uuid("13+", ignorable=True)
    partitions: list[PartitionData] = f.array(PartitionData, "0+")


class NodeEndpoint(Struct):
    """The address of a leader that the response names."""

    node_id: int = f.int32("16+")
    host: str = f.string("16+")
    port: int = f.int32("16+")
    rack: str | None = f.string("16+", nullable="16+", default=None)


class FetchResponse(Response, api_key=1, versions="0-18", flexible="12+"):
    """The record batches of each partition."""

    throttle_time_ms: int = f.int32("1+", ignorable=True)
    error_code: int = f.int16("7+", ignorable=True)
    session_id: int = f.int32("7+")
    responses: list[FetchableTopicResponse] = f.array(FetchableTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = f.array(NodeEndpoint, "16+", tag=0)
