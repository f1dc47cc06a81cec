"""PushTelemetry: pass a client's metrics to the configured receivers (KIP-714)."""

from __future__ import annotations

from ottla.broker.handlers.get_telemetry_subscriptions import client_of
from ottla.broker.request_context import RequestContext
from ottla.errors import InvalidRequestError
from ottla.protocol.fields import ZERO_UUID
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def handle(request: PushTelemetryRequest, context: RequestContext) -> PushTelemetryResponse:
    context.broker.telemetry.check_has_receivers()
    if request.client_instance_id == ZERO_UUID:
        raise InvalidRequestError("the client has no instance id: it must send GetTelemetrySubscriptions first")
    client = client_of(request.client_instance_id, context)
    context.broker.telemetry.push(
        client, request.subscription_id, request.terminating, request.compression_type, request.metrics
    )
    return PushTelemetryResponse()
