"""Which rules `ottla acls` is asked for, by their resources, and how Kafka's tool writes rules down."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.cli.framework.connection import as_typed
from ottla.config.options import nearest
from ottla.errors import ConfigurationError
from ottla.model import ACLOperation
from ottla.security.acl import (
    ACL,
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    ACLFilter,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "delegation_token": ResourceType.DELEGATION_TOKEN,
    "user_principal": ResourceType.USER,
}
"""Options that name resources, and of which type."""
CLUSTER: Final = ResourcePatternFilter(ResourceType.CLUSTER, CLUSTER_NAME, ACLResourcePatternType.LITERAL)
PRODUCER: Final = {
    ResourceType.TOPIC: (ACLOperation.WRITE, ACLOperation.DESCRIBE, ACLOperation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (ACLOperation.WRITE, ACLOperation.DESCRIBE),
}
"""What `--producer` stands for."""
CONSUMER: Final = {
    ResourceType.TOPIC: (ACLOperation.READ, ACLOperation.DESCRIBE),
    ResourceType.GROUP: (ACLOperation.READ,),
}
"""What `--consumer` stands for."""


class Entry(NamedTuple):
    """A rule without its resource."""

    principal: str
    host: str
    operation: ACLOperation
    permission_type: ACLPermissionType

    def on(self, resource: ResourcePattern) -> ACL:
        """The rule about this resource."""
        return ACL(*self, resource_pattern=resource)

    def within(self, resource: ResourcePatternFilter) -> ACLFilter:
        """What finds the rule about resources that match."""
        return ACLFilter(*self, resource_pattern=resource)


Entries = dict[ResourcePatternFilter, list[Entry]]
"""Rules by their resources; with none, all rules about the resource are meant."""


def resources(args: argparse.Namespace) -> list[ResourcePatternFilter]:
    """What was named, each once."""
    found = [
        ResourcePatternFilter(kind, _name(option, name), args.resource_pattern_type)
        for option, kind in RESOURCES.items()
        for name in getattr(args, option)
    ]
    return list(dict.fromkeys([*found, CLUSTER] if args.cluster else found))


def asked(args: argparse.Namespace) -> Entries:
    """The rules of a command line that adds or removes. ConfigurationError for one that is wrong."""
    named = resources(args)
    if not (named or args.idempotent):
        options = " or ".join(map(as_typed, (*RESOURCES, "cluster")))
        raise ConfigurationError(f"--{args.action} needs a resource: {options}")
    found: Entries = {}
    if not args.producer and not args.consumer:
        operations = [operation_of(text) for text in args.operation] or [ACLOperation.ALL]
        found = {resource: _entries(args, operations) for resource in named}
    for wanted, meant in ((args.producer, PRODUCER), (args.consumer, CONSUMER)):
        for resource in named if wanted else ():
            if resource.resource_type in meant:
                before = found.get(resource, [])
                found[resource] = list(dict.fromkeys(before + _entries(args, meant[resource.resource_type])))
    if args.idempotent:
        found[CLUSTER] = _entries(args, [ACLOperation.IDEMPOTENT_WRITE])
    for resource, entries in found.items():
        _check_operations(resource.resource_type, entries)
    return found


def pattern_type(text: str) -> ACLResourcePatternType:
    """A value of `--resource-pattern-type`."""
    try:
        found = ACLResourcePatternType[text.upper()]
    except KeyError:
        found = ACLResourcePatternType.UNKNOWN
    if found is ACLResourcePatternType.UNKNOWN:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of any, match, literal, prefixed")
    return found


def operation_of(text: str) -> ACLOperation:
    """An operation by its name on the command line."""
    wanted = text.strip().replace("_", "").lower()
    for operation in ACLOperation:
        if operation > ACLOperation.ANY and operation.name.replace("_", "").lower() == wanted:
            return operation
    raise ConfigurationError(f"--operation: there is no operation {text!r}{nearest(text, operation_names())}")


def operation_names() -> list[str]:
    """All operations as they are written on the command line: `DescribeConfigs`."""
    found = [operation for operation in ACLOperation if operation > ACLOperation.ANY]
    return ["".join(part.capitalize() for part in operation.name.split("_")) for operation in found]


def principal(option: str, text: str) -> str:
    """`User:alice`."""
    found = text.strip()
    kind, colon, _ = found.partition(":")
    if not (kind and colon):
        raise ConfigurationError(f"{option}: expected a string in format principalType:principalName but got {found}")
    return found


def resource_text(resource: ResourcePattern | ResourcePatternFilter) -> str:
    """As Kafka's tool prints it."""
    kind, name, pattern = resource
    return f"ResourcePattern(resourceType={kind.name}, name={name}, patternType={pattern.name})"


def entry_text(rule: ACL | Entry) -> str:
    """As Kafka's tool prints it."""
    return (
        f"(principal={rule.principal}, host={rule.host}, operation={rule.operation.name}, "
        f"permissionType={rule.permission_type.name})"
    )


def as_json(rules: Iterable[ACL]) -> list[dict[str, str | None]]:
    """With `--json`: rules with all their parts."""
    return [
        {
            "resource_type": rule.resource_pattern.resource_type.name,
            "resource_name": rule.resource_pattern.resource_name,
            "pattern_type": rule.resource_pattern.pattern_type.name,
            "principal": rule.principal,
            "host": rule.host,
            "operation": rule.operation.name,
            "permission_type": rule.permission_type.name,
        }
        for rule in rules
    ]


def _name(option: str, text: str) -> str:
    name = text.strip()
    if not name:
        raise ConfigurationError(f"{as_typed(option)} {text!r}: a name is wanted, or {WILDCARD!r} for all")
    return name


def _entries(args: argparse.Namespace, operations: Iterable[ACLOperation]) -> list[Entry]:
    sides = (
        (args.allow_principal, args.allow_host, ACLPermissionType.ALLOW, "--allow-principal"),
        (args.deny_principal, args.deny_host, ACLPermissionType.DENY, "--deny-principal"),
    )
    return [
        Entry(principal(option, who), host.strip(), operation, permission)
        for principals, hosts, permission, option in sides
        for who in principals
        for operation in operations
        for host in hosts or [WILDCARD]
    ]


def _check_operations(kind: ResourceType, entries: Iterable[Entry]) -> None:
    valid = {*OPERATIONS[kind], ACLOperation.ALL}
    if any(entry.operation not in valid for entry in entries):
        names = ", ".join(sorted(operation.name for operation in valid))
        raise ConfigurationError(f"ResourceType {kind.name} only supports operations [{names}]")
