"""The hash that chooses the partition of a key: Kafka's `Utils.murmur2`, so that Java's clients choose the same one.

`rows_by_partition` and `list_rows_by_partition` group rows by the partitions of their keys. Compiled with murmur2.pxd.
"""

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
    """Return the hash of Kafka's `Utils.murmur2`, as an unsigned 32-bit number."""
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
    """Return, for each of `count` partitions, the numbers of the rows whose key belongs to it, and as the last item
    those of the rows without a key.
    """
    chosen = array("i", bytes(4 * rows))
    ends = array("q", bytes(8 * (count + 2)))
    numbers = memoryview(chosen)
    at = memoryview(ends)
    offsets = memoryview(keys.offsets)
    data = memoryview(keys.data).cast("B")
    raw = data if data.nbytes else memoryview(b"\0")
    nbytes = data.nbytes
    first = keys.first
    nullable = keys.validity is not None
    validity = memoryview(keys.validity if keys.validity is not None else b"\0").cast("B")
    p = cython.address(raw[0]) if cython.compiled else raw
    for row in range(rows):
        i = first + row
        number = count
        if not nullable or (validity[i >> 3] >> (i & 7)) & 1:
            start = offsets[i]
            size = offsets[i + 1] - start
            if start < 0 or size < 0 or start + size > nbytes:
                raise IndexError(f"row {row} lies outside its column's data")
            number = (_hash(p, start, size) & 0x7FFFFFFF) % count
        numbers[row] = number
        at[number + 1] += 1
    return _sorted_rows(chosen, count, ends)


def list_rows_by_partition(keys: list[bytes | None], count: int) -> list[array[int]]:
    """Return the row numbers like `rows_by_partition`, for a list of keys."""
    rows = len(keys)
    chosen = array("i", bytes(4 * rows))
    ends = array("q", bytes(8 * (count + 2)))
    numbers = memoryview(chosen)
    at = memoryview(ends)
    for row in range(rows):
        key = keys[row]
        number = count if key is None else (_hash(key, 0, len(key)) & 0x7FFFFFFF) % count
        numbers[row] = number
        at[number + 1] += 1
    return _sorted_rows(chosen, count, ends)


def all_rows(rows: int) -> array[int]:
    """Return the row numbers 0 to `rows` - 1."""
    numbers = array("q", bytes(8 * rows))
    out = memoryview(numbers)
    for row in range(rows):
        out[row] = row
    return numbers


def bytes_in_list(items: list[bytes | None]) -> int:
    """Return the number of bytes in a list of bytes and None; -1 if it has other items."""
    total = 0
    for item in items:
        if item is not None:
            if type(item) is not bytes:
                return -1
            total += len(item)
    return total


def _sorted_rows(chosen: array[int], count: int, ends: array[int]) -> list[array[int]]:
    """Return the row numbers of each partition, and as the last item those of rows without a key.

    `chosen`: the partition of each row; the number of partitions for a row without a key. `ends`: from the second item
    on, the number of rows of each partition, then of those without a key. It is overwritten.
    """
    rows = len(chosen)
    sorted_rows = array("q", bytes(8 * rows))
    numbers = memoryview(chosen)
    out = memoryview(sorted_rows)
    at = memoryview(ends)
    # A counting sort: `at` has how many rows each partition has, then where they begin, and in the end where they end.
    for number in range(count + 1):
        at[number + 1] += at[number]
    for row in range(rows):
        number = numbers[row]
        out[at[number]] = row
        at[number] += 1
    return [sorted_rows[ends[number - 1] if number else 0 : ends[number]] for number in range(count + 1)]
