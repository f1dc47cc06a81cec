"""UpdateMetadata: the controller tells this broker what clients are told. Between brokers."""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


async def handle(request: UpdateMetadataRequest, context: RequestContext) -> UpdateMetadataResponse:
    """Take topics, leaders and brokers over."""
    await context.broker.controller_requests.update_metadata(request)
    return UpdateMetadataResponse()
