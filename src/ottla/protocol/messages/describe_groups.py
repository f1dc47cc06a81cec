"""DescribeGroups (key 15): state and members of classic groups.

- version 1 adds the throttle time; 2 throttles only after the response (KIP-219);
  3 adds permitted operations on request
- 4 adds static members; 5 is flexible; 6 adds an error message and GROUP_ID_NOT_FOUND
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class DescribeGroupsRequest(Request["DescribeGroupsResponse"], api_key=15, versions="0-6", flexible="5+"):
    """The ids of the groups to describe."""

    groups: list[str] = f.array(f.string(), "0+")
    include_authorized_operations: bool = f.boolean("3+")


class DescribedGroupMember(Struct):
    """One member, with its subscription as it sent it, and its assignment as the leader sent it; both are empty unless
    the group is stable.
    """

    member_id: str = f.string("0+")
    group_instance_id: str | None = f.string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = f.string("0+")
    client_host: str = f.string("0+")
    member_metadata: bytes = f.binary("0+")
    member_assignment: bytes = f.binary("0+")


class DescribedGroup(Struct):
    """One group: its state, its protocol and its members, or an error."""

    error_code: int = f.int16("0+")
    error_message: str | None = f.string("6+", nullable="6+", default=None)
    group_id: str = f.string("0+")
    group_state: str = f.string("0+")
    protocol_type: str = f.string("0+")
    protocol_data: str = f.string("0+")
    members: list[DescribedGroupMember] = f.array(DescribedGroupMember, "0+")
    authorized_operations: int = f.int32("3+", default=-0x8000_0000)


class DescribeGroupsResponse(Response, api_key=15, versions="0-6", flexible="5+"):
    """The described groups, one for each requested id."""

    throttle_time_ms: int = f.int32("1+", ignorable=True)
    groups: list[DescribedGroup] = f.array(DescribedGroup, "0+")
