"""ACLs (KIP-11, KIP-290): each allows or denies a principal that connects from a host an operation on resources.

ACLs, resource patterns and filters are immutable. Brokers, clients and tools use the same types.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.model import ACLOperation

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""
WILDCARD: Final = "*"
"""The wildcard: as the name of a literal pattern all resources of the type, as a host any host, and in `User:*` every
user.
"""


class ResourceType(IntEnum):
    """The type of a resource. ANY is only for filters. The values are the codes of the protocol."""

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
"""The operations besides ALL that are possible on a resource, by resource type."""


class ACLResourcePatternType(IntEnum):
    """The way in which an ACL names its resource. ANY and MATCH are only for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class ACLPermissionType(IntEnum):
    """Whether an ACL allows or denies its operation. ANY is only for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourcePatternFilter(NamedTuple):
    """A filter of resource patterns. `resource_name`: None for any name."""

    resource_type: ResourceType
    resource_name: str | None = None
    pattern_type: ACLResourcePatternType = ACLResourcePatternType.ANY

    def matches(self, pattern: ResourcePattern) -> bool:
        """Return whether the filter matches a pattern.

        With pattern type MATCH and a `resource_name`, it matches the patterns that cover a resource of this name.
        """
        kind, name, how = self
        if kind not in (ResourceType.ANY, pattern.resource_type):
            return False
        if how not in (ACLResourcePatternType.ANY, ACLResourcePatternType.MATCH, pattern.pattern_type):
            return False
        if name is None or name == pattern.resource_name:
            return True
        return how == ACLResourcePatternType.MATCH and pattern.covers(name)


class ResourcePattern(NamedTuple):
    """The resources that an ACL applies to: one with a literal name (`*`: all), or all whose names have a prefix."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: ACLResourcePatternType = ACLResourcePatternType.LITERAL

    def covers(self, name: str) -> bool:
        """Return whether the pattern matches a resource with this name."""
        if self.pattern_type == ACLResourcePatternType.PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in (name, WILDCARD)


class ACLFilter(NamedTuple):
    """A filter of ACLs. A field that is None or ANY matches every value."""

    principal: str | None = None
    host: str | None = None
    operation: ACLOperation = ACLOperation.ANY
    permission_type: ACLPermissionType = ACLPermissionType.ANY
    resource_pattern: ResourcePatternFilter | ResourcePattern = ResourcePatternFilter(ResourceType.ANY)

    def matches(self, acl: ACL) -> bool:
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ACLOperation.ANY, acl.operation)
            and self.permission_type in (ACLPermissionType.ANY, acl.permission_type)
            and ResourcePatternFilter(*self.resource_pattern).matches(acl.resource_pattern)
        )


class ACL(NamedTuple):
    """One ACL: it allows or denies (`permission_type`) an operation on resources to a principal, such as `User:alice`,
    that connects from a host (`*`: any).
    """

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
        """Raise ValueError if a field has a value that is only valid in filters (ANY or MATCH)."""
        kind, _, pattern = self.resource_pattern
        if kind == ResourceType.ANY or pattern in (ACLResourcePatternType.ANY, ACLResourcePatternType.MATCH):
            raise ValueError(f"{self}: an ACL requires one resource type, and a literal or prefixed pattern")
        if self.operation == ACLOperation.ANY or self.permission_type == ACLPermissionType.ANY:
            raise ValueError(f"{self}: an ACL requires one operation, allowed or denied")


OPTIONS: Final = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.CLUSTER: "--cluster",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}
"""The options of `ottla acls` that name a resource."""
PLACEHOLDER: Final = "NAME"
"""The placeholder for a resource's name that is not known or must not be revealed."""
ANY_CONNECTION: Final = ("--bootstrap-server", "HOST:PORT", "--command-config", "FILE")
"""The connection option of `ottla acls`, with a placeholder for an address that is not known."""


def allowing_command(
    principal: str, operation: ACLOperation, kind: ResourceType, name: str, connection: Sequence[str] = ANY_CONNECTION
) -> str:
    """Return the `ottla acls` command that allows a principal an operation.

    `connection`: the options with which the command connects to the cluster.
    """
    resource = [OPTIONS[kind]] if kind is ResourceType.CLUSTER else [OPTIONS[kind], name]
    return _command(connection, principal, "--operation", operation.name.title().replace("_", ""), *resource)


def producer_command(principal: str, topic: str, connection: Sequence[str] = ANY_CONNECTION) -> str:
    """Return the `ottla acls` command that lets a principal write to a topic, also as an idempotent producer."""
    return _command(connection, principal, "--producer", OPTIONS[ResourceType.TOPIC], topic)


def _command(connection: Sequence[str], principal: str, *acl: str) -> str:
    import shlex  # only denials need it

    return shlex.join(["ottla", "acls", *connection, "--add", "--allow-principal", principal, *acl])


def with_name(message: str, name: str) -> str:
    """Return a broker's message about a denied operation with the name of the resource in its `ottla acls` command.
    The broker does not insert it, because a client that names a topic by its id must not learn the topic's name.
    """
    import shlex

    return message.replace(f" {PLACEHOLDER})", f" {shlex.quote(name)})")
