"""ListGroups: the groups of this coordinator. Served in all versions; filters by state from 4, by type from 5."""

from __future__ import annotations

from ottla.broker.services import Call
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

TYPE = "classic"


def handle(request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    """List what passes the filters."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    groups = call.services.groups.groups.by_id.values()
    return ListGroupsResponse(
        groups=[
            ListedGroup(group_id=g.id, protocol_type=g.protocol_type or "", group_state=g.state, group_type=TYPE)
            for g in groups
            if (not states or g.state.lower() in states) and (not types or TYPE in types)
        ]
    )
