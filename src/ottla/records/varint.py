"""Zigzag varints, for lengths and deltas in records: 7 bits per byte, least significant bits first. Numbers near zero
take few bytes.

The same code runs plainly and compiled; the types for C are in varint.pxd beside this file, as for all compiled
modules of this package. `write_varlong` and `put` do not check the room in the buffer, so they are C functions in the
compiled form, which Python code cannot call. `append_varlong` and `read_varlong` are for all callers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import cython
except ImportError:
    from ottla.records import _cython as cython

from ottla.errors import CorruptMessageError

if cython.compiled:
    from cython.cimports.libc.string import memcpy

if TYPE_CHECKING:
    from typing_extensions import Buffer

if not cython.compiled:
    from ottla.records._source import warn_plain

    warn_plain()

MAX_VARLONG_BYTES = 10
"""Bytes of the longest varint of 64 bits."""


def size_of_varlong(value: int) -> int:
    """Return the number of bytes that `value` (64 bits) takes as a varint."""
    rest = (value << 1) ^ (value >> 63)
    size = 1
    while rest & ~0x7F:
        rest >>= 7
        size += 1
    return size


def write_varlong(p: bytearray, pos: int, value: int) -> int:
    """Write `value` (64 bits) at `pos` of a buffer with room for it, and return the position after it."""
    rest = (value << 1) ^ (value >> 63)
    while rest & ~0x7F:
        p[pos] = (rest & 0x7F) | 0x80
        pos += 1
        rest >>= 7
    p[pos] = rest
    return pos + 1


def put(p: bytearray, pos: int, data: bytes, start: int, size: int) -> int:
    """Copy `data[start:start+size]` to `pos` of a buffer with room for it, and return the position after it."""
    if cython.compiled:
        memcpy(p + pos, data + start, size)  # type: ignore[operator]  # pointers
    else:
        p[pos : pos + size] = data[start : start + size]
    return pos + size


def append_varlong(out: bytearray, value: int) -> None:
    """Append `value` (64 bits) as a varint."""
    if not -(1 << 63) <= value < 1 << 63:
        raise OverflowError(f"{value} does not fit into 64 bits")
    rest = (value << 1) ^ (value >> 63)
    while rest & ~0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)


def read_varlong(buf: Buffer, pos: int = 0) -> tuple[int, int]:
    """Return the varint at `pos` and the position after it. Raises CorruptMessageError if it is cut off or too long."""
    view = memoryview(buf).cast("B")
    raw = 0
    for i, byte in enumerate(view[pos : pos + MAX_VARLONG_BYTES]):
        raw |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            if raw >> 64:
                break
            return (raw >> 1) ^ -(raw & 1), pos + i + 1
    raise CorruptMessageError(f"no varint at byte {pos} of {view.nbytes}")
