"""Produce (key 0): append record batches to partitions.

The broker responds as `acks` requires: 0 never, 1 after the leader's write, -1 after that of every in-sync replica.
The version decides which record format clients send: format 0 up to version 1, format 1 in version 2, and format 2 from
version 3 on, for which the broker accepts no other format.

- version 1 adds the throttle time (0.9), 2 the log append time (0.10)
- 3 adds the transactional id; from here on one batch per partition
- 4 may answer KAFKA_STORAGE_ERROR; 5 adds the log start offset, which shows whether records were lost or deleted
- 6 throttles only after the response (KIP-219); 7 allows zstd
- 8 names the records that caused the rejection of a batch (KIP-467)
- 9 is flexible; 10 adds the new leader to NOT_LEADER_OR_FOLLOWER (KIP-951)
- 11 may answer TRANSACTION_ABORTABLE (KIP-890); from 12 on the partition joins the transaction with its first batch,
  without AddPartitionsToTxn
- 13 names topics by id (KIP-516)
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct
from ottla.protocol.wire import RecordData


class PartitionProduceData(Struct):
    """The batches for one partition."""

    index: int = f.int32("0+")
    records: RecordData | None = f.records("0+", nullable="0+")


class TopicProduceData(Struct):
    """The batches for the partitions of one topic."""

    name: str = f.string("0-12", ignorable=True)
    topic_id: UUID = f.uuid("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = f.array(PartitionProduceData, "0+")


class ProduceRequest(Request["ProduceResponse"], api_key=0, versions="0-13", flexible="9+"):
    """Batches for partitions that one broker leads."""

    transactional_id: str | None = f.string("3+", nullable="3+", default=None)
    # 0, 1 or -1 (all).
    acks: int = f.int16("0+")
    # How long the broker may wait for the in-sync replicas.
    timeout_ms: int = f.int32("0+")
    topic_data: list[TopicProduceData] = f.array(TopicProduceData, "0+")


class BatchIndexAndErrorMessage(Struct):
    """A record because of which the broker rejected the batch."""

    batch_index: int = f.int32("8+")
    batch_index_error_message: str | None = f.string("8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    """The current leader; -1 if the broker does not know it."""

    leader_id: int = f.int32("10+", default=-1)
    leader_epoch: int = f.int32("10+", default=-1)


class PartitionProduceResponse(Struct):
    """The offset of the first record that was appended to a partition, or the error."""

    index: int = f.int32("0+")
    error_code: int = f.int16("0+")
    base_offset: int = f.int64("0+")
    # -1 if records keep the timestamp of their producer.
    log_append_time_ms: int = f.int64("2+", default=-1, ignorable=True)
    log_start_offset: int = f.int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = f.array(BatchIndexAndErrorMessage, "8+", ignorable=True)
    error_message: str | None = f.string("8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = f.struct(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    """The partitions of one topic."""

    name: str = f.string("0-12", ignorable=True)
    topic_id: UUID = f.uuid("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = f.array(PartitionProduceResponse, "0+")


class NodeEndpoint(Struct):
    """The address of a leader that the response names."""

    node_id: int = f.int32("10+")
    host: str = f.string("10+")
    port: int = f.int32("10+")
    rack: str | None = f.string("10+", nullable="10+", default=None)


class ProduceResponse(Response, api_key=0, versions="0-13", flexible="9+"):
    """The outcome of each partition."""

    responses: list[TopicProduceResponse] = f.array(TopicProduceResponse, "0+")
    throttle_time_ms: int = f.int32("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = f.array(NodeEndpoint, "10+", tag=0)
