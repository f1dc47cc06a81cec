"""GetTelemetrySubscriptions: the metrics that a client has to push, and the interval (KIP-714)."""

from __future__ import annotations

import uuid

from ottla.broker.config.resources.client_metrics import subscriptions
from ottla.broker.request_context import RequestContext
from ottla.broker.telemetry import TelemetryClient
from ottla.protocol.fields import ZERO_UUID
from ottla.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ottla.records.compression import CODEC_IDS

ACCEPTED = [CODEC_IDS[name] for name in ("zstd", "lz4", "gzip", "snappy")]
"""The accepted compression types, in the order of preference."""


def handle(request: GetTelemetrySubscriptionsRequest, context: RequestContext) -> GetTelemetrySubscriptionsResponse:
    """Return the client's subscription. A client without an instance id gets a generated one."""
    telemetry = context.broker.telemetry
    telemetry.check_has_receivers()
    own_id = request.client_instance_id
    client = client_of(uuid.uuid4() if own_id == ZERO_UUID else own_id, context)
    subscription = telemetry.subscribe(client, subscriptions(context))
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client.client_instance_id,
        subscription_id=subscription.subscription_id,
        accepted_compression_types=ACCEPTED,
        push_interval_ms=subscription.push_interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=list(subscription.metrics),
    )


def client_of(instance_id: uuid.UUID, context: RequestContext) -> TelemetryClient:
    name, _, version = str(context.connection.state.get("software", "unknown unknown")).partition(" ")
    host, _, port = context.connection.peer.rpartition(":")
    return TelemetryClient(instance_id, context.client_id, name, version, host, port)
