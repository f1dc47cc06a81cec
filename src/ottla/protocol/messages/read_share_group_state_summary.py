"""ReadShareGroupStateSummary (key 87): the start offsets of share partitions (KIP-932).

- version 1 adds the number of records after the start offset whose delivery is complete (KIP-1226)
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class PartitionData(Struct):
    """A partition whose start offset is read, and the leader epoch."""

    partition: int = f.int32("0+")
    leader_epoch: int = f.int32("0+")


class TopicData(Struct):
    """The partitions of one topic."""

    topic_id: UUID = f.uuid("0+")
    partitions: list[PartitionData] = f.array(PartitionData, "0+")


class ReadShareGroupStateSummaryRequest(
    Request["ReadShareGroupStateSummaryResponse"], api_key=87, versions="0-1", flexible="0+"
):
    """The partitions of one share group whose start offsets are read."""

    group_id: str = f.string("0+")
    topics: list[TopicData] = f.array(TopicData, "0+")


class PartitionResult(Struct):
    """The epochs and start offset of one partition's state, or an error."""

    partition: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)
    state_epoch: int = f.int32("0+")
    leader_epoch: int = f.int32("0+")
    start_offset: int = f.int64("0+")
    delivery_complete_count: int = f.int32("1+", default=-1, ignorable=True)


class TopicResult(Struct):
    """The partitions of one topic."""

    topic_id: UUID = f.uuid("0+")
    partitions: list[PartitionResult] = f.array(PartitionResult, "0+")


class ReadShareGroupStateSummaryResponse(Response, api_key=87, versions="0-1", flexible="0+"):
    """The result of each partition."""

    results: list[TopicResult] = f.array(TopicResult, "0+")
