"""Access rules and filters as requests write them, in numbers; what is none is refused here."""

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

NO_AUTHORIZER: Final = "No Authorizer is configured."
"""What Kafka says."""
MAX_AT_ONCE: Final = 10_000
"""Rules to add, or filters to remove by, in one request. Kafka's bound, too."""

E = TypeVar("E", bound=IntEnum)


class AclFilterFields(Protocol):
    """What the filters of two APIs have in common."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def authorization_error(context: RequestContext, items: int) -> KafkaError | None:
    """Why none of the items of a request can be done, if that is so."""
    if context.broker.acl_store is None:
        return SecurityDisabledError(NO_AUTHORIZER)
    if not context.allows(ACLOperation.ALTER, ResourceType.CLUSTER):
        return context.deny(ACLOperation.ALTER, ResourceType.CLUSTER)
    if items > MAX_AT_ONCE:
        return PolicyViolationError(f"{items} are more than the {MAX_AT_ONCE} that one request may have")
    return None


def acl_of(creation: AclCreation) -> ACL:
    """The rule to add. InvalidRequestError for what cannot be one."""
    kind = _enum_member(ResourceType, creation.resource_type)
    how = _enum_member(ACLResourcePatternType, creation.resource_pattern_type)
    operation = _enum_member(ACLOperation, creation.operation)
    permission = _enum_member(ACLPermissionType, creation.permission_type)
    for value in (kind, operation, permission):
        if value.name in ("UNKNOWN", "ANY"):
            raise InvalidRequestError(f"{type(value).__name__} {value.name} is not for rules")
    if how not in (ACLResourcePatternType.LITERAL, ACLResourcePatternType.PREFIXED):
        raise InvalidRequestError(f"a rule names its resources literally or by a prefix, not by {how.name}")
    _check_name(kind, creation.resource_name)
    _check_who(creation.principal, creation.host)
    pattern = ResourcePattern(kind, creation.resource_name, how)
    return ACL(creation.principal, creation.host, operation, permission, pattern)


def _check_name(kind: ResourceType, name: str) -> None:
    if kind is ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise InvalidRequestError(f"the only resource of the type CLUSTER is {CLUSTER_NAME}")
    if not name:
        raise InvalidRequestError("a rule needs the name of a resource")
    if not znodes.is_valid_name(name):
        raise InvalidRequestError(
            f"there can be no rule about {name[:200]!r}: the metadata store cannot keep this name"
        )


def _check_who(principal: str, host: str) -> None:
    kind, _, name = principal.partition(":")
    if not kind or not name:
        raise InvalidRequestError(f"{principal[:200]!r} is not Type:name, such as User:alice")
    if not host:
        raise InvalidRequestError("a rule needs a host, or * for all of them")


def acl_filter(filter_: AclFilterFields) -> ACLFilter:
    """The filter. InvalidRequestError for one with a value that is not known here: it might mean anything."""
    kind = _enum_member(ResourceType, filter_.resource_type_filter)
    how = _enum_member(ACLResourcePatternType, filter_.pattern_type_filter)
    operation = _enum_member(ACLOperation, filter_.operation)
    permission = _enum_member(ACLPermissionType, filter_.permission_type)
    for value in (kind, how, operation, permission):
        if value.name == "UNKNOWN":
            raise InvalidRequestError(f"the filter's {type(value).__name__} is not known")
    resources = ResourcePatternFilter(kind, filter_.resource_name_filter, how)
    return ACLFilter(filter_.principal_filter, filter_.host_filter, operation, permission, resources)


def acl_fields(acl: ACL) -> dict[str, Any]:
    """What an answer tells of a rule besides its resources."""
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": int(acl.operation),
        "permission_type": int(acl.permission_type),
    }


def resource_fields(pattern: ResourcePattern) -> dict[str, Any]:
    """What an answer tells of a rule's resources."""
    kind, name, how = pattern
    return {"resource_type": int(kind), "resource_name": name, "pattern_type": int(how)}


def _enum_member(kind: type[E], number: int) -> E:
    """What a number means; a newer client may know more than this broker does."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)
