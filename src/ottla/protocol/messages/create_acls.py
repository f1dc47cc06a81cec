"""CreateAcls (key 30): add ACLs (KIP-140).

- version 1 adds pattern types (KIP-290); 2 is flexible; 3 adds resources of type user
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class AclCreation(Struct):
    """One ACL to create: a resource pattern, a principal, a host, an operation, and whether to allow or deny it."""

    resource_type: int = f.int8("0+")
    resource_name: str = f.string("0+")
    resource_pattern_type: int = f.int8("1+", default=3)
    principal: str = f.string("0+")
    host: str = f.string("0+")
    operation: int = f.int8("0+")
    permission_type: int = f.int8("0+")


class CreateAclsRequest(Request["CreateAclsResponse"], api_key=30, versions="0-3", flexible="2+"):
    """The ACLs to create."""

    creations: list[AclCreation] = f.array(AclCreation, "0+")


class AclCreationResult(Struct):
    """The outcome of one ACL."""

    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")


class CreateAclsResponse(Response, api_key=30, versions="0-3", flexible="2+"):
    """The result of each ACL."""

    throttle_time_ms: int = f.int32("0+")
    results: list[AclCreationResult] = f.array(AclCreationResult, "0+")
