"""DescribeTopicPartitions (key 75): topics with the details that Metadata leaves out, page by page (KIP-966)."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class TopicRequest(Struct):
    """A topic to describe, by name."""

    name: str = f.string("0+")


class Cursor(Struct):
    """The partition that the next page begins with."""

    topic_name: str = f.string("0+")
    partition_index: int = f.int32("0+")


class DescribeTopicPartitionsRequest(
    Request["DescribeTopicPartitionsResponse"], api_key=75, versions="0", flexible="0+"
):
    """The topics to describe (an empty list for all), and the cursor at which the page begins."""

    topics: list[TopicRequest] = f.array(TopicRequest, "0+")
    response_partition_limit: int = f.int32("0+", default=2000)
    cursor: Cursor | None = f.struct(Cursor, "0+", nullable="0+")


class DescribeTopicPartitionsResponsePartition(Struct):
    """One partition: its leader, its replicas, its ISR, and the eligible leader replicas outside the ISR (ELR)."""

    error_code: int = f.int16("0+")
    partition_index: int = f.int32("0+")
    leader_id: int = f.int32("0+")
    leader_epoch: int = f.int32("0+", default=-1)
    replica_nodes: list[int] = f.array(f.int32(), "0+")
    isr_nodes: list[int] = f.array(f.int32(), "0+")
    eligible_leader_replicas: list[int] | None = f.array(f.int32(), "0+", nullable="0+", default=None)
    last_known_elr: list[int] | None = f.array(f.int32(), "0+", nullable="0+", default=None)
    offline_replicas: list[int] = f.array(f.int32(), "0+")


class DescribeTopicPartitionsResponseTopic(Struct):
    """One topic with its partitions on this page, or an error."""

    error_code: int = f.int16("0+")
    name: str | None = f.string("0+", nullable="0+")
    topic_id: UUID = f.uuid("0+")
    is_internal: bool = f.boolean("0+")
    partitions: list[DescribeTopicPartitionsResponsePartition] = f.array(DescribeTopicPartitionsResponsePartition, "0+")
    topic_authorized_operations: int = f.int32("0+", default=-0x8000_0000)


class DescribeTopicPartitionsResponse(Response, api_key=75, versions="0", flexible="0+"):
    """A page of partitions, and the cursor of the next page; None if this is the last page."""

    throttle_time_ms: int = f.int32("0+")
    topics: list[DescribeTopicPartitionsResponseTopic] = f.array(DescribeTopicPartitionsResponseTopic, "0+")
    next_cursor: Cursor | None = f.struct(Cursor, "0+", nullable="0+")
