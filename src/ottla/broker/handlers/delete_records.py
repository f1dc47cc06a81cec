"""DeleteRecords: advance the log start offset of partitions.

Offset -1 means the high watermark. Requires DELETE on the topic. Records of internal topics cannot be deleted.

The response waits until all live replicas have deleted the records, at most for the request's timeout (KIP-107).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection
from typing import NamedTuple

from ottla import errors
from ottla.broker.request_context import RequestContext
from ottla.model import INTERNAL_TOPICS, ACLOperation, TopicPartition
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.replication.partition import Partition
from ottla.replication.partitions import wait_all
from ottla.security.acl import ResourceType

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


class Waiting(NamedTuple):
    """A partition whose followers have not deleted the records before `offset` yet, with its result in the response."""

    partition: Partition
    offset: int
    deleted: asyncio.Future[None]
    result: DeleteRecordsPartitionResult


def handle(
    request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    waiting: list[Waiting] = []
    unauthorized = context.unauthorized_errors(
        ACLOperation.DELETE, ResourceType.TOPIC, (t.name for t in request.topics)
    )
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=t.name, partitions=[_answer(t.name, p, context, unauthorized, waiting) for p in t.partitions]
            )
            for t in request.topics
        ]
    )
    return _when_gone(response, waiting, request.timeout_ms, context) if waiting else response


async def _when_gone(
    response: DeleteRecordsResponse, waiting: list[Waiting], timeout_ms: int, context: RequestContext
) -> DeleteRecordsResponse:
    await wait_all([w.deleted for w in waiting], timeout_ms)
    for partition, offset, deleted, result in waiting:
        error = errors.RequestTimedOutError() if deleted.cancelled() else deleted.exception()
        result.low_watermark = partition.leader_replica.low_watermark(_alive(context))
        if error is None:
            # All live brokers had deleted the records. One that has started since may still have them, or its log start
            # offset may be unknown.
            result.low_watermark = max(result.low_watermark, offset)
        result.error_code = errors.code_of(error) if isinstance(error, errors.KafkaError) else 0
    return response


def _alive(context: RequestContext) -> Collection[int]:
    return context.broker.image.brokers.keys()


def _answer(
    topic: str,
    requested: DeleteRecordsPartition,
    context: RequestContext,
    unauthorized: Collection[str],
    waiting: list[Waiting],
) -> DeleteRecordsPartitionResult:
    broker = context.broker
    try:
        if topic in unauthorized:
            raise errors.TopicAuthorizationFailedError
        if topic in INTERNAL_TOPICS:
            raise errors.InvalidTopicError(f"topic {topic} is internal, its records cannot be deleted")
        partition = broker.partitions.leader(broker.image, TopicPartition(topic, requested.partition_index))
        log = partition.log
        if "delete" not in log.config.cleanup_policy:
            raise errors.PolicyViolationError(f"topic {topic} is only compacted, its records cannot be deleted")
        offset = log.high_watermark if requested.offset == HIGH_WATERMARK else requested.offset
        if not 0 <= offset <= log.high_watermark:
            raise errors.OffsetOutOfRangeError
        if offset > log.log_start_offset:
            context.log_change("Deleting records of %s-%d before offset %d", topic, requested.partition_index, offset)
        log.delete_records_before(offset)
    except errors.KafkaError as error:
        return DeleteRecordsPartitionResult(
            partition_index=requested.partition_index, low_watermark=NO_LOW_WATERMARK, error_code=errors.code_of(error)
        )
    result = DeleteRecordsPartitionResult(partition_index=requested.partition_index, low_watermark=log.log_start_offset)
    deleted = partition.leader_replica.when_deleted(offset, lambda: _alive(context))
    if deleted is not None:
        waiting.append(Waiting(partition, offset, deleted, result))
    return result
