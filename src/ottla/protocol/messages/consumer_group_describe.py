"""ConsumerGroupDescribe (key 69): state, epochs and members of KIP-848 groups.

- version 1 adds which members use the classic protocol (KIP-1099)
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class ConsumerGroupDescribeRequest(Request["ConsumerGroupDescribeResponse"], api_key=69, versions="0-1", flexible="0+"):
    """The ids of the groups to describe."""

    group_ids: list[str] = f.array(f.string(), "0+")
    include_authorized_operations: bool = f.boolean("0+")


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: UUID = f.uuid("0+")
    topic_name: str = f.string("0+")
    partitions: list[int] = f.array(f.int32(), "0+")


class Assignment(Struct):
    """A member's current or target assignment."""

    topic_partitions: list[TopicPartitions] = f.array(TopicPartitions, "0+")


class Member(Struct):
    """One member: its client, subscription and epoch, and its current and target assignment."""

    member_id: str = f.string("0+")
    instance_id: str | None = f.string("0+", nullable="0+", default=None)
    rack_id: str | None = f.string("0+", nullable="0+", default=None)
    member_epoch: int = f.int32("0+")
    client_id: str = f.string("0+")
    client_host: str = f.string("0+")
    subscribed_topic_names: list[str] = f.array(f.string(), "0+")
    subscribed_topic_regex: str | None = f.string("0+", nullable="0+", default=None)
    assignment: Assignment = f.struct(Assignment, "0+")
    target_assignment: Assignment = f.struct(Assignment, "0+")
    # -1 unknown, 0 classic, 1 consumer
    member_type: int = f.int8("1+", default=-1, ignorable=True)


class DescribedGroup(Struct):
    """One group: its state, epochs, assignor and members, or an error."""

    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)
    group_id: str = f.string("0+")
    group_state: str = f.string("0+")
    group_epoch: int = f.int32("0+")
    assignment_epoch: int = f.int32("0+")
    assignor_name: str = f.string("0+")
    members: list[Member] = f.array(Member, "0+")
    authorized_operations: int = f.int32("0+", default=-0x8000_0000)


class ConsumerGroupDescribeResponse(Response, api_key=69, versions="0-1", flexible="0+"):
    """The described groups, one for each requested id."""

    throttle_time_ms: int = f.int32("0+")
    groups: list[DescribedGroup] = f.array(DescribedGroup, "0+")
