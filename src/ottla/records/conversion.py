"""Conversion between message formats: up to v2, the only one that the consumer reads, and down to format 0 or 1, for
consumers older than Kafka 0.11 and topics with an older `message.format.version`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Final

from ottla.errors import CorruptMessageError, KafkaError, UnsupportedCompressionTypeError
from ottla.records import any_magic, legacy_message_set
from ottla.records.batch import LOG_OVERHEAD, MAGIC, MAGIC_POSITION
from ottla.records.builder import BatchBuilder, record_size_upper_bound
from ottla.records.compression import MAX_DECOMPRESSED_BYTES, ZSTD
from ottla.records.decoder import Record
from ottla.records.legacy_message_set import encode_set

if TYPE_CHECKING:
    from typing_extensions import Buffer

ROWS_PER_BATCH: Final = 1000
"""The maximum number of old messages in one batch."""


def up_converted(data: memoryview, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> memoryview:
    """Convert the messages of formats 0 and 1, from before 0.11, in fetched bytes to v2 batches.

    Only messages before the first v2 batch are converted. If a message is malformed, or its offset is not above the
    last one, only the messages before it are converted, and the bytes from that message on are left out. If there are
    none before it, the error is raised, except for some sizes that are too small. `max_bytes` limits the decompressed
    size of one message.
    """
    if data.nbytes <= MAGIC_POSITION or data[MAGIC_POSITION] == MAGIC:
        return data
    end = _end_of_old_messages(data)
    converted = bytearray()
    rows, is_whole = _readable(data[:end], max_bytes)
    for append_time, some in _alike(rows):
        room = sum(record_size_upper_bound(len(r.key or b""), len(r.value or b"")) for r in some)
        builder = BatchBuilder(bytearray(room), base_offset=some[0].offset)
        for r in some:
            assert builder.append_at(r.offset, r.timestamp, r.key, r.value), "the bound was too low"
        converted += builder.close(append_time_ms=append_time)
    rest = data[end:] if is_whole else data[:0]
    if rest.nbytes > MAGIC_POSITION and rest[MAGIC_POSITION] == MAGIC:
        converted += rest
    return memoryview(converted)


def _readable(data: memoryview, max_bytes: int) -> tuple[list[Record], bool]:
    """Return the records before the first error, and whether there is no error. Raise the error if there are no records
    before it.
    """
    rows: list[Record] = []
    try:
        for row in legacy_message_set.records(data, max_bytes):
            if rows:
                legacy_message_set.check_follows(row.offset, rows[-1].offset)
            rows.append(row)  # keep the rows before an error
    except KafkaError:
        if not rows:
            raise
        return rows, False
    return rows, True


def _alike(rows: list[Record]) -> Iterator[tuple[int | None, list[Record]]]:
    """Group rows into batches: at most `ROWS_PER_BATCH` each, and only one append time per batch."""
    for append_time, run in groupby(rows, lambda row: row.timestamp if row.timestamp_type else None):
        same = list(run)
        for first in range(0, len(same), ROWS_PER_BATCH):
            yield append_time, same[first : first + ROWS_PER_BATCH]


def _end_of_old_messages(data: memoryview) -> int:
    pos = 0
    while data.nbytes - pos > MAGIC_POSITION and data[pos + MAGIC_POSITION] < MAGIC:
        size = int.from_bytes(data[pos + 8 : pos + LOG_OVERHEAD], "big", signed=True)
        if size < 0 and pos == 0:
            raise CorruptMessageError(f"the size of a message is {size}")
        if size < 0 or pos + LOG_OVERHEAD + size > data.nbytes:
            break
        pos += LOG_OVERHEAD + size
    return pos


def down_converted(buf: Buffer, magic: int, from_offset: int = 0) -> bytes:
    """Convert batches of any format to a message set of format 0 or 1.

    Batches in format `magic` or an older one stay as they are. Other batches keep offsets, keys, values and codecs, but
    lose headers, producer ids and, in format 0, timestamps. Control batches and batches before `from_offset` are left
    out. From a converted batch, records before `from_offset` are left out, so that a fetch that starts within a batch
    is not larger than necessary.

    Raises CorruptMessageError for a malformed header or if a batch to convert is damaged, and
    UnsupportedCompressionTypeError if its codec is unknown, or zstd, which these formats do not have.
    """
    out = bytearray()
    for header, start, end in any_magic.split(buf):
        if header.is_control or header.next_offset <= from_offset:
            continue
        if header.magic <= magic:
            out += memoryview(buf)[start:end]
            continue
        any_magic.verify(buf, start, header)
        if header.codec == ZSTD:
            raise UnsupportedCompressionTypeError("records compressed with zstd need a consumer of 2.1 or later")
        decoded = any_magic.decode_records(buf, start, header, from_offset)
        if decoded:
            out += encode_set(decoded, header.attributes, magic)
    return bytes(out)
