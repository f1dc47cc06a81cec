"""ControlledShutdown: move the leaderships of a broker that is about to stop to other brokers. Between brokers.

Only the controller handles it. The response lists the partitions with several replicas that the broker still leads,
because no other broker can.
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)


async def handle(request: ControlledShutdownRequest, context: RequestContext) -> ControlledShutdownResponse:
    left = await context.broker.controller.controlled_shutdown(request.broker_id, request.broker_epoch)
    return ControlledShutdownResponse(
        remaining_partitions=[RemainingPartition(topic_name=tp.topic, partition_index=tp.partition) for tp in left]
    )
