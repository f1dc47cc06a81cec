"""SyncGroup (key 14): the leader of a classic group sends the assignment, and each member receives its part.

- version 1 adds the throttle time; 2 throttles only after the response (KIP-219); 3 adds static members; 4 is flexible
- 5 checks the protocol's type and name
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class SyncGroupRequestAssignment(Struct):
    """The assignment of one member."""

    member_id: str = f.string("0+")
    assignment: bytes = f.binary("0+")


class SyncGroupRequest(Request["SyncGroupResponse"], api_key=14, versions="0-5", flexible="4+"):
    """A member requests its assignment; the leader sends the assignments of all members."""

    group_id: str = f.string("0+")
    generation_id: int = f.int32("0+")
    member_id: str = f.string("0+")
    group_instance_id: str | None = f.string("3+", nullable="3+", default=None)
    protocol_type: str | None = f.string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = f.string("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = f.array(SyncGroupRequestAssignment, "0+")


class SyncGroupResponse(Response, api_key=14, versions="0-5", flexible="4+"):
    """The assignment of the member that sent the request."""

    throttle_time_ms: int = f.int32("1+", ignorable=True)
    error_code: int = f.int16("0+")
    protocol_type: str | None = f.string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = f.string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = f.binary("0+")
