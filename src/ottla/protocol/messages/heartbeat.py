"""Heartbeat (key 12): keep a member of a classic group alive; the response reports a rebalance.

- version 1 adds the throttle time; 2 throttles only after the response (KIP-219); 3 adds static members; 4 is flexible
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response


class HeartbeatRequest(Request["HeartbeatResponse"], api_key=12, versions="0-4", flexible="4+"):
    """The member, and the generation that it belongs to."""

    group_id: str = f.string("0+")
    generation_id: int = f.int32("0+")
    member_id: str = f.string("0+")
    group_instance_id: str | None = f.string("3+", nullable="3+", default=None)


class HeartbeatResponse(Response, api_key=12, versions="0-4", flexible="4+"):
    """No error, or an error such as REBALANCE_IN_PROGRESS."""

    throttle_time_ms: int = f.int32("1+", ignorable=True)
    error_code: int = f.int16("0+")
