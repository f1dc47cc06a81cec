"""CreatePartitions (key 37): add partitions to topics (KIP-195).

- since 1, throttling follows the response (KIP-219); 2 is flexible; 3 may answer THROTTLING_QUOTA_EXCEEDED
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class CreatePartitionsAssignment(Struct):
    """The brokers that get the replicas of one new partition."""

    broker_ids: list[int] = f.array(f.int32(), "0+")


class CreatePartitionsTopic(Struct):
    """One topic and its new number of partitions. If `assignments` is None, the broker places the new replicas."""

    name: str = f.string("0+")
    # All partitions, the present ones included.
    count: int = f.int32("0+")
    assignments: list[CreatePartitionsAssignment] | None = f.array(CreatePartitionsAssignment, "0+", nullable="0+")


class CreatePartitionsRequest(Request["CreatePartitionsResponse"], api_key=37, versions="0-3", flexible="2+"):
    """The topics, and the numbers of partitions that they are to have."""

    topics: list[CreatePartitionsTopic] = f.array(CreatePartitionsTopic, "0+")
    timeout_ms: int = f.int32("0+")
    validate_only: bool = f.boolean("0+")


class CreatePartitionsTopicResult(Struct):
    """The outcome of one topic."""

    name: str = f.string("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)


class CreatePartitionsResponse(Response, api_key=37, versions="0-3", flexible="2+"):
    """The outcome of each topic."""

    throttle_time_ms: int = f.int32("0+")
    results: list[CreatePartitionsTopicResult] = f.array(CreatePartitionsTopicResult, "0+")
