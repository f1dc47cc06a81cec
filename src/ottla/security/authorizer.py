"""Who may do what: the rules of an ACL applied to one question, as Kafka's AclAuthorizer and StandardAuthorizer do.

A super user may do everything. Otherwise the rules about the resource decide: those of its name, of `*`, and of every
prefix of its name. One that denies wins; one that allows READ, WRITE, DELETE or ALTER allows DESCRIBE as well, and
ALTER_CONFIGS allows DESCRIBE_CONFIGS. Without any rule about the resource, `allow.everyone.if.no.acl.found` decides.

Pure: rules come from `cluster/broker/acl_store`. Answers are remembered until rules change, as each request asks anew.
Loop thread.
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
"""Operations that others imply, and which: a rule that allows one of those allows it."""
EVERYBODY: Final = f"User:{WILDCARD}"
MAX_REMEMBERED: Final = 10_000
MAX_REMEMBERED_NAME: Final = 255
"""Answers that are kept, and the longest name of one; clients that send ever new names must not fill the memory."""


class AuthorizableClient(NamedTuple):
    """Who asks, such as `User:alice`, and the address he asks from."""

    principal: str
    host: str


class Authorizer:
    """Answers whether a client may do something."""

    def __init__(self, super_users: Iterable[str] = (), *, allow_everyone: bool = False) -> None:
        """`super_users`: principals that may do everything; `allow_everyone`: what no rule is about is allowed."""
        self._super_users = frozenset(super_users)
        self._allow_everyone = allow_everyone
        self._rules: dict[ResourceType, _Rules] = {}
        self._answers: dict[tuple[AuthorizableClient, ACLOperation, ResourceType, str], bool] = {}

    def replace(self, acls: Iterable[ACL]) -> None:
        """These are the rules now."""
        self._answers.clear()
        self._rules = {}
        for acl in acls:
            rule = acl._replace(host=addresses.canonical_or_same(acl.host))
            self._rules.setdefault(acl.resource_pattern.resource_type, _Rules()).add(rule)

    def allows(self, client: AuthorizableClient, operation: ACLOperation, kind: ResourceType, name: str) -> bool:
        """Whether the client may do this with the resource of this name."""
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
        """Whether this is allowed only because no ACL is about the resource (`allow.everyone.if.no.acl.found`)."""
        if client.principal in self._super_users or not self._allow_everyone:
            return False
        rules = self._rules.get(kind)
        return rules is None or next(rules.about(name), None) is None

    def allows_some(self, client: AuthorizableClient, operation: ACLOperation, kind: ResourceType) -> bool:
        """Whether there may be a resource of this type that the client may do this with (KIP-679).

        A rule that allows counts unless a rule that denies covers all that it is about.
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
            _is_left(acl, names, prefixes)
            for acl in rules
            if acl.permission_type is ACLPermissionType.ALLOW and acl.operation in allowing
        )

    def _decide(self, client: AuthorizableClient, operation: ACLOperation, kind: ResourceType, name: str) -> bool:
        if client.principal in self._super_users:
            return True
        acls = self._rules.get(kind)
        rules = [] if acls is None else list(acls.about(name))
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
    """The rules about one type of resources, by name and by prefix."""

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

    def about(self, name: str) -> Iterator[ACL]:
        """Those that are about the resource of this name."""
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


def _is_left(acl: ACL, denied_names: Collection[str], denied_prefixes: Collection[str]) -> bool:
    """Whether a rule that allows is about anything that is not denied."""
    name = acl.resource_pattern.resource_name
    literal = _is_literal(acl.resource_pattern.pattern_type)
    if literal and name == WILDCARD:
        return True  # all but a few names or beginnings of names
    if literal and name in denied_names:
        return False
    return not any(name.startswith(prefix) for prefix in denied_prefixes)
