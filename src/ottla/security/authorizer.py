"""Authorization by ACLs, like Kafka's AclAuthorizer and StandardAuthorizer.

A super user is authorized for everything. For others, the ACLs of the resource decide: those for its name, for `*`, and
for every prefix of its name. DENY takes precedence. READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS
implies DESCRIBE_CONFIGS. If a resource has no ACLs, `allow.everyone.if.no.acl.found` decides.

There is no I/O: `cluster/broker/acl_store` reads the ACLs. Most decisions are cached, because requests repeat
them, until the ACLs change or the cache is full. Not thread-safe: event loop only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from ottla import addresses
from ottla.model import ACLOperation
from ottla.security.acl import ACL, WILDCARD, ACLPermissionType, ACLResourcePatternType, ResourceType

ALLOWED_BY: Final = {
    ACLOperation.DESCRIBE: frozenset(
        {
            ACLOperation.ALL,
            ACLOperation.DESCRIBE,
            ACLOperation.READ,
            ACLOperation.WRITE,
            ACLOperation.DELETE,
            ACLOperation.ALTER,
        }
    ),
    ACLOperation.DESCRIBE_CONFIGS: frozenset(
        {ACLOperation.ALL, ACLOperation.DESCRIBE_CONFIGS, ACLOperation.ALTER_CONFIGS}
    ),
}
"""The operations whose ALLOW ACLs allow an operation, by the allowed operation. An operation that is missing here is
allowed only by ACLs for itself and for ALL.
"""
EVERYBODY: Final = f"User:{WILDCARD}"
MAX_REMEMBERED: Final = 10_000
MAX_REMEMBERED_NAME: Final = 255
"""MAX_REMEMBERED and MAX_REMEMBERED_NAME: maximum number of cached decisions, and maximum length of a resource name in
them, so that clients with generated names cannot exhaust memory.
"""


class AuthorizableClient(NamedTuple):
    """A client's principal, such as `User:alice`, and its host."""

    principal: str
    host: str


class Authorizer:
    """Decides whether a client is authorized for an operation."""

    def __init__(self, super_users: Iterable[str] = (), *, allow_everyone: bool = False) -> None:
        """`super_users`: principals that are authorized for everything.

        `allow_everyone`: whether everyone is authorized for operations on resources without ACLs.
        """
        self._super_users = frozenset(super_users)
        self._allow_everyone = allow_everyone
        self._rules: dict[ResourceType, _Rules] = {}
        self._answers: dict[tuple[AuthorizableClient, ACLOperation, ResourceType, str], bool] = {}

    def replace(self, acls: Iterable[ACL]) -> None:
        """Replace all ACLs with these, and forget the cached decisions."""
        self._answers.clear()
        self._rules = {}
        for acl in acls:
            rule = acl._replace(host=addresses.canonical_or_same(acl.host))
            self._rules.setdefault(acl.resource_pattern.resource_type, _Rules()).add(rule)

    def allows(self, client: AuthorizableClient, operation: ACLOperation, kind: ResourceType, name: str) -> bool:
        """Return whether the client is authorized for the operation on the resource."""
        question = (client, operation, kind, name)
        answer = self._answers.get(question)
        if answer is None and len(name) > MAX_REMEMBERED_NAME:
            return self._decide(client, operation, kind, name)
        if answer is None:
            if len(self._answers) >= MAX_REMEMBERED:
                self._answers.clear()
            answer = self._answers[question] = self._decide(client, operation, kind, name)
        return answer

    def allows_by_default(
        self, client: AuthorizableClient, operation: ACLOperation, kind: ResourceType, name: str
    ) -> bool:
        """Return whether the client is authorized only because the resource has no ACLs
        (`allow.everyone.if.no.acl.found`).
        """
        if client.principal in self._super_users or not self._allow_everyone:
            return False
        rules = self._rules.get(kind)
        return rules is None or next(rules.matching(name), None) is None

    def allows_some(self, client: AuthorizableClient, operation: ACLOperation, kind: ResourceType) -> bool:
        """Return whether the client may be authorized for the operation on some resource of the type (KIP-679).

        An ALLOW ACL counts unless a DENY ACL covers all of its resources. With `allow_everyone`, no ALLOW ACL is
        required: the client may be authorized unless a DENY ACL covers all resources of the type.
        """
        if client.principal in self._super_users:
            return True
        rules = [acl for acl in self._rules.get(kind, _Rules()) if _is_about(acl, client)]
        allowing, denied = _allowing(operation), (ACLOperation.ALL, operation)
        denying = [
            acl.resource_pattern
            for acl in rules
            if acl.permission_type is ACLPermissionType.DENY and acl.operation in denied
        ]
        names = {pattern.resource_name for pattern in denying if _is_literal(pattern.pattern_type)}
        prefixes = {pattern.resource_name for pattern in denying if not _is_literal(pattern.pattern_type)}
        if WILDCARD in names:
            return False
        if self._allow_everyone:
            return True
        return any(
            _is_effective(acl, names, prefixes)
            for acl in rules
            if acl.permission_type is ACLPermissionType.ALLOW and acl.operation in allowing
        )

    def _decide(self, client: AuthorizableClient, operation: ACLOperation, kind: ResourceType, name: str) -> bool:
        if client.principal in self._super_users:
            return True
        acls = self._rules.get(kind)
        rules = [] if acls is None else list(acls.matching(name))
        if not rules:
            return self._allow_everyone
        mine = [acl for acl in rules if _is_about(acl, client)]
        if any(
            acl.permission_type is ACLPermissionType.DENY and acl.operation in (ACLOperation.ALL, operation)
            for acl in mine
        ):
            return False
        allowing = _allowing(operation)
        return any(acl.permission_type is ACLPermissionType.ALLOW and acl.operation in allowing for acl in mine)


class _Rules:
    """The ACLs of one resource type, by name and by prefix."""

    def __init__(self) -> None:
        self._literal: dict[str, list[ACL]] = {}
        self._prefixed: dict[str, list[ACL]] = {}
        self._prefix_lengths: set[int] = set()

    def __iter__(self) -> Iterator[ACL]:
        for by_name in (self._literal, self._prefixed):
            for acls in by_name.values():
                yield from acls

    def add(self, acl: ACL) -> None:
        by_name = self._literal
        if not _is_literal(acl.resource_pattern.pattern_type):
            by_name = self._prefixed
            self._prefix_lengths.add(len(acl.resource_pattern.resource_name))
        by_name.setdefault(acl.resource_pattern.resource_name, []).append(acl)

    def matching(self, name: str) -> Iterator[ACL]:
        """Yield the ACLs that apply to the resource of this name."""
        yield from self._literal.get(name, ())
        if name != WILDCARD:
            yield from self._literal.get(WILDCARD, ())
        if self._prefixed:
            for length in self._prefix_lengths:
                if length <= len(name):
                    yield from self._prefixed.get(name[:length], ())


def _is_literal(pattern: ACLResourcePatternType) -> bool:
    return pattern is ACLResourcePatternType.LITERAL


def _allowing(operation: ACLOperation) -> Collection[ACLOperation]:
    return ALLOWED_BY.get(operation) or (ACLOperation.ALL, operation)


def _is_about(acl: ACL, client: AuthorizableClient) -> bool:
    return acl.principal in (client.principal, EVERYBODY) and acl.host in (client.host, WILDCARD)


def _is_effective(acl: ACL, denied_names: Collection[str], denied_prefixes: Collection[str]) -> bool:
    """Return whether an ALLOW ACL covers any resource that is not denied."""
    name = acl.resource_pattern.resource_name
    literal = _is_literal(acl.resource_pattern.pattern_type)
    if literal and name == WILDCARD:
        return True  # only some names or prefixes are denied
    if literal and name in denied_names:
        return False
    return not any(name.startswith(prefix) for prefix in denied_prefixes)
