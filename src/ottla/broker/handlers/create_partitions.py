"""CreatePartitions: add partitions to topics. Requires ALTER on the topic."""

from __future__ import annotations

import asyncio

from ottla import errors
from ottla.broker.error_responses import errors_in
from ottla.broker.request_context import RequestContext
from ottla.cluster.controller import reassignment_rules, replica_placement
from ottla.model import ACLOperation
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.security.acl import ResourceType

STRICT_QUOTA_SINCE = 3
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED."""


async def handle(request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    """Add partitions to each topic. An error of one does not affect the others."""
    quota = context.broker.quotas.mutations(
        context.user, context.client_id, strict=context.version >= STRICT_QUOTA_SINCE
    )

    async def answer(topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
        result = CreatePartitionsTopicResult(name=topic.name)
        with errors_in(result):
            if not context.broker.controller.is_active:
                raise errors.NotControllerError
            context.require(ACLOperation.ALTER, ResourceType.TOPIC, topic.name)
            added = _plan(topic, context)
            if not request.validate_only:
                quota.record(len(added))
                await context.broker.controller.topics.add_partitions(topic.name, added, topic.count, context.by)
        return result

    # concurrently, so that brokers that do not respond cost one timeout in total, not one per topic
    results = await asyncio.gather(*map(answer, request.topics))
    return CreatePartitionsResponse(results=results, throttle_time_ms=context.throttle(quota.throttle()))


def _plan(requested: CreatePartitionsTopic, context: RequestContext) -> list[tuple[int, ...]]:
    image = context.broker.image
    topic = image.topics.get(requested.name)
    if topic is None:
        raise errors.UnknownTopicOrPartitionError(f"Topic '{requested.name}' does not exist.")
    old = len(topic.partitions)
    if requested.count <= old:
        raise errors.InvalidPartitionsError(
            f"Topic {requested.name} already has {old} partition(s); {requested.count} is not more than that."
        )
    if any(reassignment_rules.is_reassigning(p) for p in topic.partitions):
        # a partition that is being reassigned temporarily has more replicas than the others
        raise errors.ReassignmentInProgressError(
            f"A partition reassignment is in progress for the topic '{requested.name}'."
        )
    if requested.assignments is None:
        return replica_placement.assign_more_partitions(
            [p.replicas for p in topic.partitions], requested.count, image.racks
        )
    if len(requested.assignments) != requested.count - old:
        raise errors.InvalidReplicaAssignmentError(
            f"{requested.count - old} partition(s) are added, but {len(requested.assignments)} are assigned replicas"
        )
    chosen = {old + i: a.broker_ids for i, a in enumerate(requested.assignments)}
    replicas = len(topic.partitions[0].replicas)
    if any(len(brokers) != replicas for brokers in chosen.values()):
        raise errors.InvalidReplicaAssignmentError(
            f"Inconsistent replication factor between partitions: partition 0 has {replicas} replicas."
        )
    return replica_placement.validate_assignment(chosen, image.brokers, old, cordoned=image.cordoned_brokers)
