"""ListGroups: the groups of this coordinator. Served in all versions; filters by state from 4, by type from 5."""

from __future__ import annotations

from ottla.broker.services import Call
from ottla.errors import CoordinatorLoadInProgressError, code_of
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    """List what passes the filters."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    runtime = call.services.groups
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
            if (not states or group.state_name.lower() in states) and (not types or group.type in types)
        ],
    )
