"""ConsumerGroupHeartbeat (key 68): join a consumer group (KIP-848), stay in it, receive the assignment, and leave.

One request does what JoinGroup, SyncGroup, Heartbeat and LeaveGroup do together, and the broker assigns. Optional
fields that have not changed since the last heartbeat are left out (None, or -1).

- version 1 adds a regular expression as the subscription, and requires the member to generate its own id (KIP-1082)
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: UUID = f.uuid("0+")
    partitions: list[int] = f.array(f.int32(), "0+")


class ConsumerGroupHeartbeatRequest(
    Request["ConsumerGroupHeartbeatResponse"], api_key=68, versions="0-1", flexible="0+"
):
    """A member's heartbeat: epoch 0 joins the group, -1 leaves it, -2 leaves as a static member that will return."""

    group_id: str = f.string("0+")
    member_id: str = f.string("0+")
    member_epoch: int = f.int32("0+")
    instance_id: str | None = f.string("0+", nullable="0+", default=None)
    rack_id: str | None = f.string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = f.int32("0+", default=-1)
    subscribed_topic_names: list[str] | None = f.array(f.string(), "0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None = f.string("1+", nullable="1+", default=None)
    server_assignor: str | None = f.string("0+", nullable="0+", default=None)
    # The partitions that the member owns now. Other members get a revoked one only after it is missing here.
    topic_partitions: list[TopicPartitions] | None = f.array(TopicPartitions, "0+", nullable="0+", default=None)


class Assignment(Struct):
    """The partitions that the member is to read from now on."""

    topic_partitions: list[TopicPartitions] = f.array(TopicPartitions, "0+")


class ConsumerGroupHeartbeatResponse(Response, api_key=68, versions="0-1", flexible="0+"):
    """The member's epoch, and its assignment if that has changed, or the member may not have received it."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)
    member_id: str | None = f.string("0+", nullable="0+", default=None)
    member_epoch: int = f.int32("0+")
    heartbeat_interval_ms: int = f.int32("0+")
    assignment: Assignment | None = f.struct(Assignment, "0+", nullable="0+")
