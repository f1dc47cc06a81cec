"""Validation of a producer's records. tests/interop compares the results with those of Kafka."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.interop.malformed_batches import RECORDS, record

from ottla.errors import CorruptMessageError
from ottla.records.batch import HEADER_BYTES, read_header

NOW = 1_700_000_000_000
MIN, MAX = -(1 << 63), (1 << 63) - 1
VALID = {
    "record attributes set", "record length of five bytes", "header with an empty key", "header key is not UTF-8",
    "header with a null value", "null key and value", "timestamp two hours ahead", "timestamp ten years ago",
    "timestamp below zero", "timestamp delta overflows",
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
def test_malformed_records_are_rejected(hot: SimpleNamespace, name: str) -> None:
    records = RECORDS[name]
    data = b"".join(records)
    if name in VALID - {"record length of five bytes"}:
        assert hot.validator.validate_records(data, len(records), NOW, MIN, MAX, False)
        return
    with pytest.raises(CorruptMessageError):
        hot.validator.validate_records(data, len(records), NOW, MIN, MAX, False)


@pytest.mark.parametrize("count", [0, 1, 2, 4, 1 << 31])
def test_wrong_record_count_is_rejected(hot: SimpleNamespace, count: int) -> None:
    data = b"".join(record(i) for i in range(3))
    with pytest.raises(CorruptMessageError):
        hot.validator.validate_records(data, count, NOW, MIN, MAX, False)


def test_max_timestamp_is_computed_from_the_records(hot: SimpleNamespace) -> None:
    data = record(0, time_delta=5) + record(1, time_delta=9) + record(2, time_delta=-3)
    assert hot.validator.validate_records(data, 3, NOW, MIN, MAX, False).max_timestamp == NOW + 9
    assert hot.validator.validate_records(record(0), 1, -1, MIN, MAX, False).max_timestamp == -1


def test_records_without_a_key_or_with_a_timestamp_out_of_bounds_are_listed(hot: SimpleNamespace) -> None:
    data = record(0, key=None) + record(1, time_delta=100) + record(2, key=None, time_delta=-100)
    actual = hot.validator.validate_records(data, 3, NOW, NOW - 50, NOW + 50, True)
    assert actual.without_key == [0, 2]
    assert actual.out_of_bounds == [(1, NOW + 100), (2, NOW - 100)]
    assert hot.validator.validate_records(data, 3, NOW, NOW - 100, NOW + 100, False)[1:] == ([], [])


def test_timestamp_beyond_64_bits_is_out_of_bounds(hot: SimpleNamespace) -> None:
    for base, delta in ((MAX, 1), (NOW, MAX), (MIN, -1), (-2, MIN)):
        actual = hot.validator.validate_records(record(0, time_delta=delta), 1, base, MIN, MAX, False)
        assert [i for i, _ in actual.out_of_bounds] == [0]


def test_number_of_listed_records_is_limited(hot: SimpleNamespace) -> None:
    data = b"".join(record(i, key=None) for i in range(3000))
    assert len(hot.validator.validate_records(data, 3000, NOW, 0, 1, True).without_key) == 1000


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 1 << 45), st.none() | st.binary(max_size=200), st.none() | st.binary(max_size=200)),
        min_size=1,
    )
)
def test_batches_of_the_builder_are_valid(
    both: tuple[SimpleNamespace, SimpleNamespace], rows: list[tuple[int, bytes | None, bytes | None]]
) -> None:
    for hot in both:
        builder = hot.builder.BatchBuilder(bytearray(500 * len(rows) + 100))
        for when, key, value in rows:
            assert builder.append(when, key, value, [("h", None), ("", b"v")])
        batch = builder.close()
        header = read_header(batch)
        actual = hot.validator.validate_records(
            batch[HEADER_BYTES:], header.count, header.base_timestamp, MIN, MAX, True
        )
        assert actual.max_timestamp == header.max_timestamp == max(when for when, _, _ in rows)
        assert actual.without_key == [i for i, (_, key, _) in enumerate(rows) if key is None][:1000]


@given(data=st.binary(max_size=60), count=st.integers(0, 5))
def test_compiled_and_uncompiled_validator_agree_on_any_bytes(
    both: tuple[SimpleNamespace, SimpleNamespace], data: bytes, count: int
) -> None:
    def validate(hot: SimpleNamespace) -> str | tuple[int, list[Any], list[Any]]:
        try:
            return tuple(hot.validator.validate_records(data, count, NOW, 0, NOW + 5, True))
        except CorruptMessageError as error:
            return error.message

    plain, compiled = both
    assert validate(plain) == validate(compiled)
