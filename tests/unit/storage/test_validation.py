"""Validation of batches from producers: header fields are checked against the records."""

import gzip
import struct
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.storage.conftest import NOW, batch, contents, values

from ottla.errors import (
    CorruptMessageError,
    InvalidRecordError,
    MessageTooLargeError,
    UnsupportedCompressionTypeError,
)
from ottla.records import compression
from ottla.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    read_header,
    reseal,
    set_max_timestamp,
)
from ottla.storage.log import Log
from ottla.storage.validation import single_batch

YEAR_MS = 365 * 86_400_000
COUNT_POSITION = 57
LAST_OFFSET_DELTA_POSITION = 23
CODECS = list(compression.CODEC_IDS.values())


def forged(data: memoryview, **fields: Any) -> memoryview:
    """Return the batch with other header fields and a matching CRC."""
    for position, layout, value in fields.values():
        struct.pack_into(layout, data, position, value)
    reseal(data, 0, len(data))
    return data


@pytest.mark.parametrize("codec", CODECS)
def test_max_timestamp_in_the_header_is_corrected_from_the_records(make_log: Callable[..., Log], codec: int) -> None:
    log = make_log()
    for claimed in (NOW + 100 * YEAR_MS, NOW - YEAR_MS, -1):
        data = batch((NOW - 5, b"k", b"a"), (NOW, b"k", b"b"), (NOW - 9, b"k", b"c"), codec=codec)
        set_max_timestamp(data, 0, read_header(data), claimed)
        log.append(data, leader_epoch=1)
    assert [header.max_timestamp for header, _ in log.batches_from(0)] == [NOW] * 3
    assert log.active.latest().timestamp == NOW
    assert len(contents(log)) == 9


def test_forged_record_count_is_rejected_and_does_not_roll_segments(make_log: Callable[..., Log]) -> None:
    log = make_log()
    for _ in range(3):
        forged_count = (1 << 31) - 1
        data = forged(
            batch(b"a"),
            count=(COUNT_POSITION, ">i", forged_count),
            last=(LAST_OFFSET_DELTA_POSITION, ">i", forged_count - 1),
        )
        with pytest.raises(InvalidRecordError):
            log.append(data, leader_epoch=1)
    assert len(log.segments) == 1
    assert log.log_end_offset == 0


@pytest.mark.parametrize("codec", CODECS[1:])
def test_batch_that_decompresses_beyond_the_limit_is_too_large(make_log: Callable[..., Log], codec: int) -> None:
    log = make_log()
    log.config = log.config._replace(max_decompressed_bytes=100_000)
    log.append(batch(bytes(90_000), codec=codec), leader_epoch=1)
    with pytest.raises(MessageTooLargeError, match=r"message\.max\.decompressed\.bytes=100000"):
        log.append(batch(bytes(110_000), codec=codec), leader_epoch=1)
    assert log.log_end_offset == 1


@pytest.mark.parametrize("codec", CODECS[1:])
def test_damaged_compressed_data_is_an_invalid_record(make_log: Callable[..., Log], codec: int) -> None:
    log = make_log()
    data = batch(b"value" * 100, codec=codec)
    for cut in (1, 5, len(data) - HEADER_BYTES - 1):
        damaged = memoryview(bytearray(data[: len(data) - cut]))
        struct.pack_into(">i", damaged, 8, len(damaged) - 12)
        reseal(damaged, 0, len(damaged))
        with pytest.raises(InvalidRecordError):
            log.append(damaged, leader_epoch=1)
    log.append(data, leader_epoch=1)
    assert values(log) == [b"value" * 100]


def test_unknown_codec_raises_unsupported_compression_type(make_log: Callable[..., Log]) -> None:
    log = make_log()
    for codec in (5, 6, 7):
        with pytest.raises(UnsupportedCompressionTypeError):
            log.append(forged(batch(b"a"), codec=(ATTRIBUTES_POSITION, ">h", codec)), leader_epoch=1)


def test_nonzero_base_offset_of_a_producer_is_an_invalid_record(make_log: Callable[..., Log]) -> None:
    with pytest.raises(InvalidRecordError, match="base offset 5"):
        make_log().append(batch(b"a", base_offset=5), leader_epoch=1)


def test_gzip_with_several_members_is_an_invalid_record(make_log: Callable[..., Log]) -> None:
    one = batch(b"a", codec=compression.GZIP)
    data = memoryview(bytearray(bytes(one) + gzip.compress(b"")))
    struct.pack_into(">i", data, 8, len(data) - 12)
    with pytest.raises(InvalidRecordError, match="first member"):
        make_log().append(forged(data), leader_epoch=1)


def test_single_batch_drops_a_truncated_batch_after_it() -> None:
    data = bytes(batch(b"a"))
    for tail in (b"", b"tail", data[:16], data[:-1]):
        assert single_batch(memoryview(data + tail)) == data
    for wrong in (b"", b"12345678901", data[:-1], data + data):
        with pytest.raises(InvalidRecordError):
            single_batch(memoryview(wrong))
    for wrong in (bytes(100), data + bytes(30), data[:16] + b"\x03" + data[17:]):
        with pytest.raises(CorruptMessageError):
            single_batch(memoryview(wrong))
