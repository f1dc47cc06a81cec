from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from ottla.records.columns import BinaryColumn
from ottla.records.murmur2 import murmur2, rows_by_partition


def column(keys: list[bytes | None], first: int = 0) -> BinaryColumn:
    offsets, data, validity = [0] * (first + 1), b"", bytearray((first + len(keys)) // 8 + 1)
    for row, key in enumerate(keys, first):
        data += key or b""
        offsets.append(len(data))
        if key is not None:
            validity[row >> 3] |= 1 << (row & 7)
    return BinaryColumn(memoryview(array("i", offsets)), data, validity, keys.count(None), first)


@given(st.lists(st.none() | st.binary(max_size=20), max_size=50), st.integers(1, 5), st.integers(0, 9))
def test_a_column_of_keys_is_dealt_out_as_single_keys_are(keys: list[bytes | None], count: int, first: int) -> None:
    actual = rows_by_partition(column(keys, first), len(keys), count)
    assert len(actual) == count + 1
    for row, key in enumerate(keys):
        place = count if key is None else (murmur2(key) & 0x7FFFFFFF) % count
        assert row in actual[place]
    assert sum(map(len, actual)) == len(keys)
