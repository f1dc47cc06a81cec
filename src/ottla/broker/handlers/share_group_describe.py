"""ShareGroupDescribe: epochs, members and assignments of share groups. Served in version 1."""

from __future__ import annotations

from ottla.broker.security.authorized_operations import UNASKED, on_group
from ottla.broker.security.topic_visibility import check_described
from ottla.broker.services import Call
from ottla.coordinator.group.common.consumer_member import by_topic
from ottla.coordinator.group.share import share_assignor
from ottla.coordinator.group.share.share_group import ShareGroup, ShareMember
from ottla.errors import GroupIdNotFoundError, KafkaError, code_of
from ottla.model import ACLOperation
from ottla.protocol.messages import share_group_describe as m
from ottla.security.acl import ResourceType


def handle(request: m.ShareGroupDescribeRequest, call: Call) -> m.ShareGroupDescribeResponse:
    """Describe each group."""
    asked = request.include_authorized_operations
    return m.ShareGroupDescribeResponse(groups=[_describe(group_id, asked, call) for group_id in request.group_ids])


def _describe(group_id: str, asked: bool, call: Call) -> m.DescribedGroup:
    try:
        call.require(ACLOperation.DESCRIBE, ResourceType.GROUP, group_id)
        call.services.groups.check(group_id)
        group = call.services.groups.groups.by_id.get(group_id)
        if not isinstance(group, ShareGroup):
            what = "not found" if group is None else "is not a share group"
            raise GroupIdNotFoundError(f"Group {group_id} {what}.")
        check_described((partition for member in group.members.values() for partition in member.assigned), call)
    except KafkaError as error:
        return m.DescribedGroup(group_id=group_id, error_code=code_of(error), error_message=error.message)
    return m.DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        authorized_operations=on_group(call, group_id) if asked else UNASKED,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=share_assignor.NAME,
        members=[_member(member, call) for member in group.members.values()],
    )


def _member(member: ShareMember, call: Call) -> m.Member:
    names = call.services.image.names
    topics = [
        m.TopicPartitions(topic_id=topic_id, topic_name=names[topic_id], partitions=found)
        for topic_id, found in by_topic(member.assigned)
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
