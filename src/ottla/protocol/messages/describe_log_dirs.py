"""DescribeLogDirs (key 35): the replicas in a broker's log directories, and their sizes (KIP-113).

- since 1, throttling follows the response (KIP-219); 2 is flexible; 3 adds an error for the whole request
- 4 adds the volume's size and free bytes (KIP-827); 5 adds whether a directory is cordoned
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class DescribableLogDirTopic(Struct):
    """The partitions of one topic."""

    topic: str = f.string("0+")
    partitions: list[int] = f.array(f.int32(), "0+")


class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"], api_key=35, versions="0-5", flexible="2+"):
    """The partitions to describe; None for all."""

    topics: list[DescribableLogDirTopic] | None = f.array(DescribableLogDirTopic, "0+", nullable="0+")


class DescribeLogDirsPartition(Struct):
    """One log: its size in bytes, its lag, and whether it is the copy in a move from another log directory."""

    partition_index: int = f.int32("0+")
    partition_size: int = f.int64("0+")
    offset_lag: int = f.int64("0+")
    is_future_key: bool = f.boolean("0+")


class DescribeLogDirsTopic(Struct):
    """The partitions of one topic."""

    name: str = f.string("0+")
    partitions: list[DescribeLogDirsPartition] = f.array(DescribeLogDirsPartition, "0+")


class DescribeLogDirsResult(Struct):
    """One log directory: its logs, and the size and free space of its volume in bytes; an error if it is offline."""

    error_code: int = f.int16("0+")
    log_dir: str = f.string("0+")
    topics: list[DescribeLogDirsTopic] = f.array(DescribeLogDirsTopic, "0+")
    total_bytes: int = f.int64("4+", default=-1, ignorable=True)
    usable_bytes: int = f.int64("4+", default=-1, ignorable=True)
    is_cordoned: bool = f.boolean("5+", ignorable=True)


class DescribeLogDirsResponse(Response, api_key=35, versions="0-5", flexible="2+"):
    """The log directories of the broker."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = f.array(DescribeLogDirsResult, "0+")
