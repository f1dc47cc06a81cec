"""The prefix of serialized values in Confluent's format: a zero byte, the schema id in four bytes and, for Protobuf,
the indexes of the message type.
"""

from __future__ import annotations

from typing import Final

MAGIC: Final = 0
HEADER_BYTES: Final = 5


def header(schema_id: int) -> bytes:
    """Return the bytes before a value: a zero byte and the schema id."""
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


def message_indexes(indexes: list[int]) -> bytes:
    """Return the bytes that identify a Protobuf message type: the number of indexes and each index, as zigzag varints.
    The first type of a file is encoded as a single zero.
    """
    if indexes == [0]:
        return b"\0"
    return b"".join(map(_zigzag, (len(indexes), *indexes)))


def message_path(data: memoryview) -> tuple[list[int], int]:
    """Return the indexes of the message type, the outermost first, and the number of bytes they take.

    Raises ValueError for negative and too large numbers, and IndexError if the data is truncated.
    """
    count, at = _varint(data, 0)
    if count == 0:
        return [0], at
    path: list[int] = []
    for _ in range(count):
        index, at = _varint(data, at)
        path.append(index)
    return path, at


def _zigzag(number: int) -> bytes:
    value, encoded = number << 1, bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value & 1:
                raise ValueError("the index is negative")
            return value >> 1, at
        shift += 7
        if shift > 28:
            raise ValueError("the index is too large")
