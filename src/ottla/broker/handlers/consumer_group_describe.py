"""ConsumerGroupDescribe: epochs, members and assignments of KIP-848 groups."""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.broker.security.authorized_operations import NOT_REQUESTED, on_group
from ottla.broker.security.topic_visibility import check_described
from ottla.coordinator.group.common.consumer_member import Assignment, ConsumerMember, by_topic
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.errors import KafkaError, code_of
from ottla.model import ACLOperation
from ottla.protocol.messages import consumer_group_describe as m
from ottla.security.acl import ResourceType

CLASSIC, CONSUMER = 0, 1


def handle(request: m.ConsumerGroupDescribeRequest, context: RequestContext) -> m.ConsumerGroupDescribeResponse:
    with_operations = request.include_authorized_operations
    return m.ConsumerGroupDescribeResponse(
        groups=[_describe(group_id, with_operations, context) for group_id in request.group_ids]
    )


def _describe(group_id: str, with_operations: bool, context: RequestContext) -> m.DescribedGroup:
    try:
        context.require(ACLOperation.DESCRIBE, ResourceType.GROUP, group_id)
        group = context.broker.groups.described(group_id, ConsumerGroup)
        members = group.members.values()
        check_described((p for member in members for p in member.assigned | group.target_of(member)), context)
    except KafkaError as error:
        return m.DescribedGroup(group_id=group_id, error_code=code_of(error), error_message=error.message)
    return m.DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        authorized_operations=on_group(context, group_id) if with_operations else NOT_REQUESTED,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=context.broker.groups.groups.consumer.assignor(group)[0],
        members=[_member(member, group, context) for member in members],
    )


def _member(member: ConsumerMember, group: ConsumerGroup, context: RequestContext) -> m.Member:
    return m.Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex or None,
        assignment=_assignment(member.assigned, context),
        target_assignment=_assignment(group.target_of(member), context),
        member_type=CONSUMER if member.classic is None else CLASSIC,
    )


def _assignment(partitions: Assignment, context: RequestContext) -> m.Assignment:
    names = context.broker.image.names
    return m.Assignment(
        topic_partitions=[
            m.TopicPartitions(topic_id=topic_id, topic_name=names[topic_id], partitions=indexes)
            for topic_id, indexes in by_topic(partitions)
            if topic_id in names
        ]
    )
