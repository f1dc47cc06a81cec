"""ListGroups: the groups that this broker coordinates, filtered by state (from version 4 on) and type (from 5 on).

A client without DESCRIBE on the cluster sees only the groups that it may describe.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ottla.broker.request_context import RequestContext
from ottla.errors import CoordinatorLoadInProgressError, code_of
from ottla.model import ACLOperation
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.security.acl import ResourceType


def handle(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    runtime = context.broker.groups
    hidden = _hidden(runtime.groups.by_id, context)
    return ListGroupsResponse(
        error_code=code_of(CoordinatorLoadInProgressError()) if runtime.shards.are_loading else 0,
        groups=[
            ListedGroup(
                group_id=group.id,
                protocol_type=group.protocol_type or "",
                group_state=group.state_name,
                group_type=group.type,
            )
            for group in runtime.groups.by_id.values()
            if group.id not in hidden
            and (not states or group.state_name.lower() in states)
            and (not types or group.type in types)
        ],
    )


def _hidden(group_ids: Iterable[str], context: RequestContext) -> Collection[str]:
    if context.allows(ACLOperation.DESCRIBE, ResourceType.CLUSTER):
        return ()
    return context.unauthorized(ACLOperation.DESCRIBE, ResourceType.GROUP, group_ids)
