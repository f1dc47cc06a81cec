"""AddRaftVoter (key 80): add a voter to Kafka's metadata quorum (KIP-853).

- version 1 can be answered before the change is committed
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class Listener(Struct):
    """The address of one of the voter's listeners."""

    name: str = f.string("0+")
    host: str = f.string("0+")
    port: int = f.uint16("0+")


class AddRaftVoterRequest(Request["AddRaftVoterResponse"], api_key=80, versions="0-1", flexible="0+"):
    """The voter: its id, the id of its log directory, and its listeners."""

    cluster_id: str | None = f.string("0+", nullable="0+")
    timeout_ms: int = f.int32("0+")
    voter_id: int = f.int32("0+")
    voter_directory_id: UUID = f.uuid("0+")
    listeners: list[Listener] = f.array(Listener, "0+")
    ack_when_committed: bool = f.boolean("1+", default=True)


class AddRaftVoterResponse(Response, api_key=80, versions="0-1", flexible="0+"):
    """The error code, which is 0 on success, and its message."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", ignorable=True)
