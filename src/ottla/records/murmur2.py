"""The hash that chooses the partition of a key: Java's `Utils.murmur2`, so that all clients agree. With murmur2.pxd."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

try:
    import cython
except ImportError:
    from ottla.records import _cython as cython

if TYPE_CHECKING:
    from ottla.records.columns import BinaryColumn


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash, unsigned."""
    return _hash(data, 0, len(data))


def _hash(p: bytes | memoryview, start: int, size: int) -> int:
    """Return the hash of `size` bytes from `start`."""
    # Numbers above 2^31 are objects in the compiled form, unless they are in a typed variable.
    mask = 0xFFFFFFFF
    seed = 0x9747B28C
    m = 0x5BD1E995
    h = seed ^ size
    pos = start
    end = start + size
    while end - pos >= 4:
        k = p[pos + 3]
        k = (k << 8) | p[pos + 2]
        k = (k << 8) | p[pos + 1]
        k = (k << 8) | p[pos]
        k = (k * m) & mask
        k = ((k ^ (k >> 24)) * m) & mask
        h = ((h * m) & mask) ^ k
        pos += 4
    if end - pos == 3:
        h ^= p[pos + 2] << 16
    if end - pos >= 2:
        h ^= p[pos + 1] << 8
    if end - pos >= 1:
        h = ((h ^ p[pos]) * m) & mask
    h = ((h ^ (h >> 13)) * m) & mask
    return h ^ (h >> 15)


def rows_by_partition(keys: BinaryColumn, rows: int, count: int) -> list[array[int]]:
    """Return, for each of `count` partitions, the rows whose keys belong there, and last the rows without a key."""
    by_partition = [array("q") for _ in range(count + 1)]
    offsets = memoryview(keys.offsets)
    data = memoryview(keys.data).cast("B")
    raw = data if data.nbytes else memoryview(b"\0")
    nbytes = data.nbytes
    nullable = keys.validity is not None
    validity = memoryview(keys.validity if keys.validity is not None else b"\0").cast("B")
    p = cython.address(raw[0]) if cython.compiled else raw
    for row in range(rows):
        i = keys.first + row
        if nullable and not (validity[i >> 3] >> (i & 7)) & 1:
            by_partition[count].append(row)
            continue
        start = offsets[i]
        size = offsets[i + 1] - start
        if start < 0 or size < 0 or start + size > nbytes:
            raise IndexError(f"row {row} lies outside its column's data")
        by_partition[(_hash(p, start, size) & 0x7FFFFFFF) % count].append(row)
    return by_partition
