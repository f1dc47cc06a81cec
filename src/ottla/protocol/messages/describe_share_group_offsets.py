"""DescribeShareGroupOffsets (key 90): the offsets of share groups (KIP-932).

- version 1 adds the lag (KIP-1226)
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class DescribeShareGroupOffsetsRequestTopic(Struct):
    """Partitions of one topic."""

    topic_name: str = f.string("0+")
    partitions: list[int] = f.array(f.int32(), "0+")


class DescribeShareGroupOffsetsRequestGroup(Struct):
    """One group, and the topics to describe (None for all topics)."""

    group_id: str = f.string("0+")
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = f.array(
        DescribeShareGroupOffsetsRequestTopic, "0+", nullable="0+"
    )


class DescribeShareGroupOffsetsRequest(
    Request["DescribeShareGroupOffsetsResponse"], api_key=90, versions="0-1", flexible="0+"
):
    """The share groups whose offsets are described."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = f.array(DescribeShareGroupOffsetsRequestGroup, "0+")


class DescribeShareGroupOffsetsResponsePartition(Struct):
    """One partition: the offset of the first unfinished record (-1 if the group has not begun to read, or there is an
    error), and the lag.
    """

    partition_index: int = f.int32("0+")
    start_offset: int = f.int64("0+")
    leader_epoch: int = f.int32("0+")
    lag: int = f.int64("1+", default=-1, ignorable=True)
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    """The partitions of one topic."""

    topic_name: str = f.string("0+")
    topic_id: UUID = f.uuid("0+")
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = f.array(
        DescribeShareGroupOffsetsResponsePartition, "0+"
    )


class DescribeShareGroupOffsetsResponseGroup(Struct):
    """One group: the start offsets of its partitions, or an error."""

    group_id: str = f.string("0+")
    topics: list[DescribeShareGroupOffsetsResponseTopic] = f.array(DescribeShareGroupOffsetsResponseTopic, "0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)


class DescribeShareGroupOffsetsResponse(Response, api_key=90, versions="0-1", flexible="0+"):
    """The start offsets of the groups' partitions."""

    throttle_time_ms: int = f.int32("0+")
    groups: list[DescribeShareGroupOffsetsResponseGroup] = f.array(DescribeShareGroupOffsetsResponseGroup, "0+")
