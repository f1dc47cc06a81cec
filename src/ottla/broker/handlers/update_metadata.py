"""UpdateMetadata: the controller updates this broker's metadata cache. Sent only between brokers."""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


async def handle(request: UpdateMetadataRequest, context: RequestContext) -> UpdateMetadataResponse:
    await context.broker.controller_requests.update_metadata(request)
    return UpdateMetadataResponse()
