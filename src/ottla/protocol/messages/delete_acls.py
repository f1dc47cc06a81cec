"""DeleteAcls (key 31): delete the ACLs that match filters (KIP-140).

- version 1 adds pattern types (KIP-290); 2 is flexible; 3 adds resources of type user
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class DeleteAclsFilter(Struct):
    """A filter for the ACLs to delete. None matches any resource name, principal or host."""

    resource_type_filter: int = f.int8("0+")
    resource_name_filter: str | None = f.string("0+", nullable="0+")
    pattern_type_filter: int = f.int8("1+", default=3)
    principal_filter: str | None = f.string("0+", nullable="0+")
    host_filter: str | None = f.string("0+", nullable="0+")
    operation: int = f.int8("0+")
    permission_type: int = f.int8("0+")


class DeleteAclsRequest(Request["DeleteAclsResponse"], api_key=31, versions="0-3", flexible="2+"):
    """The filters; the ACLs that match any of them are deleted."""

    filters: list[DeleteAclsFilter] = f.array(DeleteAclsFilter, "0+")


class DeleteAclsMatchingAcl(Struct):
    """One ACL that a filter matched, with the error if it was not deleted."""

    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")
    resource_type: int = f.int8("0+")
    resource_name: str = f.string("0+")
    pattern_type: int = f.int8("1+", default=3)
    principal: str = f.string("0+")
    host: str = f.string("0+")
    operation: int = f.int8("0+")
    permission_type: int = f.int8("0+")


class DeleteAclsFilterResult(Struct):
    """The outcome of one filter."""

    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = f.array(DeleteAclsMatchingAcl, "0+")


class DeleteAclsResponse(Response, api_key=31, versions="0-3", flexible="2+"):
    """The ACLs that each filter matched, or its error."""

    throttle_time_ms: int = f.int32("0+")
    filter_results: list[DeleteAclsFilterResult] = f.array(DeleteAclsFilterResult, "0+")
