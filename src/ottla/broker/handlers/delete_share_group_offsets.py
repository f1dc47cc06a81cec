"""DeleteShareGroupOffsets: delete the state of a share group without members in topics."""

from __future__ import annotations

from ottla import errors
from ottla.broker.error_codes import errors_in
from ottla.broker.request_context import RequestContext
from ottla.coordinator.group.share.share_group import ShareGroup
from ottla.model import ACLOperation
from ottla.protocol.messages import delete_share_group_offsets as m
from ottla.security.acl import ResourceType


def handle(request: m.DeleteShareGroupOffsetsRequest, context: RequestContext) -> m.DeleteShareGroupOffsetsResponse:
    context.require(ACLOperation.DELETE, ResourceType.GROUP, request.group_id)
    _check_empty(request.group_id, context)
    responses = []
    for requested in request.topics:
        answer = m.DeleteShareGroupOffsetsResponseTopic(topic_name=requested.topic_name)
        with errors_in(answer):
            context.require(ACLOperation.READ, ResourceType.TOPIC, requested.topic_name)
            topic = context.broker.image.topics.get(requested.topic_name)
            if topic is None:
                raise errors.UnknownTopicOrPartitionError(f"Topic {requested.topic_name} does not exist.")
            answer.topic_id = topic.id
            context.broker.share_states.delete_topic(request.group_id, topic.id)
        responses.append(answer)
    return m.DeleteShareGroupOffsetsResponse(responses=responses)


def _check_empty(group_id: str, context: RequestContext) -> None:
    """Raise an error unless the group is a share group without members."""
    runtime = context.broker.groups
    runtime.check(group_id)
    group = runtime.groups.by_id.get(group_id)
    if not isinstance(group, ShareGroup):
        raise errors.GroupIdNotFoundError(f"Group {group_id} is not a share group.")
    if group.members:
        raise errors.NonEmptyGroupError(f"Group {group_id} has members.")
