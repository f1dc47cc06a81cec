"""TxnOffsetCommit (key 28): commit offsets of a group as part of a transaction (KIP-98).

- since 1, throttling follows the response (KIP-219); 2 adds leader epochs;
  3 is flexible and checks member and generation (KIP-447)
- 4 may answer TRANSACTION_ABORTABLE (KIP-890); from 5 on offsets join the transaction without AddOffsetsToTxn
- 6 names topics by id
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class TxnOffsetCommitRequestPartition(Struct):
    """The next offset to read in one partition, and a text that is stored with it."""

    partition_index: int = f.int32("0+")
    committed_offset: int = f.int64("0+")
    committed_leader_epoch: int = f.int32("2+", default=-1, ignorable=True)
    committed_metadata: str | None = f.string("0+", nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    """The partitions of one topic."""

    name: str = f.string("0-5", ignorable=True)
    topic_id: UUID = f.uuid("6+", ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition] = f.array(TxnOffsetCommitRequestPartition, "0+")


class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"], api_key=28, versions="0-6", flexible="3+"):
    """The transaction, the group and its offsets."""

    transactional_id: str = f.string("0+")
    group_id: str = f.string("0+")
    producer_id: int = f.int64("0+")
    producer_epoch: int = f.int16("0+")
    generation_id_or_member_epoch: int = f.int32("3+", default=-1)
    member_id: str = f.string("3+")
    group_instance_id: str | None = f.string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = f.array(TxnOffsetCommitRequestTopic, "0+")


class TxnOffsetCommitResponsePartition(Struct):
    """The outcome of one partition."""

    partition_index: int = f.int32("0+")
    error_code: int = f.int16("0+")


class TxnOffsetCommitResponseTopic(Struct):
    """The outcomes of one topic's partitions."""

    name: str = f.string("0-5", ignorable=True)
    topic_id: UUID = f.uuid("6+", ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition] = f.array(TxnOffsetCommitResponsePartition, "0+")


class TxnOffsetCommitResponse(Response, api_key=28, versions="0-6", flexible="3+"):
    """The outcome of each partition."""

    throttle_time_ms: int = f.int32("0+")
    topics: list[TxnOffsetCommitResponseTopic] = f.array(TxnOffsetCommitResponseTopic, "0+")
