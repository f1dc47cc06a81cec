"""InitializeShareGroupState: create or reset the states of share partitions (KIP-932). Between brokers."""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.broker.sessions.share_state import results_by_topic
from ottla.coordinator.share_partition.share_state_records import ShareKey
from ottla.protocol.messages import initialize_share_group_state as m


async def handle(
    request: m.InitializeShareGroupStateRequest, context: RequestContext
) -> m.InitializeShareGroupStateResponse:
    states = context.broker.share_states

    async def initialize(key: ShareKey, data: m.PartitionData, result: m.PartitionResult) -> None:
        await states.initialize(key, data.state_epoch, data.start_offset)

    return m.InitializeShareGroupStateResponse(results=await results_by_topic(request, m, initialize))
