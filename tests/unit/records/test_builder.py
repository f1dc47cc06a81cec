"""Building record batches of magic 2."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import IllegalStateError
from ottla.records import compression
from ottla.records.batch import HEADER_BYTES, read_header, verify
from ottla.records.decoder import records

NOW = 1_700_000_000_000

timestamps = st.integers(-1, (1 << 62))
values = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=20)), max_size=3)
rows = st.lists(st.tuples(timestamps, values, values, headers), min_size=1, max_size=30)


def build(hot: SimpleNamespace, rows: list[tuple[Any, ...]], codec: int = compression.NONE, **options: Any) -> bytes:
    builder = hot.builder.BatchBuilder(bytearray(40_000), codec, base_offset=options.pop("base_offset", 0))
    for row in rows:
        assert builder.append(*row)
    return bytes(builder.close(**options))


@given(rows=rows, codec=st.integers(0, 4))
def test_batch_round_trip_with_the_same_bytes_compiled_and_uncompiled(
    both: tuple[SimpleNamespace, SimpleNamespace],
    rows: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    codec: int,
) -> None:
    plain, installed = (build(form, rows, codec) for form in both)
    assert plain == installed
    for form in both:
        actual = form.decoder.decode_records(plain, 0, read_header(plain))
        assert [(r.timestamp, r.key, r.value, r.headers) for r in actual] == rows
        assert [r.offset for r in actual] == list(range(len(rows)))


def test_header_describes_the_batch(hot: SimpleNamespace) -> None:
    batch = build(
        hot,
        [(NOW + 5, b"a", b"1"), (NOW + 9, None, b"2"), (NOW, b"c", None)],
        base_offset=100,
        producer_id=7,
        producer_epoch=2,
        base_sequence=2_147_483_646,
        transactional=True,
        leader_epoch=4,
    )
    header = read_header(batch)
    verify(batch, 0, header)
    assert (header.base_offset, header.last_offset, header.next_offset) == (100, 102, 103)
    assert (header.base_timestamp, header.max_timestamp) == (NOW + 5, NOW + 9)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 2_147_483_646)
    assert header.last_sequence == 0, "sequences wrap to 0"
    assert (header.count, header.leader_epoch, header.size_in_bytes) == (3, 4, len(batch))
    assert header.is_transactional
    assert not header.is_control


def test_record_that_does_not_fit_is_rejected_and_changes_nothing(hot: SimpleNamespace) -> None:
    builder = hot.builder.BatchBuilder(bytearray(100))
    assert builder.append(NOW, b"k", b"v" * 10)
    before = builder.estimated_size
    assert not builder.append(NOW, b"k", b"v" * 100)
    assert not builder.has_room_for(b"k", b"v" * 100)
    assert (builder.estimated_size, builder.record_count) == (before, 1)
    assert len(list(records(builder.close()))) == 1


@given(key=values, value=values, headers=headers)
def test_record_size_upper_bound_is_enough_for_any_record(
    both: tuple[SimpleNamespace, SimpleNamespace],
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
) -> None:
    for hot in both:
        size = hot.builder.record_size_upper_bound(len(key or b""), len(value or b""), headers)
        builder = hot.builder.BatchBuilder(bytearray(size))
        assert builder.has_room_for(key, value, headers)
        assert builder.append(NOW, key, value, headers)


def test_record_may_fill_its_buffer_to_the_last_byte(hot: SimpleNamespace) -> None:
    exact = len(build(hot, [(NOW, b"key", b"value")]))
    assert hot.builder.BatchBuilder(bytearray(exact)).append(NOW, b"key", b"value")
    assert not hot.builder.BatchBuilder(bytearray(exact - 1)).append(NOW, b"key", b"value")


def test_buffer_is_reused_after_reset(hot: SimpleNamespace) -> None:
    buffer = bytearray(200)
    builder = hot.builder.BatchBuilder(buffer)
    builder.append(NOW, b"old", b"old")
    builder.close()
    builder.reset(buffer, base_offset=5)
    builder.append(NOW, None, b"new")
    assert [(r.offset, r.key, r.value) for r in records(builder.close())] == [(5, None, b"new")]


def test_keys_and_values_may_be_any_buffer(hot: SimpleNamespace) -> None:
    batch = build(hot, [(NOW, bytearray(b"key"), memoryview(b"xvaluex")[1:-1])])
    assert [(r.key, r.value) for r in records(batch)] == [(b"key", b"value")]


def test_compacted_batch_keeps_its_offsets(hot: SimpleNamespace) -> None:
    builder = hot.builder.BatchBuilder(bytearray(500), base_offset=10)
    assert builder.append_at(13, NOW, b"a", b"1")
    assert builder.append_at(17, NOW, b"b", b"2")
    for offset in (9, 13, 17, 10 + (1 << 31)):
        with pytest.raises(ValueError, match=f"offset {offset} cannot follow"):
            builder.append_at(offset, NOW, b"c", b"3")
    assert builder.append_at(18, NOW, b"c", b"3")
    batch = builder.close(last_offset_delta=9)
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.count) == (10, 19, 3)
    assert [r.offset for r in records(batch)] == [13, 17, 18]


def test_incompressible_batch_may_outgrow_its_buffer(hot: SimpleNamespace) -> None:
    noise = bytes((i * 167 + (i >> 3) * 91) & 0xFF for i in range(400))
    exact = HEADER_BYTES + len(build(hot, [(NOW, None, noise)])) - HEADER_BYTES
    builder = hot.builder.BatchBuilder(bytearray(exact), compression.SNAPPY)
    assert builder.append(NOW, None, noise)
    assert [r.value for r in records(builder.close())] == [noise]


@pytest.mark.parametrize("timestamp", [1 << 63, -(1 << 63) - 1])
def test_timestamp_beyond_64_bits_raises_overflow_error(hot: SimpleNamespace, timestamp: int) -> None:
    with pytest.raises(OverflowError):
        hot.builder.BatchBuilder(bytearray(100)).append(timestamp, None, b"v")


def test_empty_batch_cannot_be_closed(hot: SimpleNamespace) -> None:
    with pytest.raises(IllegalStateError):
        hot.builder.BatchBuilder(bytearray(100)).close()


def test_buffer_smaller_than_a_header_raises_value_error(hot: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match="61 bytes"):
        hot.builder.BatchBuilder(bytearray(60))
