"""Conversion between ACLs and the fields of requests and responses, with the rejection of invalid requests."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, Protocol, TypeVar

from ottla.broker.request_context import RequestContext
from ottla.cluster.store import znodes
from ottla.errors import InvalidRequestError, KafkaError, PolicyViolationError, SecurityDisabledError
from ottla.model import ACLOperation
from ottla.protocol.messages.create_acls import AclCreation
from ottla.security.acl import (
    ACL,
    CLUSTER_NAME,
    ACLFilter,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

NO_AUTHORIZER: Final = "No Authorizer is configured. Set authorizer.class.name in the brokers' configs."
"""The error message for requests about ACLs to a broker without an authorizer."""
MAX_AT_ONCE: Final = 10_000
"""Maximum number of ACLs to add, or filters to delete by, in one request, like Kafka's MAX_RECORDS_PER_USER_OP."""

E = TypeVar("E", bound=IntEnum)


class AclFilterFields(Protocol):
    """The fields that the filters of DescribeAcls and DeleteAcls have in common."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def authorization_error(context: RequestContext, items: int) -> KafkaError | None:
    """Return the error of a whole request that creates or deletes ACLs; None if it may be executed.

    `items`: the number of ACLs or filters in the request.
    """
    if context.broker.acl_store is None:
        return SecurityDisabledError(NO_AUTHORIZER)
    if not context.allows(ACLOperation.ALTER, ResourceType.CLUSTER):
        return context.deny(ACLOperation.ALTER, ResourceType.CLUSTER)
    if items > MAX_AT_ONCE:
        return PolicyViolationError(f"the request has {items} items, more than the maximum of {MAX_AT_ONCE}")
    return None


def acl_of(creation: AclCreation) -> ACL:
    """Return the ACL to add; raise InvalidRequestError for an invalid one."""
    kind = _enum_member(ResourceType, creation.resource_type)
    how = _enum_member(ACLResourcePatternType, creation.resource_pattern_type)
    operation = _enum_member(ACLOperation, creation.operation)
    permission = _enum_member(ACLPermissionType, creation.permission_type)
    for value in (kind, operation, permission):
        if value.name in ("UNKNOWN", "ANY"):
            raise InvalidRequestError(f"{type(value).__name__} {value.name} is not valid in an ACL")
    if how not in (ACLResourcePatternType.LITERAL, ACLResourcePatternType.PREFIXED):
        raise InvalidRequestError(f"the pattern type of an ACL must be LITERAL or PREFIXED, not {how.name}")
    _check_name(kind, creation.resource_name)
    _check_principal(creation.principal, creation.host)
    pattern = ResourcePattern(kind, creation.resource_name, how)
    return ACL(creation.principal, creation.host, operation, permission, pattern)


def _check_name(kind: ResourceType, name: str) -> None:
    if kind is ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise InvalidRequestError(f"the only resource of type CLUSTER is {CLUSTER_NAME}")
    if not name:
        raise InvalidRequestError("an ACL requires a resource name")
    if not znodes.is_valid_name(name):
        raise InvalidRequestError(f"the metadata store cannot store an ACL for the name {name[:200]!r}")


def _check_principal(principal: str, host: str) -> None:
    kind, _, name = principal.partition(":")
    if not kind or not name:
        raise InvalidRequestError(f"{principal[:200]!r} is not a principal (Type:name, such as User:alice)")
    if not host:
        raise InvalidRequestError("an ACL requires a host, or * for any host")


def acl_filter(filter_: AclFilterFields) -> ACLFilter:
    """Return the ACL filter of a request. Raises InvalidRequestError for an unknown value."""
    kind = _enum_member(ResourceType, filter_.resource_type_filter)
    how = _enum_member(ACLResourcePatternType, filter_.pattern_type_filter)
    operation = _enum_member(ACLOperation, filter_.operation)
    permission = _enum_member(ACLPermissionType, filter_.permission_type)
    for value in (kind, how, operation, permission):
        if value.name == "UNKNOWN":
            raise InvalidRequestError(f"unknown {type(value).__name__} in the filter")
    resources = ResourcePatternFilter(kind, filter_.resource_name_filter, how)
    return ACLFilter(filter_.principal_filter, filter_.host_filter, operation, permission, resources)


def acl_fields(acl: ACL) -> dict[str, Any]:
    """Return the fields of an ACL in a response, without its resource."""
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": int(acl.operation),
        "permission_type": int(acl.permission_type),
    }


def resource_fields(pattern: ResourcePattern) -> dict[str, Any]:
    """Return the fields of an ACL's resource in a response."""
    kind, name, how = pattern
    return {"resource_type": int(kind), "resource_name": name, "pattern_type": int(how)}


def acl_text(acl: ACL) -> str:
    """Return an ACL as log lines show it."""
    kind, name, how = acl.resource_pattern
    rule = f"{acl.permission_type.name} {acl.operation.name} on {kind.name} {name} ({how.name})"
    return f"{rule} for {acl.principal} from host {acl.host}"


def _enum_member(kind: type[E], number: int) -> E:
    """Return the member with this number; UNKNOWN if there is none."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)
