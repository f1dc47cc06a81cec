"""Access rules (ACLs; KIP-11, KIP-290): who may or may not do what, from where, with which resources.

Frozen values that brokers, clients and tools share.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from ottla.model import ACLOperation

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of the type CLUSTER."""
WILDCARD: Final = "*"
"""As the name of a resource: all of its type. As a host: any. After `User:`: everybody."""


class ResourceType(IntEnum):
    """What a rule is about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


OPERATIONS: Final = {
    ResourceType.TOPIC: (
        ACLOperation.READ,
        ACLOperation.WRITE,
        ACLOperation.CREATE,
        ACLOperation.DESCRIBE,
        ACLOperation.DELETE,
        ACLOperation.ALTER,
        ACLOperation.DESCRIBE_CONFIGS,
        ACLOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        ACLOperation.READ,
        ACLOperation.DESCRIBE,
        ACLOperation.DELETE,
        ACLOperation.DESCRIBE_CONFIGS,
        ACLOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        ACLOperation.CREATE,
        ACLOperation.CLUSTER_ACTION,
        ACLOperation.DESCRIBE_CONFIGS,
        ACLOperation.ALTER_CONFIGS,
        ACLOperation.IDEMPOTENT_WRITE,
        ACLOperation.ALTER,
        ACLOperation.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (ACLOperation.DESCRIBE, ACLOperation.WRITE, ACLOperation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (ACLOperation.DESCRIBE,),
    ResourceType.USER: (ACLOperation.CREATE_TOKENS, ACLOperation.DESCRIBE_TOKENS),
}
"""What can be done with a resource, by its type."""


class ACLResourcePatternType(IntEnum):
    """How a rule names its resources. ANY and MATCH are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class ACLPermissionType(IntEnum):
    """Whether a rule allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourcePatternFilter(NamedTuple):
    """Resources that rules are looked for of; name None: any."""

    resource_type: ResourceType
    resource_name: str | None = None
    pattern_type: ACLResourcePatternType = ACLResourcePatternType.ANY

    def matches(self, pattern: ResourcePattern) -> bool:
        """Whether rules of this pattern are looked for. MATCH means all that are about the resource of this name."""
        kind, name, how = self
        if kind not in (ResourceType.ANY, pattern.resource_type):
            return False
        if how not in (ACLResourcePatternType.ANY, ACLResourcePatternType.MATCH, pattern.pattern_type):
            return False
        if name is None or name == pattern.resource_name:
            return True
        return how == ACLResourcePatternType.MATCH and pattern.covers(name)


class ResourcePattern(NamedTuple):
    """The resources of a rule: one by its name (`*`: all), or those whose names begin so."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: ACLResourcePatternType = ACLResourcePatternType.LITERAL

    def covers(self, name: str) -> bool:
        """Whether the resource of this name is one of them."""
        if self.pattern_type == ACLResourcePatternType.PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in (name, WILDCARD)


class ACLFilter(NamedTuple):
    """Rules to look for; None: any."""

    principal: str | None = None
    host: str | None = None
    operation: ACLOperation = ACLOperation.ANY
    permission_type: ACLPermissionType = ACLPermissionType.ANY
    resource_pattern: ResourcePatternFilter | ResourcePattern = ResourcePatternFilter(ResourceType.ANY)

    def matches(self, acl: ACL) -> bool:
        """Whether this rule is looked for."""
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ACLOperation.ANY, acl.operation)
            and self.permission_type in (ACLPermissionType.ANY, acl.permission_type)
            and ResourcePatternFilter(*self.resource_pattern).matches(acl.resource_pattern)
        )


class ACL(NamedTuple):
    """One rule: who (`User:alice`), from where (`*`: anywhere), may or may not do what with which resources."""

    principal: str
    host: str
    operation: ACLOperation
    permission_type: ACLPermissionType
    resource_pattern: ResourcePattern

    def __str__(self) -> str:
        kind, name, pattern = self.resource_pattern
        what = f"{self.permission_type.name} {self.operation.name} on {kind.name} {pattern.name} {name}"
        return f"{what} for {self.principal} from {self.host}"

    def check(self) -> None:
        """ValueError for a rule that is a filter."""
        kind, _, pattern = self.resource_pattern
        if kind == ResourceType.ANY or pattern in (ACLResourcePatternType.ANY, ACLResourcePatternType.MATCH):
            raise ValueError(f"{self}: a rule is about one type of resources, named literally or by a prefix")
        if self.operation == ACLOperation.ANY or self.permission_type == ACLPermissionType.ANY:
            raise ValueError(f"{self}: a rule has one operation, allowed or denied")
