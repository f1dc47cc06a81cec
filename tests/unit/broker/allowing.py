"""Rules for tests: a broker that obeys `admin` alone, and `alice`, who may do what a test says."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.unit.broker.asking import Asker, with_broker

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
TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED, TRANSACTIONAL_ID_REFUSED = 29, 30, 31, 53
AUTHORIZATION_CODES = {TOPIC_REFUSED, GROUP_REFUSED, CLUSTER_REFUSED, TRANSACTIONAL_ID_REFUSED}


def with_rules(test: Callable[[Asker], Coroutine[Any, Any, None]], data: Path, **options: Any) -> None:
    """Run a test against a broker with an authorizer, as its super user."""

    async def as_admin(client: Asker) -> None:
        be(client, ADMIN)
        client.join_cluster()  # where ACLs decide what only brokers may send
        await test(client)

    options |= {"authorizer_class_name": "AclAuthorizer", "super_users": f"User:{ADMIN}"}
    with_broker(as_admin, data, **options)


def be(client: Asker, name: str) -> None:
    """Ask under this name from now on."""
    client.connection.state[USER] = name


def allow(operation: ACLOperation, kind: ResourceType, name: str = CLUSTER_NAME, who: str = ALICE) -> ACL:
    """A rule."""
    pattern = ResourcePattern(kind, name, ACLResourcePatternType.LITERAL)
    return ACL(f"User:{who}", "*", operation, ACLPermissionType.ALLOW, pattern)


def only(client: Asker, *rules: ACL) -> None:
    """Ask as alice, who may do nothing but this."""
    authorizer = client.context.authorizer
    assert authorizer is not None
    authorizer.replace(rules)
    be(client, ALICE)


def codes(answer: object) -> set[int]:
    """All errors that are anywhere in an answer."""
    return set(_codes(answer)) - {0}


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
    """A message with one item in each of its arrays; names and numbers in them are all different."""
    numbers = itertools.count(1)

    def value(kind: str) -> Any:
        number = next(numbers)
        return UUID(int=number) if kind == "uuid" else f"n{number}" if kind == "string" else number

    def fill(made: Any) -> Any:
        values: dict[str, Any] = {}
        for field in made.FIELDS:
            if not field.in_version(version):
                continue
            if isinstance(field.element, StructType) and field.kind == "array":
                values[field.name] = [fill(field.element)]
            elif field.kind == "array":
                values[field.name] = [value(field.element.kind)]
            elif made is not request and field.kind in {"uuid", "string", "int32"}:
                values[field.name] = value(field.kind)
        return made(**values)

    return fill(request)
