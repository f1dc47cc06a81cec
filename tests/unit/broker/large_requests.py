"""Requests with many items, generated from the message declarations for each array of each version."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import cache
from typing import Any

from ottla.protocol.fields import FIXED, Field
from ottla.protocol.message import Request, Struct

CALM = {
    "validate_only": True,
    "allow_auto_topic_creation": False,
    "max_wait_ms": 0,
    "min_bytes": 0,
    "timeout_ms": 100,
    "acks": 1,
    "session_timeout_ms": 6000,
    "rebalance_timeout_ms": 6000,
    "transaction_timeout_ms": 1000,
    "replica_id": -1,
    "session_epoch": 0,
    "record_limit": 2000,
    "response_partition_limit": 2000,
}
"""Values with which a request changes little and waits for nothing."""


def array_paths(cls: type[Struct], version: int, parents: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of each array of a message."""
    for field in cls.FIELDS:
        if not field.in_version(version):
            continue
        if field.kind == "array":
            path = (*parents, field.name)
            yield path
            if not isinstance(field.element, Field):
                yield from array_paths(field.element, version, path)


def large(cls: type[Request[Any]], version: int, path: tuple[str, ...], items: int, *, distinct: bool) -> Request[Any]:
    """Return a request with `items` items in the array at `path`, all equal unless `distinct`."""
    request: Request[Any] = _filled(cls, version, path, items, distinct, 0)
    return request


def _filled(cls: Any, version: int, path: tuple[str, ...], items: int, distinct: bool, number: int) -> Any:
    values: dict[str, Any] = {}
    for field in _untagged(cls, version):
        if field.kind == "array":
            is_long = bool(path) and path[0] == field.name
            # one container around the long array, and one item in arrays beside it
            count = items if is_long and len(path) == 1 else 1
            rest = path[1:] if is_long else ()
            values[field.name] = [
                _item(field.element, version, rest, items, distinct, number + n if distinct else 0)
                for n in range(count)
            ]
        else:
            values[field.name] = _value(field, version, number)
    return cls(**values)


@cache
def _untagged(cls: type[Struct], version: int) -> list[Field]:
    return [field for field in cls.FIELDS if field.in_version(version) and field.tag is None]


def _item(element: Any, version: int, path: tuple[str, ...], items: int, distinct: bool, number: int) -> Any:
    if isinstance(element, Field):
        return _value(element, version, number)
    return _filled(element, version, path, items, distinct, number)


def _value(field: Field, version: int, number: int) -> Any:
    if field.name in CALM:
        return CALM[field.name]
    if field.kind == "boolean":
        return False
    if field.kind in FIXED:
        return number % 100 if FIXED[field.kind][1] < 4 else number
    if field.kind == "uuid":
        return uuid.UUID(int=number + 1)
    if field.kind == "string":
        return f"t{number}"
    if field.kind == "binary":
        return b"x"
    if field.kind == "records":
        return None if field.nullable_in(version) else b""
    return None if field.nullable_in(version) else field.element()
