"""Decoding record batches to columns, and building batches from columns and lists."""

from array import array
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptMessageError
from ottla.records import compression
from ottla.records.batch import HEADER_BYTES, BatchHeader, read_header, reseal
from ottla.records.columns import BinaryColumn, Columns

NOW = 1_700_000_000_000

values = st.none() | st.binary(max_size=100)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3)
row = st.tuples(st.integers(NOW, NOW + 1000), values, values, headers)
batches = st.lists(st.lists(row, min_size=1, max_size=20), max_size=5)


Headers = list[tuple[str, bytes | None]]
Row = tuple[int, bytes | None, bytes | None] | tuple[int, bytes | None, bytes | None, Headers]


def build(
    hot: SimpleNamespace,
    rows: Sequence[Row],
    base_offset: int = 0,
    codec: int = compression.NONE,
    **options: Any,
) -> bytes:
    builder = hot.builder.BatchBuilder(bytearray(60_000), codec, base_offset=base_offset)
    for r in rows:
        assert builder.append(*r)
    return bytes(builder.close(**options))


def join(
    hot: SimpleNamespace,
    batches: list[list[Row]],
    codec: int = compression.NONE,
) -> bytes:
    out = bytearray()
    offset = 0
    for rows in batches:
        out += build(hot, rows, offset, codec)
        offset += len(rows)
    return bytes(out)


def column(c: BinaryColumn, rows: int) -> list[bytes | None]:
    return [c.get(i) for i in range(rows)]


def as_rows(c: Columns) -> list[tuple[int, int, bytes | None, bytes | None, Headers]]:
    assert c.headers is not None
    starts = list(c.headers.offsets)
    keys = column(c.headers.keys, starts[-1])
    vals = column(c.headers.values, starts[-1])
    actual = []
    for i in range(c.rows):
        row_headers = [((keys[j] or b"").decode(), vals[j]) for j in range(starts[i], starts[i + 1])]
        actual.append((c.offsets[i], c.timestamps[i], c.keys.get(i), c.values.get(i), row_headers))
    return actual


@given(batches=batches, codec=st.integers(0, 4), first=st.integers(0, 60), last=st.integers(0, 120))
def test_decoded_columns_have_the_records_of_an_offset_range(
    both: tuple[SimpleNamespace, SimpleNamespace],
    batches: list[list[Row]],
    codec: int,
    first: int,
    last: int,
) -> None:
    data = join(both[0], batches, codec)
    flat = [r for rows in batches for r in rows]
    expected = [(i, *r) for i, r in enumerate(flat) if first <= i < last]
    for hot in both:
        assert as_rows(hot.columns.decode_columns(data, first, last, headers=True)) == expected


def test_control_and_skipped_batches_are_omitted(hot: SimpleNamespace) -> None:
    data = (
        build(hot, [(NOW, b"a", b"1")], 0)
        + build(hot, [(NOW, b"m", b"marker")], 1, control=True, transactional=True, producer_id=3, producer_epoch=0)
        + build(hot, [(NOW, b"b", b"2")], 2, producer_id=9, producer_epoch=0, base_sequence=0)
        + build(hot, [(NOW, b"c", b"3")], 3)
    )
    actual = hot.columns.decode_columns(data, skip=lambda header: header.producer_id == 9)
    assert list(actual.offsets) == [0, 3]


def test_log_append_time_applies_to_all_records(hot: SimpleNamespace) -> None:
    data = build(hot, [(NOW, b"a", b"1"), (NOW + 1, b"b", b"2")], append_time_ms=NOW + 99)
    actual = hot.columns.decode_columns(data)
    assert (list(actual.timestamps), list(actual.timestamp_types)) == ([NOW + 99] * 2, [1, 1])


def test_column_without_nulls_has_no_validity_bitmap(hot: SimpleNamespace) -> None:
    actual = hot.columns.decode_columns(build(hot, [(NOW, None, b"1"), (NOW, b"k", b"2")]))
    assert (actual.keys.null_count, actual.values.null_count, actual.values.validity) == (1, 0, None)
    assert actual.nbytes == 3


def test_decoder_rejects_a_batch_beyond_max_bytes_until_it_is_drained(hot: SimpleNamespace) -> None:
    data = build(hot, [(NOW, None, b"x" * 100)])
    decoder = hot.columns.ColumnDecoder(max_bytes=250)
    header = read_header(data)
    assert decoder.add_batch(data, 0, header)
    assert decoder.add_batch(data, 0, header)
    assert not decoder.add_batch(data, 0, header)
    assert decoder.drain().rows == 2
    assert decoder.row_count == 0
    assert decoder.add_batch(data, 0, header)


def test_headers_count_towards_max_bytes(hot: SimpleNamespace) -> None:
    data = build(hot, [(NOW, None, None, [("h", b"x" * 100)])])
    decoder = hot.columns.ColumnDecoder(headers=True, max_bytes=250)
    header = read_header(data)
    assert decoder.add_batch(data, 0, header)
    assert decoder.add_batch(data, 0, header)
    assert decoder.nbytes == 202
    assert not decoder.add_batch(data, 0, header)


def test_damaged_batch_does_not_lose_records_before_it(hot: SimpleNamespace) -> None:
    good = build(hot, [(NOW, b"a", None, [("h", b"v")]), (NOW, None, b"b")])
    bad = bytearray(build(hot, [(NOW, b"c", b"3", [("x", b"y")]), (NOW, b"d", b"4")]))
    bad[-2] ^= 0x40  # the last record's value is now longer than the batch
    decoder = hot.columns.ColumnDecoder(headers=True)
    decoder.add_batch(good, 0, read_header(good))
    with pytest.raises(CorruptMessageError):
        decoder.add_batch(bad, 0, read_header(bad)._replace(count=3))
    decoder.add_batch(good, 0, read_header(good))
    assert (
        as_rows(decoder.drain())
        == [
            (0, NOW, b"a", None, [("h", b"v")]),
            (1, NOW, None, b"b", []),
        ]
        * 2
    )


NOTHING_ELSE = b"\0\0\0\1"  # attributes, time, offset, no key
LENGTH_200 = b"\x90\3"


@pytest.mark.parametrize("headers", [False, True])
@pytest.mark.parametrize(
    "record",
    [
        pytest.param(NOTHING_ELSE + LENGTH_200, id="value"),
        pytest.param(NOTHING_ELSE[:3] + LENGTH_200 + b"\1", id="key"),
        pytest.param(NOTHING_ELSE + b"\1\2" + LENGTH_200 + b"\1", id="header"),
    ],
)
def test_field_longer_than_its_record_is_corrupt(hot: SimpleNamespace, headers: bool, record: bytes) -> None:
    """Buffers are sized by the bytes of a batch: a field that extends into other records would overflow them."""
    records = (bytes([2 * len(record)]) + record) * 40 + bytes(200)
    batch = bytearray(build(hot, [(NOW, None, b"")]))[:HEADER_BYTES] + records
    header = read_header(batch)._replace(length=len(batch) - 12, count=40)
    is_decoded = headers or record[5:6] != b"\2"  # headers are not decoded unless requested
    with pytest.raises(CorruptMessageError, match="of the record are left" if is_decoded else "after the last record"):
        hot.columns.ColumnDecoder(headers=headers).add_batch(batch, 0, header)


def test_more_headers_than_bytes_are_corrupt(hot: SimpleNamespace) -> None:
    record = NOTHING_ELSE + b"\1\x80\2" + bytes(4)  # 128 headers in four bytes
    batch = bytearray(build(hot, [(NOW, None, b"")]))[:HEADER_BYTES] + bytes([2 * len(record)]) + record + bytes(300)
    header = read_header(batch)._replace(length=len(batch) - 12, count=1)
    with pytest.raises(CorruptMessageError, match="128 headers in 4 bytes"):
        hot.columns.ColumnDecoder(headers=True).add_batch(batch, 0, header)


@given(data=st.binary(max_size=80), count=st.integers(-3, 12))
def test_garbage_after_a_header_is_corrupt_or_decoded_alike_compiled_and_uncompiled(
    both: tuple[SimpleNamespace, SimpleNamespace], data: bytes, count: int
) -> None:
    batch = bytearray(build(both[0], [(NOW, None, b"")]))[:HEADER_BYTES] + data
    header = read_header(batch)._replace(length=len(batch) - 12, count=count)
    outcomes: list[list[tuple[Any, ...]] | None] = []
    for hot in both:
        for decode in (
            lambda h=hot: h.decoder.decode_records(batch, 0, header),
            lambda h=hot: as_rows(_columns(h, batch, header)),
        ):
            try:
                outcomes.append([tuple(r)[:1] for r in decode()])
            except (CorruptMessageError, OverflowError, UnicodeDecodeError):
                outcomes.append(None)
    assert outcomes[0] == outcomes[2], "records"
    assert outcomes[1] == outcomes[3], "columns"


def _columns(hot: SimpleNamespace, batch: bytearray, header: BatchHeader) -> Columns:
    decoder = hot.columns.ColumnDecoder(headers=True)
    decoder.add_batch(batch, 0, header)
    columns: Columns = decoder.drain()
    return columns


def test_crc_is_checked_unless_disabled(hot: SimpleNamespace) -> None:
    data = bytearray(build(hot, [(NOW, b"a", b"1")]))
    data[-2] ^= 1
    with pytest.raises(CorruptMessageError, match="CRC"):
        hot.columns.decode_columns(data)
    assert hot.columns.decode_columns(data, check_crc=False).rows == 1
    reseal(data, 0, len(data))
    assert hot.columns.decode_columns(data).rows == 1


@given(rows=st.lists(row, min_size=1, max_size=40), data=st.data())
def test_append_columns_writes_the_same_batch_as_append(
    both: tuple[SimpleNamespace, SimpleNamespace],
    rows: list[tuple[int, bytes | None, bytes | None, Headers]],
    data: Any,
) -> None:
    bare = [(t, k, v) for t, k, v, _ in rows]
    picks = data.draw(st.lists(st.integers(0, len(bare) - 1), min_size=1, max_size=60))
    source = build(both[0], bare)
    expected = build(both[0], [bare[i] for i in picks])
    numbers = memoryview(array("q", picks))
    for hot in both:
        c = hot.columns.decode_columns(source)
        builder = hot.builder.BatchBuilder(bytearray(60_000))
        assert builder.append_columns(c.timestamps, c.keys, c.values, numbers) == len(picks)
        assert bytes(builder.close()) == expected


def test_append_list_writes_rows_like_append_columns(hot: SimpleNamespace) -> None:
    keys, vals = [b"k", None, b""], [None, b"v" * 50, b"w"]
    rows = memoryview(array("q", [2, 0, 1]))
    for timestamps in (NOW, memoryview(array("q", [NOW, NOW + 1, NOW + 2]))):
        for key_list in (keys, None):
            builder = hot.builder.BatchBuilder(bytearray(200))
            assert builder.append_list(timestamps, key_list, vals, rows) == 3
            batch = bytes(builder.close())
            decoded = hot.decoder.decode_records(batch, 0, read_header(batch))
            times = [timestamps] * 3 if isinstance(timestamps, int) else [NOW + 2, NOW, NOW + 1]
            assert [(r.timestamp, r.value) for r in decoded] == list(zip(times, [b"w", None, b"v" * 50], strict=True))
            assert [r.key for r in decoded] == ([None] * 3 if key_list is None else [b"", b"k", None])
    builder = hot.builder.BatchBuilder(bytearray(100))
    assert builder.append_list(NOW, None, vals, rows) == 2
    assert builder.append_list(NOW, None, vals, rows, 2) == 2
    with pytest.raises(IndexError, match="row 3 of 3 rows"):
        builder.append_list(NOW, None, vals, memoryview(array("q", [3])))


def test_append_columns_stops_when_the_batch_is_full(hot: SimpleNamespace) -> None:
    c = hot.columns.decode_columns(build(hot, [(NOW, None, b"x" * 50)] * 10))
    numbers = memoryview(array("q", range(10)))
    builder = hot.builder.BatchBuilder(bytearray(200))
    stop = builder.append_columns(NOW, None, c.values, numbers)
    assert stop == builder.record_count == 2
    rest = hot.builder.BatchBuilder(bytearray(2000))
    assert rest.append_columns(NOW, None, c.values, numbers, stop) == 10
    assert rest.record_count == 8


def test_row_outside_of_a_column_raises_index_error(hot: SimpleNamespace) -> None:
    c = hot.columns.decode_columns(build(hot, [(NOW, None, b"x")]))
    for wrong in (1, -1):
        with pytest.raises(IndexError):
            hot.builder.BatchBuilder(bytearray(200)).append_columns(
                NOW, None, c.values, memoryview(array("q", [wrong]))
            )


def test_arrow_arrays_and_their_slices_are_appended_as_columns(hot: SimpleNamespace) -> None:
    pa = pytest.importorskip("pyarrow")
    keys = pa.array([b"skipped", None, b"k2", b""])[1:]
    vals = pa.array(["s", "v1", None, "v3"])[1:]
    builder = hot.builder.BatchBuilder(bytearray(500))
    numbers = memoryview(array("q", range(3)))
    assert builder.append_columns(NOW, BinaryColumn.from_arrow(keys), BinaryColumn.from_arrow(vals), numbers) == 3
    actual = hot.columns.decode_columns(builder.close())
    assert column(actual.keys, 3) == [None, b"k2", b""]
    assert column(actual.values, 3) == [b"v1", None, b"v3"]
    with pytest.raises(TypeError, match="binary or string"):
        BinaryColumn.from_arrow(pa.array([1]))
