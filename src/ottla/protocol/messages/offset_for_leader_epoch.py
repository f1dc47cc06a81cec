"""OffsetForLeaderEpoch (key 23): the offset at which a leader epoch ends in the leader's log (KIP-101).

A replica can find out where its log diverges from the leader's; a consumer, after a change of leader, whether records
that it has read were truncated.

- version 1 adds the epoch of the end offset; 2 fences old leaders by the current epoch and adds the throttle time
- 3 adds the replica id (KIP-392); 4 is flexible
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class OffsetForLeaderPartition(Struct):
    """The epoch whose end offset is requested."""

    partition: int = f.int32("0+")
    current_leader_epoch: int = f.int32("2+", default=-1, ignorable=True)
    leader_epoch: int = f.int32("0+")


class OffsetForLeaderTopic(Struct):
    """The partitions of one topic."""

    topic: str = f.string("0+")
    partitions: list[OffsetForLeaderPartition] = f.array(OffsetForLeaderPartition, "0+")


class OffsetForLeaderEpochRequest(Request["OffsetForLeaderEpochResponse"], api_key=23, versions="0-4", flexible="4+"):
    """The partitions, and the epochs whose end offsets are requested."""

    # -1 for a consumer, -2 for a debugging one.
    replica_id: int = f.int32("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = f.array(OffsetForLeaderTopic, "0+")


class EpochEndOffset(Struct):
    """The largest epoch up to the requested one, and its end offset; -1 and -1 if they are unknown."""

    error_code: int = f.int16("0+")
    partition: int = f.int32("0+")
    leader_epoch: int = f.int32("1+", default=-1, ignorable=True)
    end_offset: int = f.int64("0+", default=-1)


class OffsetForLeaderTopicResult(Struct):
    """The partitions of one topic."""

    topic: str = f.string("0+")
    partitions: list[EpochEndOffset] = f.array(EpochEndOffset, "0+")


class OffsetForLeaderEpochResponse(Response, api_key=23, versions="0-4", flexible="4+"):
    """The end offset of each requested epoch."""

    throttle_time_ms: int = f.int32("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = f.array(OffsetForLeaderTopicResult, "0+")
