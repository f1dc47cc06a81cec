"""UpdateMetadata: the controller tells this broker what clients are told. Between brokers."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.request_context import RequestContext
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


def handle(request: UpdateMetadataRequest, context: RequestContext) -> Awaitable[UpdateMetadataResponse]:
    """Take topics, leaders and brokers over."""
    return _answer(request, context)


async def _answer(request: UpdateMetadataRequest, context: RequestContext) -> UpdateMetadataResponse:
    await context.broker.controller_requests.update_metadata(request)
    return UpdateMetadataResponse()
