"""A broker with an authorizer for tests: the super user `admin`, and `alice` with the ACLs of a test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.unit.broker.broker_client import BrokerClient, with_broker

from ottla.model import ACLOperation
from ottla.net.server.connection import USER
from ottla.protocol.message import Struct, StructType
from ottla.security.acl import (
    ACL,
    CLUSTER_NAME,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
)

ADMIN, ALICE = "admin", "alice"
(
    TOPIC_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    CLUSTER_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
) = 29, 30, 31, 53
AUTHORIZATION_CODES = {
    TOPIC_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    CLUSTER_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def with_authorizer(test: Callable[[BrokerClient], Coroutine[Any, Any, None]], data: Path, **options: Any) -> None:
    """Run a test against a broker with an authorizer, as its super user."""

    async def as_admin(client: BrokerClient) -> None:
        authenticate_as(client, ADMIN)
        client.join_cluster()  # so that ACLs authorize inter-broker requests
        await test(client)

    options |= {"authorizer_class_name": "AclAuthorizer", "super_users": f"User:{ADMIN}"}
    with_broker(as_admin, data, **options)


def authenticate_as(client: BrokerClient, name: str) -> None:
    """Send the next requests as this user."""
    client.connection.state[USER] = name


def allow(operation: ACLOperation, kind: ResourceType, name: str = CLUSTER_NAME, principal_name: str = ALICE) -> ACL:
    """Return an ACL that allows an operation."""
    pattern = ResourcePattern(kind, name, ACLResourcePatternType.LITERAL)
    return ACL(f"User:{principal_name}", "*", operation, ACLPermissionType.ALLOW, pattern)


def allow_only(client: BrokerClient, *acls: ACL) -> None:
    """Send the next requests as alice, with no ACLs but these."""
    authorizer = client.context.authorizer
    assert authorizer is not None
    authorizer.replace(acls)
    authenticate_as(client, ALICE)


def codes(response: object) -> set[int]:
    """Return all error codes of a response, nested ones included."""
    return set(_codes(response)) - {0}


def _codes(value: object) -> Iterator[int]:
    if isinstance(value, list):
        for item in value:
            yield from _codes(item)
    elif isinstance(value, Struct):
        for field in type(value).FIELDS:
            actual = getattr(value, field.name)
            if field.name.endswith("error_code"):
                yield actual
            else:
                yield from _codes(actual)


def with_items(request: type[Struct], version: int) -> Any:
    """Return a message with one item in each of its arrays, in which all names and numbers are different."""
    numbers = itertools.count(1)

    def value(kind: str) -> Any:
        number = next(numbers)
        return UUID(int=number) if kind == "uuid" else f"n{number}" if kind == "string" else number

    def fill(struct_type: Any) -> Any:
        values: dict[str, Any] = {}
        for field in struct_type.FIELDS:
            if not field.in_version(version):
                continue
            if isinstance(field.element, StructType) and field.kind == "array":
                values[field.name] = [fill(field.element)]
            elif field.kind == "array":
                values[field.name] = [value(field.element.kind)]
            elif struct_type is not request and field.kind in {"uuid", "string", "int32"}:
                values[field.name] = value(field.kind)
        return struct_type(**values)

    return fill(request)
