"""DeleteTopics: delete topics by name or, from version 6 on, by id. Logs are renamed at once and removed later.

Requires DELETE on the cluster or the topic. The response does not reveal to a client without DESCRIBE whether a topic
of this name exists, nor the name of a topic id.
"""

from __future__ import annotations

import asyncio
from uuid import UUID

from ottla import errors
from ottla.broker.error_responses import errors_in
from ottla.broker.quotas.client_quotas import MutationQuota
from ottla.broker.request_context import RequestContext
from ottla.model import ACLOperation
from ottla.protocol.fields import ZERO_UUID
from ottla.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.security.acl import ResourceType

STRICT_QUOTA_SINCE = 5
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED."""


async def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    """Delete each topic. An error of one does not affect the others."""
    topics: list[tuple[str | None, UUID]] = [(name, ZERO_UUID) for name in request.topic_names]
    topics += [(t.name, t.topic_id) for t in request.topics]
    quota = context.broker.quotas.mutations(
        context.user, context.client_id, strict=context.version >= STRICT_QUOTA_SINCE
    )

    async def answer(name: str | None, topic_id: UUID) -> DeletableTopicResult:
        result = DeletableTopicResult(name=name, topic_id=topic_id)
        with errors_in(result):
            if not context.broker.controller.is_active:
                raise errors.NotControllerError
            topic_name = _name(name, topic_id, context)
            if _may(ACLOperation.DESCRIBE, topic_name, context):
                result.name = topic_name
            _check_allowed(topic_name, context, by_id=topic_id != ZERO_UUID)
            topic = context.broker.image.topics.get(topic_name)
            await _delete(topic_name, quota, context)
            result.topic_id = topic.id if topic else topic_id
        return result

    # concurrently, so that brokers that do not respond cost one timeout in total, not one per topic
    results = await asyncio.gather(*(answer(name, topic_id) for name, topic_id in topics))
    return DeleteTopicsResponse(responses=results, throttle_time_ms=context.throttle(quota.throttle()))


def _name(name: str | None, topic_id: UUID, context: RequestContext) -> str:
    if name is not None:
        if topic_id != ZERO_UUID:
            raise errors.InvalidRequestError("a topic must be identified either by its name or by its id")
        return name
    topic_name = context.broker.image.names.get(topic_id)
    if topic_name is None:
        raise errors.UnknownTopicIdError
    return topic_name


def _may(operation: ACLOperation, name: str, context: RequestContext) -> bool:
    of_all = context.allows(ACLOperation.DELETE, ResourceType.CLUSTER)
    return of_all or context.allows(operation, ResourceType.TOPIC, name)


def _check_allowed(name: str, context: RequestContext, *, by_id: bool) -> None:
    """Raise an error if the client may not delete the topic.

    Only a client with DESCRIBE gets UNKNOWN_TOPIC_OR_PARTITION.
    """
    if not by_id and not _may(ACLOperation.DESCRIBE, name, context):
        raise context.deny(ACLOperation.DESCRIBE, ResourceType.TOPIC, name)
    if not _may(ACLOperation.DELETE, name, context):
        error = context.deny(ACLOperation.DELETE, ResourceType.TOPIC, name)
        raise error if name in context.broker.image.topics else errors.UnknownTopicOrPartitionError()


async def _delete(name: str, quota: MutationQuota, context: RequestContext) -> None:
    if not context.broker.config.delete_topic_enable:
        raise errors.TopicDeletionDisabledError
    topic = context.broker.image.topics.get(name)
    if topic is not None and topic.is_internal:
        raise errors.InvalidTopicError(f"topic {name} is internal and cannot be deleted")
    if topic is not None:
        quota.record(len(topic.partitions))
    await context.broker.controller.topics.delete(name, context.by)
