"""JoinGroup (key 11): join a classic group, or rejoin it in a rebalance.

In a rebalance, the coordinator delays the responses until all members have joined or the rebalance timeout has elapsed.
The leader's response lists the members with their subscriptions; the leader computes the assignment and sends it with
SyncGroup.

- version 1 adds the rebalance timeout; 2 the throttle time; 3 throttles only after the response (KIP-219)
- 4 makes a new member join twice, with the id from the error MEMBER_ID_REQUIRED (KIP-394); 5 adds static members
- 6 is flexible; 7 adds the protocol type; 8 a reason; 9 lets a static leader skip the assignment (KIP-814)
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class JoinGroupRequestProtocol(Struct):
    """One protocol, and the member's data for the leader."""

    name: str = f.string("0+")
    metadata: bytes = f.binary("0+")


class JoinGroupRequest(Request["JoinGroupResponse"], api_key=11, versions="0-9", flexible="6+"):
    """A member and the assignment protocols it supports, the preferred one first."""

    group_id: str = f.string("0+")
    session_timeout_ms: int = f.int32("0+")
    # How long a member may take to join again; -1 for the session timeout (version 0).
    rebalance_timeout_ms: int = f.int32("1+", default=-1, ignorable=True)
    # Empty at the first time.
    member_id: str = f.string("0+")
    group_instance_id: str | None = f.string("5+", nullable="5+", default=None)
    protocol_type: str = f.string("0+")
    protocols: list[JoinGroupRequestProtocol] = f.array(JoinGroupRequestProtocol, "0+")
    reason: str | None = f.string("8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    """A member, and its data for the leader of the group."""

    member_id: str = f.string("0+")
    group_instance_id: str | None = f.string("5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = f.binary("0+")


class JoinGroupResponse(Response, api_key=11, versions="0-9", flexible="6+"):
    """The new generation and, for its leader, the members."""

    throttle_time_ms: int = f.int32("2+", ignorable=True)
    error_code: int = f.int16("0+")
    generation_id: int = f.int32("0+", default=-1)
    protocol_type: str | None = f.string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = f.string("0+", nullable="7+")
    leader: str = f.string("0+")
    skip_assignment: bool = f.boolean("9+")
    member_id: str = f.string("0+")
    members: list[JoinGroupResponseMember] = f.array(JoinGroupResponseMember, "0+")
