"""InitializeShareGroupState (key 83): create the state of share partitions, or reset it (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class PartitionData(Struct):
    """One partition, with the epoch and start offset of its new state."""

    partition: int = f.int32("0+")
    state_epoch: int = f.int32("0+")
    # -1: the leader of the partition decides it.
    start_offset: int = f.int64("0+")


class TopicData(Struct):
    """The partitions of one topic."""

    topic_id: UUID = f.uuid("0+")
    partitions: list[PartitionData] = f.array(PartitionData, "0+")


class InitializeShareGroupStateRequest(
    Request["InitializeShareGroupStateResponse"], api_key=83, versions="0", flexible="0+"
):
    """The partitions of one share group whose state is created or reset."""

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


class InitializeShareGroupStateResponse(Response, api_key=83, versions="0", flexible="0+"):
    """The result of each partition."""

    results: list[TopicResult] = f.array(TopicResult, "0+")
