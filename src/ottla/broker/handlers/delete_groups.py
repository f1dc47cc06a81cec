"""DeleteGroups: delete groups without members, with their offsets. Requires DELETE on the group."""

from __future__ import annotations

from ottla.broker.error_codes import errors_in
from ottla.broker.request_context import RequestContext
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
            await runtime.append(group_id, runtime.offsets.delete_group(group_id).records)
            context.broker.share_states.delete_group(group_id)
            context.log_change("Deleted group %s", group_id)
        results.append(result)
    return DeleteGroupsResponse(results=results)
