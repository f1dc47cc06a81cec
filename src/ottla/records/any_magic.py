"""One interface to batches of every message format, with which storage reads logs.

A message of format 0 or 1 counts as a batch, a compressed one including its inner messages. Such a batch has no leader
epoch and no producer, and its header has only the offset of its last record, in `base_offset`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, Final

from ottla.errors import CorruptMessageError
from ottla.records import batch, decoder
from ottla.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ottla.records.decoder import Record

MIN_BATCH_BYTES: Final = 26
"""The smallest batch of any format: a message of format 0 without key and value."""

_HEAD = Struct(">qiIbb")
_TIMESTAMP = Struct(">q")
_TIMESTAMP_POSITION: Final = 18
_MIN_SIZE: Final = (14, 22)
"""The minimum `size` of a message, by format."""


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Return the header of the batch at `pos`. Raises CorruptMessageError if the bytes cannot be a batch.

    `buf` must have at least 61 bytes of a batch of format 2, or 26 bytes of an older one.
    """
    if memoryview(buf)[pos + MAGIC_POSITION] == MAGIC:
        return batch.read_header(buf, pos)
    offset, size, crc, magic, attributes = _HEAD.unpack_from(buf, pos)
    if magic not in (0, 1) or size < _MIN_SIZE[magic]:
        raise CorruptMessageError(f"no batch: message format {magic} and size {size}")
    timestamp = _TIMESTAMP.unpack_from(buf, pos + _TIMESTAMP_POSITION)[0] if magic == 1 else -1
    attributes &= CODEC_MASK | TIMESTAMP_TYPE_MASK if magic == 1 else CODEC_MASK
    return BatchHeader(
        offset, size, NO_LEADER_EPOCH, magic, crc, attributes, 0, timestamp, timestamp,
        NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, 1,
    )  # fmt: skip


def begins_in(buf: Buffer, pos: int, room: int) -> bool:
    """Return whether the `room` bytes at `pos` are enough for `read_header`."""
    return room >= HEADER_BYTES or (room >= MIN_BATCH_BYTES and memoryview(buf)[pos + MAGIC_POSITION] != MAGIC)


def split(buf: Buffer) -> Iterator[tuple[BatchHeader, int, int]]:
    """Yield (header, start, end) of every whole batch in `buf`. A partial last batch is ignored.

    Raises the errors of `read_header`.
    """
    size = memoryview(buf).nbytes
    pos = 0
    while begins_in(buf, pos, size - pos):
        header = read_header(buf, pos)
        end = pos + header.length + LOG_OVERHEAD
        if end > size:
            return
        yield header, pos, end
        pos = end


def verify(buf: Buffer, start: int, header: BatchHeader) -> None:
    """Check that the batch at `start` is complete, its CRC is correct and, in format 2, its record count and last
    offset delta are not negative. Raises CorruptMessageError otherwise.
    """
    if header.magic == MAGIC:
        batch.verify(buf, start, header)
        return
    end = start + header.size_in_bytes
    view = memoryview(buf)
    if end > view.nbytes or zlib.crc32(view[start + MAGIC_POSITION : end]) != header.crc:
        raise CorruptMessageError(f"the message at offset {header.last_offset} fails its CRC")


def decode_records(buf: Buffer, start: int, header: BatchHeader, from_offset: int = 0) -> list[Record]:
    """Return the records of one whole batch from `from_offset` on. The CRC is checked only for formats 0 and 1.

    Raises CorruptMessageError if they are malformed, and UnsupportedCompressionTypeError for an unknown codec.
    """
    if header.magic == MAGIC:
        return decoder.decode_records(buf, start, header, from_offset)
    from ottla.records import legacy_message_set

    decoded = legacy_message_set.records(memoryview(buf)[start : start + header.size_in_bytes])
    return [record for record in decoded if record.offset >= from_offset]
