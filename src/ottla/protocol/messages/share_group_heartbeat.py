"""ShareGroupHeartbeat (key 76): join a share group, stay in it, receive the assignment, and leave (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class ShareGroupHeartbeatRequest(Request["ShareGroupHeartbeatResponse"], api_key=76, versions="1", flexible="0+"):
    """A member's heartbeat: epoch 0 joins the group, -1 leaves it. Optional fields that have not changed are None."""

    group_id: str = f.string("0+")
    member_id: str = f.string("0+")
    member_epoch: int = f.int32("0+")
    rack_id: str | None = f.string("0+", nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = f.array(f.string(), "0+", nullable="0+", default=None)


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: UUID = f.uuid("0+")
    partitions: list[int] = f.array(f.int32(), "0+")


class Assignment(Struct):
    """The partitions that the member is to read; other members may read the same ones."""

    topic_partitions: list[TopicPartitions] = f.array(TopicPartitions, "0+")


class ShareGroupHeartbeatResponse(Response, api_key=76, versions="1", flexible="0+"):
    """The member's epoch, and its assignment if that has changed, or the member may not have received it."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", default=None)
    member_id: str | None = f.string("0+", nullable="0+", default=None)
    member_epoch: int = f.int32("0+")
    heartbeat_interval_ms: int = f.int32("0+")
    assignment: Assignment | None = f.struct(Assignment, "0+", nullable="0+")
