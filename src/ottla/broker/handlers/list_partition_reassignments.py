"""ListPartitionReassignments: the partition reassignments in progress. Only the controller handles it."""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.cluster.controller.reassignment_rules import is_reassigning
from ottla.cluster.image.cluster_image import TopicImage
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(request: ListPartitionReassignmentsRequest, context: RequestContext) -> ListPartitionReassignmentsResponse:
    context.broker.controller.term  # noqa: B018 - raises NotControllerError on other brokers, whose images may be outdated
    topics = context.broker.image.topics
    if request.topics is None:
        requested = {name: list(range(len(topic.partitions))) for name, topic in topics.items()}
    else:
        requested = {t.name: t.partition_indexes for t in request.topics if t.name in topics}
    reassigned = [(name, _moving(topics[name], indexes)) for name, indexes in requested.items()]
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[OngoingTopicReassignment(name=n, partitions=moving) for n, moving in reassigned if moving],
    )


def _moving(topic: TopicImage, indexes: list[int]) -> list[OngoingPartitionReassignment]:
    states = [(index, topic.partitions[index]) for index in indexes if 0 <= index < len(topic.partitions)]
    return [
        OngoingPartitionReassignment(
            partition_index=index,
            replicas=list(p.replicas),
            adding_replicas=list(p.adding),
            removing_replicas=list(p.removing),
        )
        for index, p in states
        if is_reassigning(p)
    ]
