"""ListPartitionReassignments (key 46): the partitions that are being reassigned (KIP-455)."""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class ListPartitionReassignmentsTopics(Struct):
    """The partitions of one topic."""

    name: str = f.string("0+")
    partition_indexes: list[int] = f.array(f.int32(), "0+")


class ListPartitionReassignmentsRequest(
    Request["ListPartitionReassignmentsResponse"], api_key=46, versions="0", flexible="0+"
):
    """The partitions whose reassignment is listed; None for all."""

    timeout_ms: int = f.int32("0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = f.array(
        ListPartitionReassignmentsTopics, "0+", nullable="0+", default=None
    )


class OngoingPartitionReassignment(Struct):
    """One partition that is being reassigned."""

    partition_index: int = f.int32("0+")
    replicas: list[int] = f.array(f.int32(), "0+")
    adding_replicas: list[int] = f.array(f.int32(), "0+")
    removing_replicas: list[int] = f.array(f.int32(), "0+")


class OngoingTopicReassignment(Struct):
    """The partitions of one topic."""

    name: str = f.string("0+")
    partitions: list[OngoingPartitionReassignment] = f.array(OngoingPartitionReassignment, "0+")


class ListPartitionReassignmentsResponse(Response, api_key=46, versions="0", flexible="0+"):
    """The reassignments in progress."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")
    topics: list[OngoingTopicReassignment] = f.array(OngoingTopicReassignment, "0+")
