"""Reads the records inside v2 batches: a cursor over the uncompressed bytes, and records as objects.

Every length is checked against the remaining bytes before it is used. Compiled with decoder.pxd.
`column_decoder` reads the same bytes into columns, with the same cursor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

try:
    import cython
except ImportError:
    from ottla.records import _cython as cython

from ottla.errors import CorruptMessageError
from ottla.records import compression
from ottla.records.batch import HEADER_BYTES, BatchHeader, split, verify

if cython.compiled:
    from cython.cimports.ottla.records.fast_cursor import begin_record, next_size, next_varlong
else:
    from ottla.records.tuples import tuple_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

MIN_RECORD_BYTES = 7
"""The minimum size of a record, without key, value and headers: seven numbers of one byte."""


class Record(NamedTuple):
    """One record of a partition. Timestamp in milliseconds since 1970; its type 0 is CreateTime, 1 LogAppendTime."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Cursor:
    """A position in the uncompressed records of one batch, or in the encoded headers of one record."""

    __slots__ = ("data", "end", "p", "pos")

    def __init__(self, data: Buffer) -> None:
        self.data = memoryview(data).cast("B")
        self.pos = 0
        self.end = len(self.data)
        if cython.compiled:
            if self.end:
                self.p = cython.address(self.data[0])
        else:
            # bytes index and slice faster than a memoryview, and a slice of them is the value itself.
            self.p = bytes(self.data)

    def varlong(self) -> int:
        """Return the next varint of 64 bits."""
        p = self.p
        pos = self.pos
        if pos < self.end - 1:  # most have one or two bytes
            raw: int = p[pos]
            if raw < 0x80:
                self.pos = pos + 1
                return (raw >> 1) ^ -(raw & 1)
            if p[pos + 1] < 0x80:
                raw = (raw & 0x7F) | _wide(p[pos + 1]) << 7
                self.pos = pos + 2
                return (raw >> 1) ^ -(raw & 1)
        raw = 0
        shift = 0
        while pos < self.end:
            byte = p[pos]
            pos += 1
            raw |= _wide(byte & 0x7F) << shift
            if shift == 63 and byte > 1:  # beyond 64 bits
                break
            if byte < 0x80:
                self.pos = pos
                return (raw >> 1) ^ -(raw & 1)
            shift += 7
        raise CorruptMessageError(f"no varint at byte {self.pos} of {self.end} in a batch's records")

    def varint(self) -> int:
        """Return the next varint of 32 bits, which has at most five bytes, as in Java."""
        start = self.pos
        if start < self.end and self.p[start] < 0x80:  # most of them
            byte: int = self.p[start]
            self.pos = start + 1
            return (byte >> 1) ^ -(byte & 1)
        value = self.varlong()
        if self.pos - start > 5 or value > 0x7FFFFFFF or value < -0x80000000:
            raise CorruptMessageError(f"no 32-bit varint at byte {start} of {self.end} in a batch's records")
        return value

    def size32(self) -> int:
        """Return the next length as Java reads it: like `size`, but a varint of 32 bits."""
        size = self.varint()
        if size < -1 or size > self.end - self.pos:
            self.reject_size(size)
        return size

    def size(self) -> int:
        """Return the next length: -1 for null, else at most the number of remaining bytes."""
        size = self.varlong()
        if size < -1 or size > self.end - self.pos:
            self.reject_size(size)
        return size

    def begin_record(self) -> int:
        """Read a record's length, skip its attributes, and return the position where the record ends."""
        size = self.size()
        if size < 1:
            self.reject_record(size)
        self.pos += 1
        return self.pos + size - 1

    def reject_size(self, size: int) -> int:
        """Raise CorruptMessageError for a length below -1 or above the number of remaining bytes."""
        raise CorruptMessageError(f"a length of {size} where {self.end - self.pos} bytes are left in a batch")

    def reject_record(self, size: int) -> int:
        """Raise CorruptMessageError for an invalid length of a record."""
        raise CorruptMessageError(f"a record of {size} bytes")

    def read_bytes(self, size: int) -> bytes | None:
        """Return the next `size` bytes as an object; None for -1."""
        if size < 0:
            return None
        start = self.pos
        self.pos = start + size
        data: bytes = self.p[start : start + size]
        return data

    def skip(self, size: int) -> None:
        """Skip the next `size` bytes (-1: none), a number that `size()` or `size32()` has returned."""
        if size > 0:
            self.pos += size

    def header_count(self) -> int:
        """Return the number of headers that follow."""
        count = self.varlong()
        if count < 0 or count > self.end - self.pos:
            raise CorruptMessageError(f"a record with {count} headers where {self.end - self.pos} bytes are left")
        return count


if not cython.compiled:
    # In the compiled form these are inlined, from fast_cursor.pxd.
    next_varlong, next_size, begin_record = Cursor.varlong, Cursor.size, Cursor.begin_record


def _wide(value: int) -> int:
    """Widen a value to 64 bits before a shift, in the compiled form."""
    return value


def open_records(
    buf: Buffer, start: int, header: BatchHeader, max_bytes: int = compression.MAX_DECOMPRESSED_BYTES
) -> Buffer:
    """Return the uncompressed records of the batch at `start`.

    Raises the errors of `compression.decompress` (DecompressedTooLargeError for a compressed batch with more than
    `max_bytes` of records), and CorruptMessageError if the record count is impossible for the number of bytes.
    """
    view = memoryview(buf).cast("B")[start + HEADER_BYTES : start + header.size_in_bytes]
    data = view if header.codec == compression.NONE else compression.decompress(header.codec, view, max_bytes)
    if not 0 <= header.count * MIN_RECORD_BYTES <= memoryview(data).nbytes:
        raise CorruptMessageError(f"a batch with {header.count} records in {memoryview(data).nbytes} bytes")
    return data


def decode_records(buf: Buffer, start: int, header: BatchHeader, from_offset: int = 0) -> list[Record]:
    """Return the records of one whole batch from `from_offset` on.

    The CRC is not checked (see `batch.verify`). Raises the errors of `open_records`, and CorruptMessageError for a
    malformed record or if the records do not fill the batch exactly.
    """
    cursor = Cursor(open_records(buf, start, header))
    append_time = header.timestamp_type
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    max_timestamp = header.max_timestamp
    out = []
    for _ in range(header.count):
        record_end = begin_record(cursor)
        timestamp = base_timestamp + next_varlong(cursor)
        offset = base_offset + next_varlong(cursor)
        if offset < from_offset:
            cursor.pos = record_end
            continue
        key = cursor.read_bytes(next_size(cursor))
        value = cursor.read_bytes(next_size(cursor))
        headers = read_headers(cursor)
        if cursor.pos != record_end:
            raise CorruptMessageError(f"the record at offset {offset} does not fill its length")
        if append_time:
            timestamp = max_timestamp
        out.append(tuple_of(Record, (), (offset, timestamp, append_time, key, value, headers)))
    if cursor.pos != cursor.end:
        raise CorruptMessageError(f"{cursor.end - cursor.pos} bytes after the last record of a batch")
    return out


def first_headers(buf: Buffer, start: int, header: BatchHeader) -> list[tuple[str, bytes | None]]:
    """Return the headers of the first record of a batch that has records."""
    cursor = Cursor(open_records(buf, start, header))
    begin_record(cursor)
    cursor.varlong()  # the timestamp
    cursor.varlong()  # the offset
    cursor.skip(cursor.size())  # the key
    cursor.skip(cursor.size())  # the value
    return read_headers(cursor)


def read_headers(cursor: Cursor) -> list[tuple[str, bytes | None]]:
    """Read the headers of a record at the cursor."""
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(cursor.header_count()):
        name = cursor.read_bytes(cursor.size())
        if name is None:
            raise CorruptMessageError("a header without a key")
        # Java writes any string and reads with replacement; a malformed key must not block a partition.
        headers.append((name.decode("utf-8", "replace"), cursor.read_bytes(cursor.size())))
    return headers


def skip_headers(cursor: Cursor) -> int:
    """Skip the headers of a record, with the checks of `read_headers`. Return their number."""
    count = cursor.header_count()
    for _ in range(count):
        size = cursor.size()
        if size < 0:
            raise CorruptMessageError("a header without a key")
        cursor.skip(size)
        cursor.skip(cursor.size())
    return count


def records(buf: Buffer, start: int = 0, end: int | None = None, *, check_crc: bool = True) -> Iterator[Record]:
    """Yield every record of the whole batches in `buf[start:end]`, decompressed batch by batch; control batches too.

    Raises the errors of `split`, `verify` and `decode_records`.
    """
    view = memoryview(buf)[start:end]
    for header, at, _ in split(view):
        if check_crc:
            verify(view, at, header)
        yield from decode_records(view, at, header)
