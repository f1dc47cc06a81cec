"""AlterPartitionReassignments: start or cancel reassignments of partitions (KIP-455).

The response does not wait for the end of the reassignments; ListPartitionReassignments returns those in progress. From
version 1 on, the client may forbid changes of the replication factor (KIP-860).
"""

from __future__ import annotations

import asyncio

from ottla.broker.request_context import RequestContext
from ottla.cluster.controller.reassignment_rules import target_of
from ottla.cluster.image.cluster_image import PartitionImage
from ottla.errors import InvalidReplicationFactorError, KafkaError, NotControllerError, code_of
from ottla.logs import listed
from ottla.model import TopicPartition
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


async def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    if not context.broker.controller.is_active:
        raise NotControllerError
    # concurrently, so that brokers that do not respond cost one timeout in total, not one per partition
    resizes = request.allow_replication_factor_change
    moves = [_move(topic.name, p, context, resizes=resizes) for topic in request.topics for p in topic.partitions]
    outcomes = iter(await asyncio.gather(*moves))
    answers = [
        ReassignableTopicResponse(name=topic.name, partitions=[next(outcomes) for _ in topic.partitions])
        for topic in request.topics
    ]
    _log(request, answers, context)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=answers,
    )


def _log(
    request: AlterPartitionReassignmentsRequest, answers: list[ReassignableTopicResponse], context: RequestContext
) -> None:
    changed = [
        f"{topic.name}-{p.partition_index} to {p.replicas}"
        if p.replicas is not None
        else f"{topic.name}-{p.partition_index} cancelled"
        for topic, answer in zip(request.topics, answers, strict=True)
        for p, result in zip(topic.partitions, answer.partitions, strict=True)
        if not result.error_code
    ]
    if changed:
        context.log_change("Accepted reassignments: %s", listed(changed))


async def _move(
    topic: str, reassignment: ReassignablePartition, context: RequestContext, *, resizes: bool
) -> ReassignablePartitionResponse:
    result = ReassignablePartitionResponse(partition_index=reassignment.partition_index, error_message=None)
    tp = TopicPartition(topic, reassignment.partition_index)
    try:
        if not resizes and reassignment.replicas is not None:
            _check_size(context.broker.image.partition(tp), len(reassignment.replicas))
        await context.broker.controller.reassignments.reassign(tp, reassignment.replicas)
    except NotControllerError:
        raise
    except KafkaError as error:
        result.error_code, result.error_message = code_of(error), error.message
    return result


def _check_size(p: PartitionImage | None, size: int) -> None:
    """Raise InvalidReplicationFactorError if the partition's number of replicas would change.

    If a reassignment is in progress, its number of target replicas counts.
    """
    if p is not None and size != (now := len(target_of(p))):
        raise InvalidReplicationFactorError(f"The replication factor is changed from {now} to {size}")
