"""Builds v2 batches: each record is encoded directly into the batch's buffer.

The producer's hot path. In the compiled form, `append` creates no temporary objects for a key and value of bytes
without headers. Compiled by Cython with builder.pxd; without a compiler the same code runs as plain Python, about 15
times slower.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

try:
    import cython
except ImportError:
    from ottla.records import _cython as cython

from ottla.errors import IllegalStateError
from ottla.records import compression
from ottla.records.batch import (
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    write_header,
)
from ottla.records.varint import append_varlong

if cython.compiled:
    from cython.cimports.ottla.records.fast_varint import put_varlong, varlong_size
else:
    from ottla.records.varint import put
    from ottla.records.varint import size_of_varlong as varlong_size
    from ottla.records.varint import write_varlong as put_varlong

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ottla.records.columns import BinaryColumn

Headers = Iterable[tuple[str, bytes | None]]

NO_HEADERS = b"\x00"
MAX_RECORD_OVERHEAD = 5 + 10 + 5 + 5 + 5 + 5 + 1
"""The maximum size of the lengths, deltas, header count and attributes of one record, in bytes."""
MAX_TIMESTAMP = (1 << 63) - 1


def encode_headers(headers: Headers) -> bytes:
    """Encode the headers of a record: their count, then each key and value."""
    out = bytearray()
    count = 0
    for name, value in headers:
        raw = name.encode()
        append_varlong(out, len(raw))
        out += raw
        append_varlong(out, -1 if value is None else len(value))
        out += value or b""
        count += 1
    head = bytearray()
    append_varlong(head, count)
    return bytes(head + out)


def record_size_upper_bound(key_len: int, value_len: int, headers: Headers = ()) -> int:
    """Return an upper bound, in bytes, for the uncompressed size of a batch with only this record, including the batch
    header.

    A missing key or value counts as length 0. Kafka's `estimateSizeInBytesUpperBound`.
    """
    return (
        HEADER_BYTES + MAX_RECORD_OVERHEAD + key_len + value_len + len(encode_headers(headers) if headers else b"\x00")
    )


class BatchBuilder:
    """Builds one batch in a buffer that the caller owns.

    The buffer is written from its start and never resized: a record that does not fit is rejected. Not thread-safe.
    """

    __slots__ = (
        "base_offset",
        "base_timestamp",
        "buffer",
        "codec",
        "count",
        "delete_horizon_ms",
        "largest",
        "last_delta",
        "level",
        "limit",
        "max_timestamp",
        "position",
    )

    def __init__(
        self,
        buffer: bytearray,
        codec: int = compression.NONE,
        *,
        level: int | None = None,
        base_offset: int = 0,
        delete_horizon_ms: int | None = None,
    ) -> None:
        self.reset(buffer, codec, level=level, base_offset=base_offset, delete_horizon_ms=delete_horizon_ms)

    def reset(
        self,
        buffer: bytearray,
        codec: int = compression.NONE,
        *,
        level: int | None = None,
        base_offset: int = 0,
        delete_horizon_ms: int | None = None,
    ) -> None:
        """Start a new batch in `buffer`. Its first 61 bytes are for the header, the others for records.

        `delete_horizon_ms` (compaction only) is the batch's base timestamp, which an attribute marks (KIP-534).
        """
        if len(buffer) < HEADER_BYTES:
            raise ValueError(f"a batch takes at least {HEADER_BYTES} bytes, the buffer has {len(buffer)}")
        self.buffer: bytearray = buffer
        self.codec: int = codec
        self.level: int | None = level
        self.base_offset: int = base_offset
        self.limit: int = len(buffer)
        self.position: int = HEADER_BYTES
        self.count: int = 0
        self.last_delta: int = -1
        self.largest: int = 0
        self.delete_horizon_ms: int | None = delete_horizon_ms
        self.base_timestamp: int = -1 if delete_horizon_ms is None else delete_horizon_ms
        self.max_timestamp: int = -1

    @property
    def estimated_size(self) -> int:
        """The current size of the batch in bytes, including the header, before compression."""
        return self.position

    @property
    def record_count(self) -> int:
        """The number of records so far."""
        return self.count

    def has_room_for(self, key: Buffer | None, value: Buffer | None, headers: Headers = ()) -> bool:
        """Return whether a record with this key, value and headers fits in any case, whatever its timestamp and
        offset.
        """
        size = record_size_upper_bound(_size(key), _size(value), headers) - HEADER_BYTES
        return self.position + size <= self.limit

    def append(self, timestamp: int, key: Buffer | None, value: Buffer | None, headers: Headers | None = None) -> bool:
        """Add a record (timestamp in ms since 1970). Return False, without a change, if it does not fit."""
        tail = NO_HEADERS if not headers else encode_headers(headers)
        if key is not None and type(key) is not bytes:
            key = bytes(key)
        if value is not None and type(value) is not bytes:
            value = bytes(value)
        if not cython.compiled:
            _check_int64(timestamp)
        return self._append(self.base_offset + self.last_delta + 1, timestamp, key, value, tail)

    def append_at(
        self,
        offset: int,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Headers | None = None,
    ) -> bool:
        """Append a record with an offset that need not follow directly on the last one, as in compacted logs.

        Return False if the record does not fit. Raises ValueError if the offset is not above the last one, is below the
        batch's base offset, or exceeds that by more than 2^31-1.
        """
        last_delta = self.last_delta
        if offset <= self.base_offset + last_delta:
            raise ValueError(f"offset {offset} cannot follow in a batch that begins at {self.base_offset}")
        self.last_delta = offset - self.base_offset - 1
        fits = False
        try:
            fits = self.append(timestamp, key, value, headers)
        finally:
            if not fits:
                self.last_delta = last_delta
        return fits

    def _append(self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, tail: bytes) -> bool:
        key_size = -1 if key is None else len(key)
        value_size = -1 if value is None else len(value)
        tail_size = len(tail)
        pos = self._begin(offset, timestamp, key_size, value_size, tail_size)
        if pos < 0:
            return False
        p = self.buffer
        pos = put_varlong(p, pos, key_size)
        if key is not None:
            pos = put(p, pos, key, 0, key_size)
        pos = put_varlong(p, pos, value_size)
        if value is not None:
            pos = put(p, pos, value, 0, value_size)
        self.position = put(p, pos, tail, 0, tail_size)
        return True

    def _begin(self, offset: int, timestamp: int, key_size: int, value_size: int, tail_size: int) -> int:
        """Write a record's length, attributes and deltas if the whole record fits. Return the position after them,
        or -1 if it does not fit.
        """
        base = timestamp if self.count == 0 and self.delete_horizon_ms is None else self.base_timestamp
        time_delta = timestamp - base
        delta = offset - self.base_offset
        if delta <= self.last_delta or delta > 0x7FFFFFFF:
            raise ValueError(f"offset {offset} cannot follow in a batch that begins at {self.base_offset}")
        body = 1 + varlong_size(time_delta) + varlong_size(delta) + tail_size
        body += varlong_size(key_size) + max(key_size, 0) + varlong_size(value_size) + max(value_size, 0)
        if body > self.limit - self.position - varlong_size(body):
            return -1
        p = self.buffer
        pos: int = put_varlong(p, self.position, body)
        p[pos] = 0
        pos = put_varlong(p, pos + 1, time_delta)
        pos = put_varlong(p, pos, delta)
        self.base_timestamp = base
        if timestamp > self.max_timestamp or self.count == 0:
            self.max_timestamp = timestamp
        self.count += 1
        self.last_delta = delta
        if body > self.largest:
            self.largest = body
        return pos

    def append_list(
        self,
        timestamps: memoryview | int,
        keys: list[bytes | None] | None,
        values: list[bytes | None],
        rows: memoryview,
        start: int = 0,
    ) -> int:
        """Add rows like `append_columns`, but from lists of keys and values."""
        fixed_time = isinstance(timestamps, int)
        fixed = timestamps if isinstance(timestamps, int) else 0
        times = memoryview(_ONE_TIME) if isinstance(timestamps, int) else timestamps
        row_numbers = rows
        row_count = len(values) if keys is None else min(len(keys), len(values))
        key = None
        for i in range(start, len(row_numbers)):
            row = row_numbers[i]
            if row < 0 or row >= row_count:
                raise IndexError(f"row {row} of {row_count} rows")
            if keys is not None:
                key = keys[row]
            timestamp = fixed if fixed_time else times[row]
            if not self._append(self.base_offset + self.last_delta + 1, timestamp, key, values[row], NO_HEADERS):
                return i
        return len(row_numbers)

    def append_columns(
        self,
        timestamps: memoryview | int,
        keys: BinaryColumn | None,
        values: BinaryColumn,
        rows: memoryview,
        start: int = 0,
    ) -> int:
        """Add the rows with the numbers in `rows[start:]`, without an object per record. `keys`: None for null keys.

        `rows` is a memoryview of format "q" (int64) with row numbers, such as the rows of one partition. `timestamps`
        is a memoryview of format "q" with a timestamp per row, or one timestamp for all. Returns the index in `rows`
        of the first row that did not fit; the length of `rows` if all did.
        """
        if keys is None:
            keys = values._replace(validity=None)
            with_keys = False
        else:
            with_keys = True
        fixed_time = isinstance(timestamps, int)
        fixed = timestamps if isinstance(timestamps, int) else 0
        times = memoryview(_ONE_TIME) if isinstance(timestamps, int) else timestamps
        row_numbers = rows
        k = _ColumnReader(keys)
        v = _ColumnReader(values)
        p = self.buffer
        for i in range(start, len(row_numbers)):
            row = row_numbers[i]
            timestamp = fixed if fixed_time else times[row]
            key_size = k.find(row) if with_keys else -1
            value_size = v.find(row)
            pos = self._begin(self.base_offset + self.last_delta + 1, timestamp, key_size, value_size, 1)
            if pos < 0:
                return i
            pos = put_varlong(p, pos, key_size)
            if key_size > 0:
                pos = put(p, pos, k.p, k.start, key_size)
            pos = put_varlong(p, pos, value_size)
            if value_size > 0:
                pos = put(p, pos, v.p, v.start, value_size)
            p[pos] = 0
            self.position = pos + 1
        return len(row_numbers)

    def close(
        self,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        *,
        transactional: bool = False,
        control: bool = False,
        leader_epoch: int = NO_LEADER_EPOCH,
        append_time_ms: int | None = None,
        last_offset_delta: int | None = None,
    ) -> memoryview:
        """Compress the records, write the header with its CRC, and return the batch.

        It is a view of the buffer, or of a new one if the compressed batch does not fit into it.

        With `append_time_ms`, the timestamp type of the batch is LogAppendTime. `last_offset_delta` keeps the offset
        range of a batch whose last records compaction has removed. Raises IllegalStateError for an empty batch without
        `last_offset_delta`.
        """
        if self.count == 0 and last_offset_delta is None:
            raise IllegalStateError("a batch without records cannot be closed")
        attributes = self.codec
        attributes |= TRANSACTIONAL_MASK if transactional else 0
        attributes |= CONTROL_MASK if control else 0
        attributes |= TIMESTAMP_TYPE_MASK if append_time_ms is not None else 0
        attributes |= DELETE_HORIZON_MASK if self.delete_horizon_ms is not None else 0
        out, size = self._compressed()
        header = BatchHeader(
            base_offset=self.base_offset,
            length=size - LOG_OVERHEAD,
            leader_epoch=leader_epoch,
            magic=MAGIC,
            crc=0,
            attributes=attributes,
            last_offset_delta=self.last_delta if last_offset_delta is None else last_offset_delta,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp if append_time_ms is None else append_time_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            count=self.count,
        )
        write_header(out, 0, header)
        return memoryview(out)[:size]

    def _compressed(self) -> tuple[bytearray, int]:
        """Return the buffer with header room and (compressed) records, and the batch's size in it."""
        if self.codec == compression.NONE:
            return self.buffer, self.position
        packed = memoryview(
            compression.compress(self.codec, memoryview(self.buffer)[HEADER_BYTES : self.position], self.level)
        )
        size = HEADER_BYTES + len(packed)
        out = self.buffer if size <= len(self.buffer) else bytearray(size)
        out[HEADER_BYTES:size] = packed
        return out, size


class _ColumnReader:
    """Finds the rows of a BinaryColumn in its data."""

    __slots__ = ("bounds", "data", "data_size", "first", "nullable", "offsets", "p", "start", "validity")

    def __init__(self, column: BinaryColumn) -> None:
        self.offsets = column.offsets
        self.data = memoryview(column.data if memoryview(column.data).nbytes else b"\x00").cast("B")
        self.nullable = column.validity is not None
        self.validity = memoryview(b"\x00" if column.validity is None else column.validity).cast("B")
        self.first = column.first
        self.start = 0
        self.bounds = len(self.offsets)
        self.data_size = len(self.data)
        if cython.compiled:
            self.p = cython.address(self.data[0])
        else:
            self.p = self.data

    def find(self, row: int) -> int:
        """Set `start` to the row's position, and return its size. For null, only return -1."""
        i = self.first + row
        if i < 0 or i + 1 >= self.bounds:
            raise IndexError(f"row {row} of a column with {self.bounds - 1 - self.first} rows")
        if self.nullable and not (self.validity[i >> 3] >> (i & 7)) & 1:
            return -1
        self.start = self.offsets[i]
        size = self.offsets[i + 1] - self.start
        if size < 0 or self.start < 0 or self.start + size > self.data_size:
            raise IndexError(f"row {row} lies outside its column's data")
        return size


_ONE_TIME = memoryview(bytes(8)).cast("q")


def _size(data: Buffer | None) -> int:
    return 0 if data is None else memoryview(data).nbytes


def _check_int64(value: int) -> None:
    """Raise OverflowError beyond 64 bits, as the conversion to a C integer does in the compiled form."""
    if not -(1 << 63) <= value <= MAX_TIMESTAMP:
        raise OverflowError(f"{value} does not fit into 64 bits")
