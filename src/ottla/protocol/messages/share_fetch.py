"""ShareFetch (key 78): acquire records for a share group, and acknowledge others (KIP-932).

- version 2 can enforce the maximum number of records and renew acquisition locks (KIP-1206, KIP-1222)
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct
from ottla.protocol.messages.share_acknowledge import AcknowledgementBatch, LeaderIdAndEpoch, NodeEndpoint
from ottla.protocol.wire import RecordData


class FetchPartition(Struct):
    """A partition from which to acquire records, and acknowledgements of those acquired before."""

    partition_index: int = f.int32("0+")
    partition_max_bytes: int = f.int32("0")
    acknowledgement_batches: list[AcknowledgementBatch] = f.array(AcknowledgementBatch, "0+")


class FetchTopic(Struct):
    """The partitions of one topic."""

    topic_id: UUID = f.uuid("0+")
    partitions: list[FetchPartition] = f.array(FetchPartition, "0+")


class ForgottenTopic(Struct):
    """Partitions that leave the session."""

    topic_id: UUID = f.uuid("0+")
    partitions: list[int] = f.array(f.int32(), "0+")


class ShareFetchRequest(Request["ShareFetchResponse"], api_key=78, versions="1-2", flexible="0+"):
    """The changes to a share session; epoch 0 opens the session, -1 closes it."""

    group_id: str | None = f.string("0+", nullable="0+", default=None)
    member_id: str | None = f.string("0+", nullable="0+")
    share_session_epoch: int = f.int32("0+")
    max_wait_ms: int = f.int32("0+")
    min_bytes: int = f.int32("0+")
    max_bytes: int = f.int32("0+", default=0x7FFF_FFFF)
    max_records: int = f.int32("1+")
    batch_size: int = f.int32("1+")
    # 0: whole batches may exceed max_records; 1: never more than that
    share_acquire_mode: int = f.int8("2+", ignorable=True)
    is_renew_ack: bool = f.boolean("2+")
    topics: list[FetchTopic] = f.array(FetchTopic, "0+")
    forgotten_topics_data: list[ForgottenTopic] = f.array(ForgottenTopic, "0+")


class AcquiredRecords(Struct):
    """Records that the member has acquired, with their delivery count."""

    first_offset: int = f.int64("0+")
    last_offset: int = f.int64("0+")
    delivery_count: int = f.int16("0+")


class PartitionData(Struct):
    """Records of one partition; only those in `acquired_records` are for the member."""

    partition_index: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)
    acknowledge_error_code: int = f.int16("0+")
    acknowledge_error_message: str | None = f.string("0+", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = f.struct(LeaderIdAndEpoch, "0+")
    records: RecordData | None = f.records("0+", nullable="0")
    acquired_records: list[AcquiredRecords] = f.array(AcquiredRecords, "0+")


class ShareFetchableTopicResponse(Struct):
    """The partitions of one topic."""

    topic_id: UUID = f.uuid("0+")
    partitions: list[PartitionData] = f.array(PartitionData, "0+")


class ShareFetchResponse(Response, api_key=78, versions="1-2", flexible="0+"):
    """The acquired records, and how long their acquisition locks last."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = f.int32("1+")
    responses: list[ShareFetchableTopicResponse] = f.array(ShareFetchableTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = f.array(NodeEndpoint, "0+")
