"""AlterReplicaLogDirs: start to move replicas to other log directories of this broker.

Requires ALTER on the cluster.

The response does not wait for the end of the moves; DescribeLogDirs returns their progress.
"""

from __future__ import annotations

from collections import defaultdict

from ottla.broker.error_responses import errors_in
from ottla.broker.request_context import RequestContext
from ottla.logs import listed
from ottla.model import ACLOperation, TopicPartition
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.security.acl import ResourceType


async def handle(request: AlterReplicaLogDirsRequest, context: RequestContext) -> AlterReplicaLogDirsResponse:
    by_topic: dict[str, list[AlterReplicaLogDirPartitionResult]] = defaultdict(list)
    authorization_error = context.authorization_error(ACLOperation.ALTER, ResourceType.CLUSTER)
    for directory in request.dirs:
        moving: list[TopicPartition] = []
        for topic in directory.topics:
            for index in topic.partitions:
                result = AlterReplicaLogDirPartitionResult(partition_index=index)
                with errors_in(result):
                    if authorization_error is not None:
                        raise authorization_error
                    tp = TopicPartition(topic.name, index)
                    await context.broker.partitions.move_replica(tp, directory.path)
                    moving.append(tp)
                by_topic[topic.name].append(result)
        if moving:
            context.log_change("Moving replicas to %s: %s", directory.path, listed(moving))
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions)
            for name, partitions in by_topic.items()
        ]
    )
