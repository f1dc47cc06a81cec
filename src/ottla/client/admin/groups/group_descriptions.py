"""Listings of groups, and descriptions of all types of groups but streams groups."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final, NamedTuple

from ottla.client.admin.security.acls import operations_of
from ottla.model import ACLOperation, TopicPartition
from ottla.protocol.messages import consumer_group_describe as consumer
from ottla.protocol.messages import describe_groups as classic
from ottla.protocol.messages import share_group_describe as share
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from ottla.protocol.versioned import decode_versioned

DEAD: Final = "Dead"
"""The state of a group that does not exist, and, in DescribeGroups, of a group of another type."""


CONSUMER: Final = "consumer"
"""The protocol type of consumer groups, and of classic groups of consumers."""
UNKNOWN_TYPE: Final = -1
CONSUMER_TYPE: Final = 1
"""UNKNOWN_TYPE and CONSUMER_TYPE are values of `member_type` in ConsumerGroupDescribe; 0 is the classic protocol."""


class GroupState(StrEnum):
    """The state of a group. Each type of group has some of these states."""

    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"


class GroupType(StrEnum):
    """The type of a group, which depends on its protocol."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class GroupListing(NamedTuple):
    """A group in a list; state and type are empty if the broker does not report them."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = ""

    @property
    def is_simple_consumer_group(self) -> bool:
        """Whether the group has only committed offsets, because its consumers assign partitions themselves."""
        return not self.protocol_type


class GroupMember(NamedTuple):
    """A member of a group with its current assignment and, in a consumer group of KIP-848, its target assignment."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...] | None = None
    member_epoch: int | None = None
    rack_id: str | None = None
    upgraded: bool | None = None
    """Whether the member of a consumer group uses the protocol of KIP-848; None if the broker does not report it."""


class GroupDescription(NamedTuple):
    """A group with its members. `protocol` is the protocol that the group has selected: for consumers the assignor. The
    epochs are None for classic groups.
    """

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[GroupMember, ...]
    group_type: str = GroupType.CLASSIC
    coordinator_id: int = -1
    group_epoch: int | None = None
    target_assignment_epoch: int | None = None
    authorized_operations: frozenset[ACLOperation] | None = None


def classic_group(group: classic.DescribedGroup, coordinator: int = -1) -> GroupDescription:
    """Return the description of a classic group. Assignments are decoded if the protocol type is consumer."""
    return GroupDescription(
        group.group_id,
        group.group_state or DEAD,
        group.protocol_type,
        group.protocol_data,
        tuple(_classic_member(group.protocol_type, member) for member in group.members),
        GroupType.CLASSIC,
        coordinator,
        authorized_operations=operations_of(group.authorized_operations),
    )


def _classic_member(protocol_type: str, member: classic.DescribedGroupMember) -> GroupMember:
    assigned: tuple[TopicPartition, ...] = ()
    if protocol_type == CONSUMER and member.member_assignment:
        assignment = decode_versioned(ConsumerProtocolAssignment, member.member_assignment)
        assigned = tuple(TopicPartition(t.topic, p) for t in assignment.assigned_partitions for p in t.partitions)
    return GroupMember(member.member_id, member.group_instance_id, member.client_id, member.client_host, assigned)


def epoch_group(group: consumer.DescribedGroup | share.DescribedGroup, coordinator: int = -1) -> GroupDescription:
    """Return the description of a consumer group of KIP-848 or of a share group."""
    kind = GroupType.CONSUMER if isinstance(group, consumer.DescribedGroup) else GroupType.SHARE
    return GroupDescription(
        group.group_id,
        group.group_state,
        str(kind),
        group.assignor_name,
        tuple(_epoch_member(member) for member in group.members),
        kind,
        coordinator,
        group.group_epoch,
        group.assignment_epoch,
        operations_of(group.authorized_operations),
    )


def _epoch_member(member: Any) -> GroupMember:
    kind = getattr(member, "member_type", UNKNOWN_TYPE)
    target = getattr(member, "target_assignment", None)
    return GroupMember(
        member.member_id,
        getattr(member, "instance_id", None),
        member.client_id,
        member.client_host,
        _partitions(member.assignment),
        None if target is None else _partitions(target),
        member.member_epoch,
        member.rack_id,
        None if kind == UNKNOWN_TYPE else kind == CONSUMER_TYPE,
    )


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(t.topic_name, p) for t in assignment.topic_partitions for p in t.partitions)
