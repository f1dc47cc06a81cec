"""DescribeAcls (key 29): the ACLs that match a filter (KIP-140).

- version 1 adds pattern types (KIP-290); 2 is flexible; 3 adds resources of type user
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class DescribeAclsRequest(Request["DescribeAclsResponse"], api_key=29, versions="0-3", flexible="2+"):
    """The filter that the ACLs must match. None matches any resource name, principal or host."""

    resource_type_filter: int = f.int8("0+")
    resource_name_filter: str | None = f.string("0+", nullable="0+")
    pattern_type_filter: int = f.int8("1+", default=3)
    principal_filter: str | None = f.string("0+", nullable="0+")
    host_filter: str | None = f.string("0+", nullable="0+")
    operation: int = f.int8("0+")
    permission_type: int = f.int8("0+")


class AclDescription(Struct):
    """One ACL of a resource: a principal, a host, an operation, and whether it is allowed or denied."""

    principal: str = f.string("0+")
    host: str = f.string("0+")
    operation: int = f.int8("0+")
    permission_type: int = f.int8("0+")


class DescribeAclsResource(Struct):
    """One resource pattern and its ACLs."""

    resource_type: int = f.int8("0+")
    resource_name: str = f.string("0+")
    pattern_type: int = f.int8("1+", default=3)
    acls: list[AclDescription] = f.array(AclDescription, "0+")


class DescribeAclsResponse(Response, api_key=29, versions="0-3", flexible="2+"):
    """The ACLs that match the filter."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")
    resources: list[DescribeAclsResource] = f.array(DescribeAclsResource, "0+")
