"""DeleteShareGroupState: delete the states of share partitions (KIP-932). Between brokers."""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.broker.sessions.share_state import results_by_topic
from ottla.coordinator.share_partition.share_state_records import ShareKey
from ottla.protocol.messages import delete_share_group_state as m


async def handle(request: m.DeleteShareGroupStateRequest, context: RequestContext) -> m.DeleteShareGroupStateResponse:
    states = context.broker.share_states

    async def delete(key: ShareKey, data: m.PartitionData, result: m.PartitionResult) -> None:
        await states.delete(key)

    return m.DeleteShareGroupStateResponse(results=await results_by_topic(request, m, delete))
