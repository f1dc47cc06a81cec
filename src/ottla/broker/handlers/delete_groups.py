"""DeleteGroups: delete groups without members, with their offsets. Requires DELETE on the group."""

from __future__ import annotations

import asyncio

from ottla.broker.broker_context import BrokerContext
from ottla.broker.error_responses import errors_in
from ottla.broker.request_context import RequestContext
from ottla.coordinator.group.share.share_group import ShareGroup
from ottla.coordinator.share_partition.share_state_records import ShareKey
from ottla.model import ACLOperation
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.security.acl import ResourceType


async def handle(request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    runtime = context.broker.groups
    results = []
    for group_id in request.groups_names:
        result = DeletableGroupResult(group_id=group_id)
        with errors_in(result):
            context.require(ACLOperation.DELETE, ResourceType.GROUP, group_id)
            runtime.check(group_id)
            runtime.offsets.delete_group(group_id)  # raises if the group cannot be deleted
            await _delete_share_states(group_id, context.broker)
            await runtime.append(group_id, runtime.offsets.delete_group(group_id).records)
            context.log_change("Deleted group %s", group_id)
        results.append(result)
    return DeleteGroupsResponse(results=results)


async def _delete_share_states(group_id: str, broker: BrokerContext) -> None:
    """Delete the states of share partitions if the group is a share group.

    If that fails, the group stays, so that clients can retry.
    """
    group = broker.groups.groups.by_id.get(group_id)
    if isinstance(group, ShareGroup):
        await asyncio.gather(*(broker.share_persister.delete(ShareKey(group_id, *tip)) for tip in group.initialized))
