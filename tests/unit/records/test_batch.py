"""Headers of record batches: splitting, assigned offsets, append time and CRC."""

from typing import Any

import pytest

from ottla.errors import CorruptMessageError
from ottla.records.batch import HEADER_BYTES, assign, read_header, split, stamp_append_time, verify
from ottla.records.builder import BatchBuilder
from ottla.records.decoder import records

NOW = 1_700_000_000_000


def batch(*values: bytes, **options: Any) -> bytearray:
    builder = BatchBuilder(bytearray(1000))
    for value in values:
        builder.append(NOW, b"key", value)
    return bytearray(builder.close(**options))


def test_split_returns_whole_batches_and_ends_at_a_partial_one() -> None:
    first, second = batch(b"1"), batch(b"2", b"3")
    actual = list(split(first + second + first[:70]))
    assert [(start, end) for _, start, end in actual] == [(0, len(first)), (len(first), len(first) + len(second))]


@pytest.mark.parametrize("tail", [b"\x00" * 40, b"\x00" * 100, b"\xff" * 100])
def test_split_of_garbage_raises_corrupt_message_error(tail: bytes) -> None:
    with pytest.raises(CorruptMessageError):
        list(split(batch(b"1") + tail))


def test_offset_and_epoch_are_assigned_without_changing_the_crc() -> None:
    data = batch(b"1", b"2")
    crc = read_header(data).crc
    assign(data, 0, 1 << 40, 17)
    header = read_header(data)
    verify(data, 0, header)
    assert (header.base_offset, header.leader_epoch, header.crc) == (1 << 40, 17, crc)
    assert [r.offset for r in records(data)] == [1 << 40, (1 << 40) + 1]


def test_stamp_append_time_updates_the_crc() -> None:
    data = batch(b"1", b"2")
    stamp_append_time(data, 0, read_header(data), NOW + 5)
    header = read_header(data)
    verify(data, 0, header)
    assert header.timestamp_type == 1
    assert [(r.timestamp, r.timestamp_type) for r in records(data)] == [(NOW + 5, 1)] * 2


@pytest.mark.parametrize("position", [21, 30, HEADER_BYTES, -1])
def test_changed_byte_covered_by_the_crc_fails_verification(position: int) -> None:
    data = batch(b"1")
    data[position] ^= 1
    with pytest.raises(CorruptMessageError):
        verify(data, 0, read_header(data))


def test_truncated_batch_fails_verification() -> None:
    data = batch(b"1")
    with pytest.raises(CorruptMessageError, match="are there"):
        verify(data[:-1], 0, read_header(data))


def test_impossible_record_count_is_corrupt() -> None:
    data = batch(b"1")
    with pytest.raises(CorruptMessageError):
        list(records(data[:57] + (1_000_000).to_bytes(4, "big") + data[61:], check_crc=False))
