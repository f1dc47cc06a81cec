"""Groups as the admin client tells of them, made from what brokers answer about either kind."""

from __future__ import annotations

from ottla.client.admin_model import GroupDescription, GroupMember
from ottla.model import TopicPartition
from ottla.protocol.messages import consumer_group_describe as consumer
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from ottla.protocol.messages.describe_groups import DescribedGroup
from ottla.protocol.versioned import decode_versioned

DEAD = "Dead"
"""The state of a group that is not there, and, in DescribeGroups' answers, of one that is of the new kind."""


def classic(group: DescribedGroup) -> GroupDescription:
    """A classic group; what its members say to each other is read where it is the consumers' protocol."""
    members = []
    for member in group.members:
        assigned: list[TopicPartition] = []
        if group.protocol_type == "consumer" and member.member_assignment:
            assignment = decode_versioned(ConsumerProtocolAssignment, member.member_assignment)
            assigned = [TopicPartition(t.topic, p) for t in assignment.assigned_partitions for p in t.partitions]
        members.append(
            GroupMember(
                member.member_id, member.group_instance_id, member.client_id, member.client_host, tuple(assigned)
            )
        )
    state = group.group_state or DEAD
    return GroupDescription(group.group_id, state, group.protocol_type, group.protocol_data, tuple(members))


def of_new_kind(group: consumer.DescribedGroup) -> GroupDescription:
    """A group with `group.protocol=consumer` (KIP-848)."""
    members = [
        GroupMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            tuple(TopicPartition(t.topic_name, p) for t in member.assignment.topic_partitions for p in t.partitions),
        )
        for member in group.members
    ]
    return GroupDescription(group.group_id, group.group_state, "consumer", group.assignor_name, tuple(members))
