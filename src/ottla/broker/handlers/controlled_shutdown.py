"""ControlledShutdown: a broker that is about to stop has its leaderships taken by others. Between brokers.

Served in all versions, by the controller.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.services import Call
from ottla.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)


def handle(request: ControlledShutdownRequest, call: Call) -> Awaitable[ControlledShutdownResponse]:
    """Move the leaderships; tell which could not be."""
    return _answer(request, call)


async def _answer(request: ControlledShutdownRequest, call: Call) -> ControlledShutdownResponse:
    left = await call.services.controller.controlled_shutdown(request.broker_id, request.broker_epoch)
    return ControlledShutdownResponse(
        remaining_partitions=[RemainingPartition(topic_name=tp.topic, partition_index=tp.partition) for tp in left]
    )
