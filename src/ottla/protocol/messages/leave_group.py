"""LeaveGroup (key 13): members leave a classic group at once, not only when their session expires.

- version 1 adds the throttle time; 2 throttles only after the response (KIP-219)
- 3 takes several members, static ones too, in a field of their own; 4 is flexible; 5 takes a reason
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class MemberIdentity(Struct):
    """A member, by member id or by instance id."""

    member_id: str = f.string("3+")
    group_instance_id: str | None = f.string("3+", nullable="3+", default=None)
    reason: str | None = f.string("5+", nullable="5+", default=None, ignorable=True)


class LeaveGroupRequest(Request["LeaveGroupResponse"], api_key=13, versions="0-5", flexible="4+"):
    """The group, and the members that leave it."""

    group_id: str = f.string("0+")
    member_id: str = f.string("0-2")
    members: list[MemberIdentity] = f.array(MemberIdentity, "3+")


class MemberResponse(Struct):
    """The outcome of one member."""

    member_id: str = f.string("3+")
    group_instance_id: str | None = f.string("3+", nullable="3+")
    error_code: int = f.int16("3+")


class LeaveGroupResponse(Response, api_key=13, versions="0-5", flexible="4+"):
    """The outcome of each member."""

    throttle_time_ms: int = f.int32("1+", ignorable=True)
    error_code: int = f.int16("0+")
    members: list[MemberResponse] = f.array(MemberResponse, "3+")
