"""RemoveRaftVoter (key 81): remove a voter from Kafka's metadata quorum (KIP-853)."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response


class RemoveRaftVoterRequest(Request["RemoveRaftVoterResponse"], api_key=81, versions="0", flexible="0+"):
    """The voter: its id, and the id of its log directory."""

    cluster_id: str | None = f.string("0+", nullable="0+")
    voter_id: int = f.int32("0+")
    voter_directory_id: UUID = f.uuid("0+")


class RemoveRaftVoterResponse(Response, api_key=81, versions="0", flexible="0+"):
    """The error code, which is 0 on success, and its message."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+", ignorable=True)
