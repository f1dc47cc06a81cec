"""Partitioning of columns and lists of keys by murmur2."""

from __future__ import annotations

from array import array
from types import SimpleNamespace

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
def test_rows_by_partition_of_a_column_match_the_partition_of_each_key(
    keys: list[bytes | None], count: int, first: int
) -> None:
    actual = rows_by_partition(column(keys, first), len(keys), count)
    assert len(actual) == count + 1
    for row, key in enumerate(keys):
        place = count if key is None else (murmur2(key) & 0x7FFFFFFF) % count
        assert row in actual[place]
    assert sum(map(len, actual)) == len(keys)


def test_list_rows_by_partition_match_those_of_a_column(hot: SimpleNamespace) -> None:
    keys = [b"a", None, b"b" * 300, b"", b"c"]
    by_column = hot.murmur2.rows_by_partition(column(keys), len(keys), 3)
    assert hot.murmur2.list_rows_by_partition(keys, 3) == by_column
    assert hot.murmur2.list_rows_by_partition([], 2) == [array("q")] * 3
    assert list(hot.murmur2.all_rows(3)) == [0, 1, 2]
    assert hot.murmur2.bytes_in_list(keys) == 302
    assert hot.murmur2.bytes_in_list([b"a", "b"]) == hot.murmur2.bytes_in_list([bytearray(2)]) == -1
