"""The ACLs that the options of `ottla acls` describe, and the form in which Kafka's tool prints ACLs."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.cli.framework.options import flag_name
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
"""The options that name resources, and the type of resource of each."""
CLUSTER: Final = ResourcePatternFilter(ResourceType.CLUSTER, CLUSTER_NAME, ACLResourcePatternType.LITERAL)
PRODUCER: Final = {
    ResourceType.TOPIC: (ACLOperation.WRITE, ACLOperation.DESCRIBE, ACLOperation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (ACLOperation.WRITE, ACLOperation.DESCRIBE),
}
"""The operations that `--producer` stands for, by type of resource."""
CONSUMER: Final = {
    ResourceType.TOPIC: (ACLOperation.READ, ACLOperation.DESCRIBE),
    ResourceType.GROUP: (ACLOperation.READ,),
}
"""The operations that `--consumer` stands for, by type of resource."""


class Entry(NamedTuple):
    """An ACL without its resource, like Kafka's `AccessControlEntry`."""

    principal: str
    host: str
    operation: ACLOperation
    permission_type: ACLPermissionType

    def on(self, resource: ResourcePattern) -> ACL:
        """Return the ACL that consists of this entry and a resource."""
        return ACL(*self, resource_pattern=resource)

    def within(self, resource: ResourcePatternFilter) -> ACLFilter:
        """Return the filter that matches ACLs with this entry on matching resources."""
        return ACLFilter(*self, resource_pattern=resource)


Entries = dict[ResourcePatternFilter, list[Entry]]
"""Entries by resource. With `--remove`, an empty list stands for all ACLs of the resource."""


def resources(args: argparse.Namespace) -> list[ResourcePatternFilter]:
    """Return the resources that the options name, without duplicates. Raises ConfigurationError for an empty name."""
    named = [
        ResourcePatternFilter(kind, _name(option, name), args.resource_pattern_type)
        for option, kind in RESOURCES.items()
        for name in getattr(args, option)
    ]
    return list(dict.fromkeys([*named, CLUSTER] if args.cluster else named))


def requested_entries(args: argparse.Namespace) -> Entries:
    """Return the entries to add or remove, by resource. Raises ConfigurationError if no resource is selected, a name is
    empty, a principal or operation is invalid, or an operation does not apply to a resource.
    """
    named = resources(args)
    if not (named or args.idempotent):
        options = " or ".join(map(flag_name, (*RESOURCES, "cluster")))
        raise ConfigurationError(f"--{args.action} needs a resource: {options}")
    requested: Entries = {}
    if not args.producer and not args.consumer:
        operations = [operation_of(text) for text in args.operation] or [ACLOperation.ALL]
        requested = {resource: _entries(args, operations) for resource in named}
    for is_set, operations_by_type in ((args.producer, PRODUCER), (args.consumer, CONSUMER)):
        for resource in named if is_set else ():
            if resource.resource_type in operations_by_type:
                before = requested.get(resource, [])
                implied = _entries(args, operations_by_type[resource.resource_type])
                requested[resource] = list(dict.fromkeys(before + implied))
    if args.idempotent:
        requested[CLUSTER] = _entries(args, [ACLOperation.IDEMPOTENT_WRITE])
    for resource, entries in requested.items():
        _check_operations(resource.resource_type, entries)
    return requested


def pattern_type(text: str) -> ACLResourcePatternType:
    """Parse the value of `--resource-pattern-type`. Raises ArgumentTypeError for an unknown type."""
    try:
        value = ACLResourcePatternType[text.upper()]
    except KeyError:
        value = ACLResourcePatternType.UNKNOWN
    if value is ACLResourcePatternType.UNKNOWN:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of any, match, literal, prefixed")
    return value


def operation_of(text: str) -> ACLOperation:
    """Parse the value of `--operation`, in any case, with or without `_`. Raises ConfigurationError for an operation
    that ACLs cannot have.
    """
    name = text.strip().replace("_", "").lower()
    for operation in ACLOperation:
        if operation > ACLOperation.ANY and operation.name.replace("_", "").lower() == name:
            return operation
    raise ConfigurationError(f"--operation: there is no operation {text!r}{nearest(text, operation_names())}")


def operation_names() -> list[str]:
    """Return the names of the operations that ACLs may have, as the command line has them, such as
    `DescribeConfigs`.
    """
    operations = [operation for operation in ACLOperation if operation > ACLOperation.ANY]
    return ["".join(part.capitalize() for part in operation.name.split("_")) for operation in operations]


def principal(option: str, text: str) -> str:
    """Return a principal such as `User:alice` without surrounding spaces. Raises ConfigurationError, with the name of
    the option, unless the text begins with a type and a colon.
    """
    name = text.strip()
    kind, colon, _ = name.partition(":")
    if not (kind and colon):
        raise ConfigurationError(f"{option}: expected a string in format principalType:principalName but got {name}")
    return name


def resource_text(resource: ResourcePattern | ResourcePatternFilter) -> str:
    """Return a resource as Kafka's tool prints it."""
    kind, name, pattern = resource
    return f"ResourcePattern(resourceType={kind.name}, name={name}, patternType={pattern.name})"


def entry_text(acl: ACL | Entry) -> str:
    """Return an ACL without its resource, as Kafka's tool prints it."""
    return (
        f"(principal={acl.principal}, host={acl.host}, operation={acl.operation.name}, "
        f"permissionType={acl.permission_type.name})"
    )


def as_json(acls: Iterable[ACL]) -> list[dict[str, str | None]]:
    """Return ACLs in the form that `--json` prints."""
    return [
        {
            "resource_type": acl.resource_pattern.resource_type.name,
            "resource_name": acl.resource_pattern.resource_name,
            "pattern_type": acl.resource_pattern.pattern_type.name,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation.name,
            "permission_type": acl.permission_type.name,
        }
        for acl in acls
    ]


def _name(option: str, text: str) -> str:
    name = text.strip()
    if not name:
        raise ConfigurationError(f"{flag_name(option)} {text!r}: expected a name, or {WILDCARD!r} for all")
    return name


def _entries(args: argparse.Namespace, operations: Iterable[ACLOperation]) -> list[Entry]:
    sides = (
        (args.allow_principal, args.allow_host, ACLPermissionType.ALLOW, "--allow-principal"),
        (args.deny_principal, args.deny_host, ACLPermissionType.DENY, "--deny-principal"),
    )
    return [
        Entry(principal(option, name), host.strip(), operation, permission)
        for principals, hosts, permission, option in sides
        for name in principals
        for operation in operations
        for host in hosts or [WILDCARD]
    ]


def _check_operations(kind: ResourceType, entries: Iterable[Entry]) -> None:
    valid = {*OPERATIONS[kind], ACLOperation.ALL}
    if any(entry.operation not in valid for entry in entries):
        names = ", ".join(sorted(operation.name for operation in valid))
        raise ConfigurationError(f"ResourceType {kind.name} only supports operations [{names}]")
