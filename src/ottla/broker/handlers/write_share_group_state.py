"""WriteShareGroupState: store the states of share partitions (KIP-932). Between brokers."""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.broker.sessions.share_state import results_by_topic
from ottla.coordinator.share_partition.share_state_records import ShareKey, ShareState, record_ranges
from ottla.protocol.messages import write_share_group_state as m


async def handle(request: m.WriteShareGroupStateRequest, context: RequestContext) -> m.WriteShareGroupStateResponse:
    states = context.broker.share_states

    async def write(key: ShareKey, data: m.PartitionData, result: m.PartitionResult) -> None:
        state = ShareState(
            data.state_epoch,
            data.leader_epoch,
            data.start_offset,
            data.delivery_complete_count,
            record_ranges(data.state_batches),
        )
        await states.write(key, state)

    return m.WriteShareGroupStateResponse(results=await results_by_topic(request, m, write))
