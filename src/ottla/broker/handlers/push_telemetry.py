"""PushTelemetry: metrics of a client, for those that receive them (KIP-714)."""

from __future__ import annotations

from ottla.broker.handlers.get_telemetry_subscriptions import client_of
from ottla.broker.request_context import RequestContext
from ottla.errors import InvalidRequestError
from ottla.protocol.fields import ZERO_UUID
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def handle(request: PushTelemetryRequest, context: RequestContext) -> PushTelemetryResponse:
    """Check and hand on."""
    context.broker.telemetry.check_has_receivers()
    if request.client_instance_id == ZERO_UUID:
        raise InvalidRequestError("the client has no instance id yet: it has to ask for a subscription first")
    client = client_of(request.client_instance_id, context)
    context.broker.telemetry.push(
        client, request.subscription_id, request.terminating, request.compression_type, request.metrics
    )
    return PushTelemetryResponse()
