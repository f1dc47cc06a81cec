"""The v2 record batch as a whole: its 61-byte header, its checksum, and the fields that a broker changes in place.

base offset 8 · length 4 · leader epoch 4 · magic 1 · CRC 4 · attributes 2 · last offset delta 4 · base timestamp
    8 · max timestamp 8 · producer id 8 · producer epoch 2 · base sequence 4 · record count 4 · records

The CRC covers all bytes after it. Base offset and leader epoch precede it, so the broker can set them without reading
the records. `length` counts the bytes after itself: a batch takes `length + 12` bytes.

Modules such as `decoder` and `column_decoder` decode the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.errors import CorruptMessageError
from ottla.records.crc import crc32c

if TYPE_CHECKING:
    from typing_extensions import Buffer

HEADER_BYTES: Final = 61
"""Bytes of a v2 batch before its records."""
LOG_OVERHEAD: Final = 12
"""Number of bytes of the fields base offset and length, which the value of `length` does not include."""
MAGIC: Final = 2
"""The message format of this module; 0 and 1 are in `legacy_message_set`."""
MAGIC_POSITION: Final = 16
"""Position of the magic byte, the same in every message format."""

CRC_POSITION: Final = 17
CRC_START: Final = 21
"""The first byte that the CRC covers."""
ATTRIBUTES_POSITION: Final = 21
MAX_TIMESTAMP_POSITION: Final = 35
PRODUCER_ID_POSITION: Final = 43

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_MASK: Final = 0x08
TRANSACTIONAL_MASK: Final = 0x10
CONTROL_MASK: Final = 0x20
DELETE_HORIZON_MASK: Final = 0x40

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1

_HEADER = Struct(">qiibIhiqqqhii")
_SIZE = Struct(">qi")
_ASSIGN_OFFSET = Struct(">q")
_ASSIGN_EPOCH = Struct(">i")
_INT16 = Struct(">h")
_UINT32 = Struct(">I")
_INT64 = Struct(">q")


class BatchHeader(NamedTuple):
    """The fields of a v2 batch header, in their order on disk. Timestamps are milliseconds since 1970."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # Kafka's name; nothing uses tuple.count

    @property
    def last_offset(self) -> int:
        """Offset of the last record, even if compaction has removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size_in_bytes(self) -> int:
        """Size of the whole batch in bytes."""
        return self.length + LOG_OVERHEAD

    @property
    def codec(self) -> int:
        """The codec's id, see `compression.CODECS`."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """The timestamp type: 0 (CreateTime) or 1 (LogAppendTime)."""
        return (self.attributes & TIMESTAMP_TYPE_MASK) >> 3

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction, as its records or its marker."""
        return bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a control record, such as a transaction marker, instead of a user's records."""
        return bool(self.attributes & CONTROL_MASK)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp is the time at which tombstones and markers may be deleted (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON_MASK)

    @property
    def has_producer_id(self) -> bool:
        """Whether the batch has the id of an idempotent or transactional producer."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; -1 if the batch has none. Sequences wrap from 2^31-1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Return the header at `pos`.

    `buf` must have all of its 61 bytes. Raises CorruptMessageError if it cannot be the header of a v2 batch.
    """
    header = BatchHeader._make(_HEADER.unpack_from(buf, pos))
    if header.magic != MAGIC:
        raise CorruptMessageError(f"expected a batch of message format 2, not {header.magic}")
    if header.length < HEADER_BYTES - LOG_OVERHEAD:
        raise CorruptMessageError(f"a batch length of {header.length} is less than its header")
    return header


def split(buf: Buffer) -> Iterator[tuple[BatchHeader, int, int]]:
    """Yield (header, start, end) of every whole batch in `buf`. A partial last batch is ignored, as in a fetch.

    Raises CorruptMessageError for a header that cannot be that of a v2 batch; of an incomplete header, at most the
    length is checked.
    """
    size = memoryview(buf).nbytes
    pos = 0
    while size - pos >= HEADER_BYTES:
        header = read_header(buf, pos)
        end = pos + header.length + LOG_OVERHEAD
        if end > size:
            return
        yield header, pos, end
        pos = end
    if size - pos > MAGIC_POSITION:
        _check_partial(buf, pos)


def _check_partial(buf: Buffer, pos: int) -> None:
    """Reject a partial batch whose length field is too small for any batch."""
    _, length = _SIZE.unpack_from(buf, pos)
    if length < HEADER_BYTES - LOG_OVERHEAD:
        raise CorruptMessageError(f"a batch length of {length} is less than its header")


def verify(buf: Buffer, start: int, header: BatchHeader) -> None:
    """Check that the batch at `start` is complete, its record count and last offset delta are not negative, and its CRC
    is correct. Raises CorruptMessageError otherwise.
    """
    view = memoryview(buf)
    end = start + header.length + LOG_OVERHEAD
    if end > view.nbytes:
        raise CorruptMessageError(f"the batch takes {end - start} bytes and {view.nbytes - start} are there")
    if header.last_offset_delta < 0 or header.count < 0:
        raise CorruptMessageError(
            f"a batch with record count {header.count} and last offset delta {header.last_offset_delta}"
        )
    verify_crc(view, start, header)


def verify_crc(view: memoryview, start: int, header: BatchHeader) -> None:
    """Check the CRC of the batch at `start`, which must be complete. Raises CorruptMessageError if it is wrong."""
    computed = crc32c(view[start + CRC_START : start + header.length + LOG_OVERHEAD], 0)
    if computed != header.crc:
        raise CorruptMessageError(
            f"the batch at offset {header.base_offset} has CRC {header.crc:#010x}, its bytes give {computed:#010x}"
        )


def assign(buf: Buffer, start: int, base_offset: int, leader_epoch: int) -> None:
    """Set base offset and leader epoch of the batch at `start`, in place. The CRC does not cover them."""
    _ASSIGN_OFFSET.pack_into(buf, start, base_offset)
    _ASSIGN_EPOCH.pack_into(buf, start + LOG_OVERHEAD, leader_epoch)


def stamp_append_time(buf: Buffer, start: int, header: BatchHeader, now_ms: int) -> None:
    """Set the timestamp type of the batch at `start` to LogAppendTime and its max timestamp to `now_ms`, in place, and
    update the CRC.
    """
    _INT16.pack_into(buf, start + ATTRIBUTES_POSITION, header.attributes | TIMESTAMP_TYPE_MASK)
    _INT64.pack_into(buf, start + MAX_TIMESTAMP_POSITION, now_ms)
    reseal(buf, start, header.size_in_bytes)


def set_max_timestamp(buf: Buffer, start: int, header: BatchHeader, timestamp: int) -> None:
    """Set the max timestamp of the batch at `start`, in place, and update the CRC."""
    _INT64.pack_into(buf, start + MAX_TIMESTAMP_POSITION, timestamp)
    reseal(buf, start, header.size_in_bytes)


def reseal(buf: Buffer, start: int, size_in_bytes: int) -> None:
    """Compute and write the CRC of the batch at `start`, after a change of the bytes that it covers."""
    _UINT32.pack_into(buf, start + CRC_POSITION, crc32c(memoryview(buf)[start + CRC_START : start + size_in_bytes], 0))


def write_header(buf: Buffer, start: int, header: BatchHeader) -> None:
    """Write the fields of `header` at `start`, except for the CRC, which is computed.

    The records, up to `header.size_in_bytes` bytes from `start`, must already be in place.
    """
    _HEADER.pack_into(buf, start, *header)
    reseal(buf, start, header.size_in_bytes)
