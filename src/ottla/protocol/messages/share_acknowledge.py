"""ShareAcknowledge (key 79): acknowledge acquired records (KIP-932).

- version 2 can renew acquisition locks (KIP-1222)
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class AcknowledgementBatch(Struct):
    """The acknowledgement of consecutive records: one type for all of them, or one for each.

    Types: 0 gap (there is no record), 1 accept, 2 release (deliver again), 3 reject (never deliver again), 4 renew the
    acquisition lock (from version 2).
    """

    first_offset: int = f.int64("0+")
    last_offset: int = f.int64("0+")
    acknowledge_types: list[int] = f.array(f.int8(), "0+")


class AcknowledgePartition(Struct):
    """The acknowledgements of records of one partition."""

    partition_index: int = f.int32("0+")
    acknowledgement_batches: list[AcknowledgementBatch] = f.array(AcknowledgementBatch, "0+")


class AcknowledgeTopic(Struct):
    """The partitions of one topic."""

    topic_id: UUID = f.uuid("0+")
    partitions: list[AcknowledgePartition] = f.array(AcknowledgePartition, "0+")


class ShareAcknowledgeRequest(Request["ShareAcknowledgeResponse"], api_key=79, versions="1-2", flexible="0+"):
    """The acknowledgements of a member in its share session; epoch -1 closes the session."""

    group_id: str | None = f.string("0+", nullable="0+", default=None)
    member_id: str | None = f.string("0+", nullable="0+")
    share_session_epoch: int = f.int32("0+")
    is_renew_ack: bool = f.boolean("2+")
    topics: list[AcknowledgeTopic] = f.array(AcknowledgeTopic, "0+")


class LeaderIdAndEpoch(Struct):
    """The current leader of the partition, if it is not this broker."""

    leader_id: int = f.int32("0+")
    leader_epoch: int = f.int32("0+")


class PartitionData(Struct):
    """The outcome of one partition."""

    partition_index: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = f.struct(LeaderIdAndEpoch, "0+")


class ShareAcknowledgeTopicResponse(Struct):
    """The outcomes of one topic's partitions."""

    topic_id: UUID = f.uuid("0+")
    partitions: list[PartitionData] = f.array(PartitionData, "0+")


class NodeEndpoint(Struct):
    """The address of a current leader."""

    node_id: int = f.int32("0+")
    host: str = f.string("0+")
    port: int = f.int32("0+")
    rack: str | None = f.string("0+", nullable="0+", default=None)


class ShareAcknowledgeResponse(Response, api_key=79, versions="1-2", flexible="0+"):
    """The outcome of each partition."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = f.int32("2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = f.array(ShareAcknowledgeTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = f.array(NodeEndpoint, "0+")
