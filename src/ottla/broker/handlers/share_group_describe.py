"""ShareGroupDescribe: epochs, members and assignments of share groups."""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.broker.security.authorized_operations import NOT_REQUESTED, on_group
from ottla.broker.security.topic_visibility import check_described
from ottla.coordinator.group.common.consumer_member import by_topic
from ottla.coordinator.group.share import share_assignor
from ottla.coordinator.group.share.share_group import ShareGroup, ShareMember
from ottla.errors import KafkaError, code_of
from ottla.model import ACLOperation
from ottla.protocol.messages import share_group_describe as m
from ottla.security.acl import ResourceType


def handle(request: m.ShareGroupDescribeRequest, context: RequestContext) -> m.ShareGroupDescribeResponse:
    with_operations = request.include_authorized_operations
    return m.ShareGroupDescribeResponse(
        groups=[_describe(group_id, with_operations, context) for group_id in request.group_ids]
    )


def _describe(group_id: str, with_operations: bool, context: RequestContext) -> m.DescribedGroup:
    try:
        context.require(ACLOperation.DESCRIBE, ResourceType.GROUP, group_id)
        group = context.broker.groups.described(group_id, ShareGroup)
        check_described((partition for member in group.members.values() for partition in member.assigned), context)
    except KafkaError as error:
        return m.DescribedGroup(group_id=group_id, error_code=code_of(error), error_message=error.message)
    return m.DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        authorized_operations=on_group(context, group_id) if with_operations else NOT_REQUESTED,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=share_assignor.NAME,
        members=[_member(member, context) for member in group.members.values()],
    )


def _member(member: ShareMember, context: RequestContext) -> m.Member:
    names = context.broker.image.names
    topics = [
        m.TopicPartitions(topic_id=topic_id, topic_name=names[topic_id], partitions=indexes)
        for topic_id, indexes in by_topic(member.assigned)
        if topic_id in names
    ]
    return m.Member(
        member_id=member.id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=m.Assignment(topic_partitions=topics),
    )
