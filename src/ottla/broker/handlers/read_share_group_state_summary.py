"""ReadShareGroupStateSummary: the start offsets of share partitions (KIP-932). Between brokers."""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.broker.sessions.share_state import results_by_topic
from ottla.coordinator.share_partition.share_state_records import ShareKey
from ottla.protocol.messages import read_share_group_state_summary as m


async def handle(
    request: m.ReadShareGroupStateSummaryRequest, context: RequestContext
) -> m.ReadShareGroupStateSummaryResponse:
    states = context.broker.share_states

    async def summarize(key: ShareKey, data: m.PartitionData, result: m.PartitionResult) -> None:
        state = states.summary(key)
        result.state_epoch, result.leader_epoch = state.state_epoch, state.leader_epoch
        result.start_offset, result.delivery_complete_count = state.start, state.done

    return m.ReadShareGroupStateSummaryResponse(results=await results_by_topic(request, m, summarize))
