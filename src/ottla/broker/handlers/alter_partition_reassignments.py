"""AlterPartitionReassignments: move partitions to other brokers. Served in all versions.

On one node the only place is where a partition is already: such a move is done at once, any other is refused as in
Kafka.
"""

from __future__ import annotations

from ottla.broker.services import Call
from ottla.cluster.topics import given
from ottla.errors import (
    KafkaError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
    code_of,
)
from ottla.model import TopicPartition
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(request: AlterPartitionReassignmentsRequest, call: Call) -> AlterPartitionReassignmentsResponse:
    """Look at each partition by itself."""
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name, partitions=[_move(topic.name, p, call) for p in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def _move(topic: str, wish: ReassignablePartition, call: Call) -> ReassignablePartitionResponse:
    result = ReassignablePartitionResponse(partition_index=wish.partition_index, error_message=None)
    try:
        _check(TopicPartition(topic, wish.partition_index), wish.replicas, call)
    except KafkaError as error:
        result.error_code, result.error_message = code_of(error), error.message
    return result


def _check(tp: TopicPartition, replicas: list[int] | None, call: Call) -> None:
    image = call.services.image
    if image.partition(tp) is None:
        raise UnknownTopicOrPartitionError
    if replicas is None:
        raise NoReassignmentInProgressError
    given({0: replicas}, image.brokers)
