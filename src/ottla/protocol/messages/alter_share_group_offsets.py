"""AlterShareGroupOffsets (key 91): set the offsets at which a share group begins to read partitions (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class AlterShareGroupOffsetsRequestPartition(Struct):
    """One partition and its new start offset."""

    partition_index: int = f.int32("0+")
    start_offset: int = f.int64("0+")


class AlterShareGroupOffsetsRequestTopic(Struct):
    """The partitions of one topic."""

    topic_name: str = f.string("0+")
    partitions: list[AlterShareGroupOffsetsRequestPartition] = f.array(AlterShareGroupOffsetsRequestPartition, "0+")


class AlterShareGroupOffsetsRequest(Request["AlterShareGroupOffsetsResponse"], api_key=91, versions="0", flexible="0+"):
    """The share group, and the topics with the new start offsets of their partitions."""

    group_id: str = f.string("0+")
    topics: list[AlterShareGroupOffsetsRequestTopic] = f.array(AlterShareGroupOffsetsRequestTopic, "0+")


class AlterShareGroupOffsetsResponsePartition(Struct):
    """The outcome of one partition."""

    partition_index: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    """The outcome of one topic."""

    topic_name: str = f.string("0+")
    topic_id: UUID = f.uuid("0+")
    partitions: list[AlterShareGroupOffsetsResponsePartition] = f.array(AlterShareGroupOffsetsResponsePartition, "0+")


class AlterShareGroupOffsetsResponse(Response, api_key=91, versions="0", flexible="0+"):
    """The outcome of each topic."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = f.array(AlterShareGroupOffsetsResponseTopic, "0+")
