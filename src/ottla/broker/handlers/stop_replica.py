"""StopReplica: the controller stops or deletes replicas of this broker. Between brokers.

A request of an older leader epoch, or for a deleted topic that was created again, is rejected with
FENCED_LEADER_EPOCH, so that a late request does not delete a log that was assigned to the broker again. While a
broker shuts down, the controller stops its replicas without deleting them, because further fetches would bring the
broker back into the ISR.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.request_context import RequestContext
from ottla.cluster.image.image_delta import DELETED
from ottla.errors import FencedLeaderEpochError
from ottla.model import TopicPartition
from ottla.names import check_partition
from ottla.protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse


async def handle(request: StopReplicaRequest, context: RequestContext) -> StopReplicaResponse:
    await context.broker.controller_requests.verify(request.controller_epoch, request.broker_epoch)
    for tp, _, _ in _partitions(request):
        check_partition(tp)
    return StopReplicaResponse(
        partition_errors=[
            StopReplicaPartitionError(
                topic_name=tp.topic, partition_index=tp.partition, error_code=_stop(tp, epoch, delete, context)
            )
            for tp, epoch, delete in _partitions(request)
        ]
    )


def _stop(tp: TopicPartition, epoch: int, delete: bool, context: RequestContext) -> int:
    image = context.broker.image.partition(tp)
    late = epoch == DELETED or 0 <= epoch < (image.leader_epoch if image is not None else 0)
    if image is not None and late:  # a deleted topic is not in the image, so this topic was created later
        return FencedLeaderEpochError.code or 0
    context.broker.partitions.stop(tp, delete)
    return 0


def _partitions(request: StopReplicaRequest) -> Iterator[tuple[TopicPartition, int, bool]]:
    """Yield partition, leader epoch (or -1) and whether to delete the log, for all versions of the request."""
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield TopicPartition(topic.topic_name, state.partition_index), state.leader_epoch, state.delete_partition
    for old in request.topics:
        for index in old.partition_indexes:
            yield TopicPartition(old.name, index), -1, request.delete_partitions
    for oldest in request.ungrouped_partitions:
        yield TopicPartition(oldest.topic_name, oldest.partition_index), -1, request.delete_partitions
