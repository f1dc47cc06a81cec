"""ListGroups (key 16): the groups that this broker coordinates.

- version 1 adds the throttle time; 2 throttles only after the response (KIP-219); 3 is flexible
- 4 filters by state and returns it (KIP-518); 5 filters by type and returns it (KIP-848)
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class ListGroupsRequest(Request["ListGroupsResponse"], api_key=16, versions="0-5", flexible="3+"):
    """The group states and types to list; empty lists for all."""

    states_filter: list[str] = f.array(f.string(), "4+")
    types_filter: list[str] = f.array(f.string(), "5+")


class ListedGroup(Struct):
    """One group: its id and protocol type, from version 4 on its state, and from version 5 on its type."""

    group_id: str = f.string("0+")
    protocol_type: str = f.string("0+")
    group_state: str = f.string("4+", ignorable=True)
    group_type: str = f.string("5+", ignorable=True)


class ListGroupsResponse(Response, api_key=16, versions="0-5", flexible="3+"):
    """The groups that match the filters, or an error code."""

    throttle_time_ms: int = f.int32("1+", ignorable=True)
    error_code: int = f.int16("0+")
    groups: list[ListedGroup] = f.array(ListedGroup, "0+")
