"""Message sets of magic 0 and 1: down-conversion, up-conversion, and malformed messages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import (
    CorruptMessageError,
    InvalidRecordError,
    MessageTooLargeError,
    UnsupportedCompressionTypeError,
)
from ottla.records import compression, legacy_message_set
from ottla.records.batch import read_header, split
from ottla.records.builder import BatchBuilder
from ottla.records.conversion import down_converted
from ottla.records.decoder import records

NOW = 1_700_000_000_000
rows = st.lists(
    st.tuples(st.integers(0, 1 << 50), st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=40)),
    min_size=1,
    max_size=12,
)


def batch(
    rows: list[tuple[int, bytes | None, bytes | None]],
    codec: int = compression.NONE,
    base_offset: int = 0,
    **options: Any,
) -> bytes:
    builder = BatchBuilder(bytearray(50_000), codec, base_offset=base_offset)
    for row in rows:
        assert builder.append(*row)
    return bytes(builder.close(**options))


@given(rows=rows, codec=st.integers(0, 3), magic=st.integers(0, 1), base=st.integers(0, 1 << 40))
def test_down_conversion_and_up_conversion_round_trip(
    rows: list[tuple[int, bytes | None, bytes | None]], codec: int, magic: int, base: int
) -> None:
    old = down_converted(batch(rows, codec, base), magic)
    assert legacy_message_set.magic_of(old) == magic
    actual = list(legacy_message_set.records(old))
    assert [r.offset for r in actual] == list(range(base, base + len(rows)))
    expected = [(t if magic else -1, k, v) for t, k, v in rows]
    assert [(r.timestamp, r.key, r.value) for r in actual] == expected
    up = legacy_message_set.to_batches(old)
    assert [(r.timestamp, r.key, r.value) for r in records(up)] == expected
    assert read_header(up).codec == codec


def test_down_conversion_omits_records_before_the_offset() -> None:
    data = batch([(NOW, None, b"%d" % i) for i in range(5)], compression.GZIP, 10)
    assert [r.offset for r in legacy_message_set.records(down_converted(data, 1, 13))] == [13, 14]
    assert down_converted(data, 1, 15) == b""


def test_down_conversion_omits_control_batches() -> None:
    control = batch([(NOW, b"\0\0\0\1", b"")], control=True, transactional=True, producer_id=1, producer_epoch=0)
    assert down_converted(control, 1) == b""


def test_down_conversion_preserves_log_append_time() -> None:
    for codec in (compression.NONE, compression.SNAPPY):
        data = batch([(NOW, None, b"a"), (NOW, None, b"b")], codec, append_time_ms=NOW + 9)
        actual = list(legacy_message_set.records(down_converted(data, 1)))
        assert [(r.timestamp, r.timestamp_type) for r in actual] == [(NOW + 9, 1)] * 2


def test_down_conversion_of_zstd_raises_unsupported_compression_type() -> None:
    with pytest.raises(UnsupportedCompressionTypeError, match="zstd"):
        down_converted(batch([(NOW, None, b"a")], compression.ZSTD), 1)


def test_uncompressed_and_compressed_messages_are_up_converted_to_one_batch() -> None:
    plain = [legacy_message_set.encode(i, NOW, None, b"%d" % i, 1) for i in range(2)]
    packed = down_converted(batch([(NOW, None, b"2"), (NOW, None, b"3")], compression.LZ4), 1)
    for produced, codec, values in (
        (plain[0] + plain[1], 0, [b"0", b"1"]),
        (packed, compression.LZ4, [b"2", b"3"]),
    ):
        up = legacy_message_set.to_batches(produced)
        assert [(h.codec, h.count) for h, _, _ in split(up)] == [(codec, 2)]
        assert [r.value for r in records(up)] == values


def test_compressed_message_beside_others_is_an_invalid_record() -> None:
    plain = legacy_message_set.encode(0, NOW, None, b"0", 1)
    packed = down_converted(batch([(NOW, None, b"2"), (NOW, None, b"3")], compression.LZ4), 1)
    for produced in (
        plain + packed,
        packed + plain,
        packed + packed,
        plain + legacy_message_set.encode(0, NOW, None, b"0", 0),
    ):
        with pytest.raises(InvalidRecordError):
            legacy_message_set.to_batches(produced)


def test_compressed_message_above_the_limit_is_too_large() -> None:
    packed = down_converted(batch([(NOW, None, bytes(20_000))], compression.GZIP), 1)
    with pytest.raises(MessageTooLargeError):
        legacy_message_set.to_batches(packed, 10_000)
    assert legacy_message_set.to_batches(packed, 30_000)
    with pytest.raises(MessageTooLargeError):
        legacy_message_set.to_batches(packed, 10)


@pytest.mark.parametrize("magic", [0, 1])
def test_every_flipped_bit_is_detected(magic: int) -> None:
    good = legacy_message_set.encode(0, NOW, b"key", b"value", magic)
    for i in range(8 * 8, 8 * len(good)):
        bad = bytearray(good)
        bad[i // 8] ^= 1 << (i % 8)
        with pytest.raises((CorruptMessageError, InvalidRecordError)):
            legacy_message_set.to_batches(bad)


@given(data=st.binary(max_size=100))
def test_garbage_is_corrupt(data: bytes) -> None:
    with pytest.raises((CorruptMessageError, InvalidRecordError)):
        legacy_message_set.to_batches(data)


@pytest.mark.parametrize("cut", [1, 10, 25])
def test_truncated_message_at_the_end_of_a_set_is_omitted(cut: int) -> None:
    one = legacy_message_set.encode(0, NOW, b"key", b"value", 1)
    data = one + one[:-cut]
    assert len(list(legacy_message_set.records(data))) == 1
    assert len(list(records(legacy_message_set.to_batches(data)))) == 1
    with pytest.raises(InvalidRecordError):
        legacy_message_set.to_batches(one[:-cut])
