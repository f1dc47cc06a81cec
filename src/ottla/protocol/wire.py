"""The smallest pieces of the wire format: functions for variable-length numbers, ids and records."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, Protocol

from ottla.errors import MalformedMessageError


class Sendable(Protocol):
    """Bytes that are not in memory yet, such as a piece of a log file."""

    @property
    def nbytes(self) -> int:
        """The number of bytes of the piece."""
        ...

    def read(self) -> bytes:
        """Return the bytes of the piece."""
        ...


Chunk = bytes | bytearray | memoryview | Sendable
"""A part of a message to be sent: a buffer, or a piece of a file."""

RecordData = Any
"""The value of a `records` field. Read: a view of the message. Written: a Chunk, or a list or tuple of them."""


def read_uvarint(buf: memoryview, pos: int) -> tuple[int, int]:
    """Read an unsigned number of 1 to 5 bytes, and return it with the position after it.

    Raises IndexError if it is cut off, MalformedMessageError if it has more than 5 bytes or 32 bits.
    """
    byte = buf[pos]
    value = byte & 0x7F
    shift = 0
    while byte > 0x7F:
        shift += 7
        if shift > 28:
            raise MalformedMessageError("a variable-length number has more than 5 bytes")
        pos += 1
        byte = buf[pos]
        value |= (byte & 0x7F) << shift
    if value > 0xFFFFFFFF:
        raise MalformedMessageError("a variable-length number exceeds 32 bits")
    return value, pos + 1


def write_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned number in as few bytes as it needs."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


_ids: dict[bytes, uuid.UUID] = {}
MAX_REMEMBERED_IDS = 4096


def read_uuid(raw: bytes) -> uuid.UUID:
    """Return the UUID of 16 bytes. Up to MAX_REMEMBERED_IDS are cached, because creating one takes 2 µs, and topic
    ids recur.
    """
    interned = _ids.get(raw)
    if interned is None:
        if len(_ids) >= MAX_REMEMBERED_IDS:
            _ids.clear()
        interned = _ids[raw] = uuid.UUID(bytes=raw)
    return interned


def size_of(records: Any) -> int:
    """Return the number of bytes that a `records` value takes on the wire."""
    if isinstance(records, (bytes, bytearray)):
        return len(records)
    if isinstance(records, (list, tuple)):
        return sum(map(size_of, records))
    size: int = records.nbytes
    return size


def pieces_of(records: Any) -> Iterable[Chunk]:
    """Yield the buffers and file pieces of a `records` value."""
    if isinstance(records, (list, tuple)):
        for part in records:
            yield from pieces_of(part)
    else:
        yield records


def content_of(piece: Chunk) -> bytes | bytearray | memoryview:
    """Return the bytes of a chunk, read from the file if necessary."""
    return piece if isinstance(piece, (bytes, bytearray, memoryview)) else piece.read()


def splice(out: bytearray, cuts: list[tuple[int, Any]]) -> list[Chunk]:
    """Return pieces of `out` with the `records` values of `cuts` at their positions. Nothing is copied."""
    if not cuts:
        return [out]
    view = memoryview(out)
    chunks: list[Chunk] = []
    start = 0
    for at, records in cuts:
        if at > start:
            chunks.append(view[start:at])
        if isinstance(records, (list, tuple)):
            chunks.extend(pieces_of(records))
        else:
            chunks.append(records)
        start = at
    if start < len(out):
        chunks.append(view[start:])
    return chunks
