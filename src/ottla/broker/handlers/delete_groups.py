"""DeleteGroups: remove groups without members, with their offsets."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.request_context import RequestContext
from ottla.errors import KafkaError, code_of
from ottla.model import ACLOperation
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.security.acl import ResourceType


def handle(request: DeleteGroupsRequest, context: RequestContext) -> Awaitable[DeleteGroupsResponse]:
    """Remove each group; one that fails does not stop the others."""
    return _delete_all(request, context)


async def _delete_all(request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    runtime = context.broker.groups
    results = []
    for group_id in request.groups_names:
        result = DeletableGroupResult(group_id=group_id)
        try:
            context.require(ACLOperation.DELETE, ResourceType.GROUP, group_id)
            runtime.check(group_id)
            await runtime.append(group_id, runtime.offsets.delete_group(group_id).records)
            context.broker.share_states.delete_group(group_id)
        except KafkaError as error:
            result.error_code, result.error_message = code_of(error), error.message
        results.append(result)
    return DeleteGroupsResponse(results=results)
