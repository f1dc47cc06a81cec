"""GetTelemetrySubscriptions (key 71): the metrics that a client is to push (KIP-714)."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response


class GetTelemetrySubscriptionsRequest(
    Request["GetTelemetrySubscriptionsResponse"], api_key=71, versions="0", flexible="0+"
):
    """The id of the client; the zero id requests a new one."""

    client_instance_id: UUID = f.uuid("0+")


class GetTelemetrySubscriptionsResponse(Response, api_key=71, versions="0", flexible="0+"):
    """The metrics that the client is to push, how often, and in which form.

    `requested_metrics`: prefixes of their names; an empty list for no metrics, one empty prefix for all.
    """

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    client_instance_id: UUID = f.uuid("0+")
    subscription_id: int = f.int32("0+")
    accepted_compression_types: list[int] = f.array(f.int8(), "0+")
    push_interval_ms: int = f.int32("0+")
    telemetry_max_bytes: int = f.int32("0+")
    delta_temporality: bool = f.boolean("0+")
    requested_metrics: list[str] = f.array(f.string(), "0+")
