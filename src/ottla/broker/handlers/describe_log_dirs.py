"""DescribeLogDirs: the replicas in this broker's log directories. Requires DESCRIBE on the cluster.

Up to version 2 the response has no field for an authorization error, so an unauthorized client gets no directories.
With thousands of logs, other requests are processed in between.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Final

from ottla.broker.request_context import RequestContext
from ottla.errors import KafkaStorageError, code_of
from ottla.model import ACLOperation, TopicPartition
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ottla.security.acl import ResourceType
from ottla.storage.files import disk_space
from ottla.storage.log_dir import LogDir

DESCRIBED_AT_ONCE: Final = 500
"""Number of logs that are described before other tasks may run."""


async def handle(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    """Describe every log directory. An offline one has an error."""
    authorization_error = context.authorization_error(ACLOperation.DESCRIBE, ResourceType.CLUSTER)
    if authorization_error is not None:
        return DescribeLogDirsResponse(error_code=code_of(authorization_error))
    partitions = None
    if request.topics is not None:
        partitions = frozenset(TopicPartition(t.topic, p) for t in request.topics for p in t.partitions)
    dirs = context.broker.partitions
    results = [await _describe(directory, partitions, context) for directory in dirs.log_dirs]
    storage_error = KafkaStorageError.code or 0
    results += [DescribeLogDirsResult(log_dir=path, error_code=storage_error) for path in dirs.unopened_dirs]
    return DescribeLogDirsResponse(results=results)


async def _describe(
    directory: LogDir, partitions: frozenset[TopicPartition] | None, context: RequestContext
) -> DescribeLogDirsResult:
    """Describe the replicas of `partitions` in a log directory; None for all."""
    cordoned = context.broker.partitions.is_cordoned(directory)
    result = DescribeLogDirsResult(log_dir=str(directory.path), is_cordoned=cordoned)
    if directory.offline:
        result.error_code = KafkaStorageError.code or 0
        return result
    by_topic: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    names = sorted(directory.logs) if partitions is None else sorted(directory.logs.keys() & partitions)
    for number, tp in enumerate(names, 1):
        log = directory.logs.get(tp)
        if log is not None:  # else it was deleted meanwhile
            lag = max(0, log.high_watermark - log.log_end_offset)
            by_topic[tp.topic].append(
                DescribeLogDirsPartition(partition_index=tp.partition, partition_size=log.size, offset_lag=lag)
            )
        if number % DESCRIBED_AT_ONCE == 0:
            await asyncio.sleep(0)
    for tp, moving in list(context.broker.partitions.log_dir_moves.items()):
        if moving.target is directory and (partitions is None or tp in partitions):
            by_topic[tp.topic].append(
                DescribeLogDirsPartition(
                    partition_index=tp.partition, partition_size=moving.size, offset_lag=moving.lag, is_future_key=True
                )
            )
    result.topics = [DescribeLogDirsTopic(name=name, partitions=described) for name, described in by_topic.items()]
    result.total_bytes, result.usable_bytes = disk_space(directory.path)
    return result
