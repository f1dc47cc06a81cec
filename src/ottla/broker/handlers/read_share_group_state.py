"""ReadShareGroupState: read the states of share partitions for their leaders (KIP-932). Between brokers."""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.broker.sessions.share_state import results_by_topic
from ottla.coordinator.share_partition.share_state_records import ShareKey
from ottla.protocol.messages import read_share_group_state as m


async def handle(request: m.ReadShareGroupStateRequest, context: RequestContext) -> m.ReadShareGroupStateResponse:
    states = context.broker.share_states

    async def read(key: ShareKey, data: m.PartitionData, result: m.PartitionResult) -> None:
        state = await states.read(key, data.leader_epoch)
        result.state_epoch, result.start_offset = state.state_epoch, state.start
        result.state_batches = [
            m.StateBatch(first_offset=r.first, last_offset=r.last, delivery_state=r.state, delivery_count=r.delivered)
            for r in state.runs
        ]

    return m.ReadShareGroupStateResponse(results=await results_by_topic(request, m, read))
