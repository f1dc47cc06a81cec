"""The bytes before each serialized value in Confluent's format: a zero, and the schema id in four bytes."""

from __future__ import annotations

from typing import Final

MAGIC: Final = 0
HEADER_BYTES: Final = 5


def header(schema_id: int) -> bytes:
    """Return the bytes before a value."""
    return bytes([MAGIC]) + schema_id.to_bytes(4, "big")


def schema_id_of(value: bytes | None) -> int | None:
    """Return the schema id at the beginning of a key or value; None if there is none."""
    if value is None or len(value) < HEADER_BYTES or value[0] != MAGIC:
        return None
    return int.from_bytes(value[1:HEADER_BYTES], "big")


def required_schema_id(value: bytes) -> int:
    """Return the schema id at the beginning of a key or value. Raises ValueError if there is none."""
    schema_id = schema_id_of(value)
    if schema_id is None:
        raise ValueError(f"{len(value)} bytes that do not begin with a zero byte and a schema id")
    return schema_id
