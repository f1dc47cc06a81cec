"""WriteShareGroupState (key 85): store the state of share partitions (KIP-932).

- version 1 adds the number of records after the start offset whose delivery is complete (KIP-1226)
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class StateBatch(Struct):
    """Consecutive records in the same state: 0 available, 2 acknowledged, 4 archived."""

    first_offset: int = f.int64("0+")
    last_offset: int = f.int64("0+")
    delivery_state: int = f.int8("0+")
    delivery_count: int = f.int16("0+")


class PartitionData(Struct):
    """The state to store for one partition."""

    partition: int = f.int32("0+")
    state_epoch: int = f.int32("0+")
    leader_epoch: int = f.int32("0+")
    start_offset: int = f.int64("0+")
    delivery_complete_count: int = f.int32("1+", default=-1, ignorable=True)
    state_batches: list[StateBatch] = f.array(StateBatch, "0+")


class TopicData(Struct):
    """The partitions of one topic."""

    topic_id: UUID = f.uuid("0+")
    partitions: list[PartitionData] = f.array(PartitionData, "0+")


class WriteShareGroupStateRequest(Request["WriteShareGroupStateResponse"], api_key=85, versions="0-1", flexible="0+"):
    """The partitions of one share group, with the states to store."""

    group_id: str = f.string("0+")
    topics: list[TopicData] = f.array(TopicData, "0+")


class PartitionResult(Struct):
    """The result of one partition."""

    partition: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)


class TopicResult(Struct):
    """The results of one topic's partitions."""

    topic_id: UUID = f.uuid("0+")
    partitions: list[PartitionResult] = f.array(PartitionResult, "0+")


class WriteShareGroupStateResponse(Response, api_key=85, versions="0-1", flexible="0+"):
    """The result of each partition."""

    results: list[TopicResult] = f.array(TopicResult, "0+")
