"""ListOffsets (key 2): the start or end offset of a log, or the first offset at or after a timestamp.

The timestamp is in milliseconds, or -2 for the log's start, -1 for its end, -3 for the record with the highest
timestamp, -4 for the start of the log on the leader's disk, -5 for the last offset in tiered storage, -6 for the first
offset that is not in tiered storage yet.

- version 0 (Kafka 0.8) answers with the start offsets of segments, at most `max_num_offsets`
- 1 answers with one offset and its timestamp; 2 adds the isolation level, because the end of the log
  for read_committed consumers is the last stable offset
- 3 throttles only after the response (KIP-219); 4 adds leader epochs; 5 may answer OFFSET_NOT_AVAILABLE
- 6 is flexible; 7 adds -3 (KIP-734); 8 adds -4; 9 adds -5 (KIP-1005); 10 adds a time limit; 11 adds -6
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class ListOffsetsPartition(Struct):
    """The timestamp to look up in one partition."""

    partition_index: int = f.int32("0+")
    current_leader_epoch: int = f.int32("4+", default=-1, ignorable=True)
    timestamp: int = f.int64("0+")
    max_num_offsets: int = f.int32("0", default=1)


class ListOffsetsTopic(Struct):
    """The partitions of one topic."""

    name: str = f.string("0+")
    partitions: list[ListOffsetsPartition] = f.array(ListOffsetsPartition, "0+")


class ListOffsetsRequest(Request["ListOffsetsResponse"], api_key=2, versions="0-11", flexible="6+"):
    """The timestamps to look up in the logs of partitions."""

    # -1 for a consumer.
    replica_id: int = f.int32("0+")
    isolation_level: int = f.int8("2+")
    topics: list[ListOffsetsTopic] = f.array(ListOffsetsTopic, "0+")
    timeout_ms: int = f.int32("10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    """The offset, and the timestamp of its record; -1 if there is none."""

    partition_index: int = f.int32("0+")
    error_code: int = f.int16("0+")
    # Version 0: start offsets of segments, and possibly the log end offset, the highest first.
    old_style_offsets: list[int] = f.array(f.int64(), "0")
    timestamp: int = f.int64("1+", default=-1)
    offset: int = f.int64("1+", default=-1)
    leader_epoch: int = f.int32("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    """The partitions of one topic."""

    name: str = f.string("0+")
    partitions: list[ListOffsetsPartitionResponse] = f.array(ListOffsetsPartitionResponse, "0+")


class ListOffsetsResponse(Response, api_key=2, versions="0-11", flexible="6+"):
    """The offset and timestamp of each partition."""

    throttle_time_ms: int = f.int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = f.array(ListOffsetsTopicResponse, "0+")
