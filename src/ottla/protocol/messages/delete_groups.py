"""DeleteGroups (key 42): delete groups without members, with their offsets (KIP-229).

- since 1, throttling follows the response (KIP-219); 2 is flexible; 3 adds messages to errors
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class DeleteGroupsRequest(Request["DeleteGroupsResponse"], api_key=42, versions="0-3", flexible="2+"):
    """The ids of the groups to delete."""

    groups_names: list[str] = f.array(f.string(), "0+")


class DeletableGroupResult(Struct):
    """The outcome of one group."""

    group_id: str = f.string("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("3+", nullable="3+", default=None, ignorable=True)


class DeleteGroupsResponse(Response, api_key=42, versions="0-3", flexible="2+"):
    """The outcome of each group."""

    throttle_time_ms: int = f.int32("0+")
    results: list[DeletableGroupResult] = f.array(DeletableGroupResult, "0+")
