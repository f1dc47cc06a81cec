"""DeleteShareGroupOffsets: delete the offsets of a share group in all partitions of the named topics.

The group must have no members.
"""

from __future__ import annotations

import asyncio
from uuid import UUID

from ottla import errors
from ottla.broker.broker_context import BrokerContext
from ottla.broker.error_responses import errors_in
from ottla.broker.request_context import RequestContext
from ottla.coordinator.group.share.share_group import ShareGroup
from ottla.coordinator.group.share.share_group_records import initialized_record
from ottla.coordinator.share_partition.share_state_records import ShareKey
from ottla.model import ACLOperation
from ottla.protocol.messages import delete_share_group_offsets as m
from ottla.security.acl import ResourceType


async def handle(
    request: m.DeleteShareGroupOffsetsRequest, context: RequestContext
) -> m.DeleteShareGroupOffsetsResponse:
    context.require(ACLOperation.DELETE, ResourceType.GROUP, request.group_id)
    group = _empty_group(request.group_id, context)
    responses = []
    for requested in request.topics:
        answer = m.DeleteShareGroupOffsetsResponseTopic(topic_name=requested.topic_name)
        with errors_in(answer):
            context.require(ACLOperation.READ, ResourceType.TOPIC, requested.topic_name)
            topic = context.broker.image.topics.get(requested.topic_name)
            if topic is None:
                raise errors.UnknownTopicOrPartitionError(f"Topic {requested.topic_name} does not exist.")
            answer.topic_id = topic.id
            await _delete(group, topic.id, context.broker)
            context.log_change("Deleted offsets of share group %s: %s", request.group_id, requested.topic_name)
        responses.append(answer)
    return m.DeleteShareGroupOffsetsResponse(responses=responses)


async def _delete(group: ShareGroup, topic_id: UUID, broker: BrokerContext) -> None:
    states = (ShareKey(group.id, *tip) for tip in group.initialized if tip.topic_id == topic_id)
    await asyncio.gather(*(broker.share_persister.delete(key) for key in states))
    others = frozenset(tip for tip in group.initialized if tip.topic_id != topic_id)
    if others != group.initialized:
        await broker.groups.append(group.id, [initialized_record(group.id, others, broker.image.names)])


def _empty_group(group_id: str, context: RequestContext) -> ShareGroup:
    group = context.broker.groups.described(group_id, ShareGroup)
    if group.members:
        raise errors.NonEmptyGroupError(f"Group {group_id} has members.")
    return group
