"""AlterPartitionReassignments (key 45): start or cancel the reassignment of partitions to other brokers (KIP-455).

- version 1 can forbid changes of the number of replicas
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class ReassignablePartition(Struct):
    """The new replicas of a partition; None cancels its reassignment."""

    partition_index: int = f.int32("0+")
    replicas: list[int] | None = f.array(f.int32(), "0+", nullable="0+", default=None)


class ReassignableTopic(Struct):
    """The partitions of one topic."""

    name: str = f.string("0+")
    partitions: list[ReassignablePartition] = f.array(ReassignablePartition, "0+")


class AlterPartitionReassignmentsRequest(
    Request["AlterPartitionReassignmentsResponse"], api_key=45, versions="0-1", flexible="0+"
):
    """The partitions to reassign, or whose reassignments to cancel."""

    timeout_ms: int = f.int32("0+", default=60000)
    allow_replication_factor_change: bool = f.boolean("1+", default=True)
    topics: list[ReassignableTopic] = f.array(ReassignableTopic, "0+")


class ReassignablePartitionResponse(Struct):
    """The outcome of one partition."""

    partition_index: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")


class ReassignableTopicResponse(Struct):
    """The outcomes of one topic's partitions."""

    name: str = f.string("0+")
    partitions: list[ReassignablePartitionResponse] = f.array(ReassignablePartitionResponse, "0+")


class AlterPartitionReassignmentsResponse(Response, api_key=45, versions="0-1", flexible="0+"):
    """The result of each partition."""

    throttle_time_ms: int = f.int32("0+")
    allow_replication_factor_change: bool = f.boolean("1+", default=True, ignorable=True)
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")
    responses: list[ReassignableTopicResponse] = f.array(ReassignableTopicResponse, "0+")
