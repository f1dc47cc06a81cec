"""UnregisterBroker (key 64): remove a broker that will not come back (KIP-500)."""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response


class UnregisterBrokerRequest(Request["UnregisterBrokerResponse"], api_key=64, versions="0", flexible="0+"):
    """The broker to remove."""

    broker_id: int = f.int32("0+")


class UnregisterBrokerResponse(Response, api_key=64, versions="0", flexible="0+"):
    """The error code, which is 0 on success, and its message."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")
