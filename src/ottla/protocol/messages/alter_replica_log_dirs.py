"""AlterReplicaLogDirs (key 34): move replicas to other log directories of their broker (KIP-113).

- since 1, throttling follows the response (KIP-219); 2 is flexible
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class AlterReplicaLogDirTopic(Struct):
    """The partitions of one topic."""

    name: str = f.string("0+")
    partitions: list[int] = f.array(f.int32(), "0+")


class AlterReplicaLogDir(Struct):
    """A log directory, and the replicas to move there."""

    path: str = f.string("0+")
    topics: list[AlterReplicaLogDirTopic] = f.array(AlterReplicaLogDirTopic, "0+")


class AlterReplicaLogDirsRequest(Request["AlterReplicaLogDirsResponse"], api_key=34, versions="0-2", flexible="2+"):
    """The replicas to move, grouped by the log directory that they move to."""

    dirs: list[AlterReplicaLogDir] = f.array(AlterReplicaLogDir, "0+")


class AlterReplicaLogDirPartitionResult(Struct):
    """The outcome of one partition."""

    partition_index: int = f.int32("0+")
    error_code: int = f.int16("0+")


class AlterReplicaLogDirTopicResult(Struct):
    """The outcomes of one topic's partitions."""

    topic_name: str = f.string("0+")
    partitions: list[AlterReplicaLogDirPartitionResult] = f.array(AlterReplicaLogDirPartitionResult, "0+")


class AlterReplicaLogDirsResponse(Response, api_key=34, versions="0-2", flexible="2+"):
    """The result of each replica."""

    throttle_time_ms: int = f.int32("0+")
    results: list[AlterReplicaLogDirTopicResult] = f.array(AlterReplicaLogDirTopicResult, "0+")
