"""PushTelemetry (key 72): push metrics of a client, in OpenTelemetry's format (KIP-714)."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response


class PushTelemetryRequest(Request["PushTelemetryResponse"], api_key=72, versions="0", flexible="0+"):
    """The metrics, and the subscription that they are for."""

    client_instance_id: UUID = f.uuid("0+")
    subscription_id: int = f.int32("0+")
    terminating: bool = f.boolean("0+")
    compression_type: int = f.int8("0+")
    metrics: bytes = f.binary("0+")


class PushTelemetryResponse(Response, api_key=72, versions="0", flexible="0+"):
    """The error code; 0 if the broker has accepted the metrics."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
