"""AlterPartitionReassignments: move partitions to other brokers, or take that back (KIP-455). Served in all versions.

A move begins here and goes on by itself; ListPartitionReassignments tells how far it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ottla.broker.services import Call
from ottla.errors import KafkaError, NotControllerError, code_of
from ottla.model import TopicPartition
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(request: AlterPartitionReassignmentsRequest, call: Call) -> Awaitable[AlterPartitionReassignmentsResponse]:
    """Begin each partition's move by itself."""
    return _answer(request, call)


async def _answer(request: AlterPartitionReassignmentsRequest, call: Call) -> AlterPartitionReassignmentsResponse:
    # together, so that brokers which do not answer are waited for once, not once for each partition
    moves = [_move(topic.name, p, call) for topic in request.topics for p in topic.partitions]
    outcomes = iter(await asyncio.gather(*moves))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(name=topic.name, partitions=[next(outcomes) for _ in topic.partitions])
            for topic in request.topics
        ],
    )


async def _move(topic: str, wish: ReassignablePartition, call: Call) -> ReassignablePartitionResponse:
    result = ReassignablePartitionResponse(partition_index=wish.partition_index, error_message=None)
    try:
        await call.services.controller.moves.reassign(TopicPartition(topic, wish.partition_index), wish.replicas)
    except NotControllerError:
        raise
    except KafkaError as error:
        result.error_code, result.error_message = code_of(error), error.message
    return result
