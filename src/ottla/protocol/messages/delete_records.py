"""DeleteRecords (key 21): delete the records before an offset (KIP-107).

- since 1, throttling follows the response (KIP-219); 2 is flexible
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class DeleteRecordsPartition(Struct):
    """The first offset to keep; -1 for the high watermark."""

    partition_index: int = f.int32("0+")
    offset: int = f.int64("0+")


class DeleteRecordsTopic(Struct):
    """The partitions of one topic."""

    name: str = f.string("0+")
    partitions: list[DeleteRecordsPartition] = f.array(DeleteRecordsPartition, "0+")


class DeleteRecordsRequest(Request["DeleteRecordsResponse"], api_key=21, versions="0-2", flexible="2+"):
    """The partitions, and their new start offsets."""

    topics: list[DeleteRecordsTopic] = f.array(DeleteRecordsTopic, "0+")
    timeout_ms: int = f.int32("0+")


class DeleteRecordsPartitionResult(Struct):
    """A partition's low watermark (the lowest log start offset of its live replicas), and the error code."""

    partition_index: int = f.int32("0+")
    low_watermark: int = f.int64("0+")
    error_code: int = f.int16("0+")


class DeleteRecordsTopicResult(Struct):
    """The partitions of one topic."""

    name: str = f.string("0+")
    partitions: list[DeleteRecordsPartitionResult] = f.array(DeleteRecordsPartitionResult, "0+")


class DeleteRecordsResponse(Response, api_key=21, versions="0-2", flexible="2+"):
    """The outcome of each partition."""

    throttle_time_ms: int = f.int32("0+")
    topics: list[DeleteRecordsTopicResult] = f.array(DeleteRecordsTopicResult, "0+")
