"""UpdateMetadata: the controller tells this broker what clients are told. Between brokers. Served in all versions."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.services import Call
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


def handle(request: UpdateMetadataRequest, call: Call) -> Awaitable[UpdateMetadataResponse]:
    """Take topics, leaders and brokers over."""
    return _answer(request, call)


async def _answer(request: UpdateMetadataRequest, call: Call) -> UpdateMetadataResponse:
    await call.services.following.update_metadata(request)
    return UpdateMetadataResponse()
