"""OffsetDelete (key 47): delete a group's offsets in topics that it no longer reads (KIP-496)."""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class OffsetDeleteRequestPartition(Struct):
    """A partition whose offset is deleted."""

    partition_index: int = f.int32("0+")


class OffsetDeleteRequestTopic(Struct):
    """The partitions of one topic."""

    name: str = f.string("0+")
    partitions: list[OffsetDeleteRequestPartition] = f.array(OffsetDeleteRequestPartition, "0+")


class OffsetDeleteRequest(Request["OffsetDeleteResponse"], api_key=47, versions="0"):
    """The group, and the partitions whose offsets are deleted."""

    group_id: str = f.string("0+")
    topics: list[OffsetDeleteRequestTopic] = f.array(OffsetDeleteRequestTopic, "0+")


class OffsetDeleteResponsePartition(Struct):
    """The outcome of one partition."""

    partition_index: int = f.int32("0+")
    error_code: int = f.int16("0+")


class OffsetDeleteResponseTopic(Struct):
    """The outcomes of one topic's partitions."""

    name: str = f.string("0+")
    partitions: list[OffsetDeleteResponsePartition] = f.array(OffsetDeleteResponsePartition, "0+")


class OffsetDeleteResponse(Response, api_key=47, versions="0"):
    """The outcome of each partition."""

    error_code: int = f.int16("0+")
    throttle_time_ms: int = f.int32("0+")
    topics: list[OffsetDeleteResponseTopic] = f.array(OffsetDeleteResponseTopic, "0+")
