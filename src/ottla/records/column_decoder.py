"""Decoding of batches into columns without an object per record, for example for poll_batch and the Spark reader.

`decode_columns` reads a whole fetched buffer; a reader that decides batch by batch (aborted transactions) uses
`ColumnDecoder`. Compiled with column_decoder.pxd.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING

try:
    import cython
except ImportError:
    from ottla.records import _cython as cython

from ottla.errors import CorruptMessageError
from ottla.records.batch import BatchHeader, split, verify
from ottla.records.columns import BinaryColumn, Columns, HeadersColumn
from ottla.records.compression import MAX_DECOMPRESSED_BYTES
from ottla.records.decoder import open_records

if cython.compiled:
    from cython.cimports.cpython.array import resize
    from cython.cimports.cpython.bytearray import PyByteArray_Resize
    from cython.cimports.libc.string import memcpy, memset
    from cython.cimports.ottla.records.fast_cursor import begin_record, next_varlong
else:
    from ottla.records.decoder import Cursor

    begin_record, next_varlong = Cursor.begin_record, Cursor.varlong

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_COLUMN_BYTES = (1 << 31) - 1
"""The maximum size of the data in one column, whose offsets have 32 bits."""
MAX_OFFSET = (1 << 63) - 1


def _lengthen(values: array[int], length: int) -> None:
    """Extend an array. In the compiled form, the new items are uninitialized."""
    if cython.compiled:
        resize(values, length)
    else:
        values.frombytes(bytes(values.itemsize * (length - len(values))))


def _lengthen_bytes(data: bytearray, length: int) -> None:
    """Extend a bytearray. In the compiled form, the new bytes are uninitialized: zeros would write the memory once
    more.
    """
    if cython.compiled:
        PyByteArray_Resize(data, length)
    else:
        data += bytes(length - len(data))


class BinarySink:
    """A growing BinaryColumn. `reserve` makes room, so that `_put` and `put_null` only write."""

    __slots__ = ("d", "data", "expected", "nulls", "o", "offsets", "peak", "rows", "used", "v", "validity")

    def __init__(self, expected: int = 0) -> None:
        """`expected`: number of bytes of data to allocate at least, at the first `reserve` that allocates any."""
        self.expected = expected
        self.peak = 0
        """The largest size of the data, in bytes, for which room was reserved."""
        self.offsets = array("i", [0])
        self.data = bytearray(1)
        self.validity = bytearray(1)
        self.rows = 0
        self.used = 0
        self.nulls = 0

    def reserve(self, rows: int, nbytes: int) -> None:
        """Reserve room for `rows` more rows with `nbytes` of data together. Offsets and data at least double in size if
        they have no room.
        """
        missing = self.rows + rows + 1 - len(self.offsets)
        if missing > 0:
            _lengthen(self.offsets, len(self.offsets) + max(missing, len(self.offsets)))
            self.validity += bytes((len(self.offsets) >> 3) + 1 - len(self.validity))
        needed = self.used + nbytes
        if needed > len(self.data):
            _lengthen_bytes(self.data, max(needed, 2 * len(self.data), self.expected))
        self.peak = max(needed, self.peak)
        offsets = self.offsets
        if cython.compiled:
            self.o = cython.address(offsets[0])
        else:
            self.o = offsets
        self.d = self.data
        self.v = self.validity

    def put_null(self) -> None:
        """Append a null row."""
        if not self.nulls:
            self._begin_validity()
        self.rows += 1
        self.nulls += 1
        self.o[self.rows] = self.used

    def _begin_validity(self) -> None:
        """Mark the rows so far as valid and all others as null."""
        whole = self.rows >> 3
        if cython.compiled:
            memset(self.v, 0, len(self.validity))
            memset(self.v, 0xFF, whole)
        else:
            self.v[:] = b"\xff" * whole + bytes(len(self.v) - whole)
        self.v[whole] = (1 << (self.rows & 7)) - 1

    def column(self) -> BinaryColumn:
        """Return the column of the values put so far. The sink must not be used afterwards."""
        return BinaryColumn(
            memoryview(self.offsets)[: self.rows + 1],
            memoryview(self.data)[: self.used],
            memoryview(self.validity)[: (self.rows + 7) >> 3] if self.nulls else None,
            self.nulls,
        )


class ColumnDecoder:
    """Collects batches of one partition as columns."""

    __slots__ = (
        "header_counts",
        "header_keys",
        "header_values",
        "keys",
        "max_bytes",
        "max_decompressed_bytes",
        "offsets",
        "rows",
        "timestamp_types",
        "timestamps",
        "values",
        "with_headers",
    )

    def __init__(
        self,
        *,
        headers: bool = False,
        max_bytes: int = MAX_COLUMN_BYTES,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> None:
        """`headers`: whether to decode the records' headers. `max_bytes`: maximum size of the data of each column,
        which only a single batch may exceed; at most MAX_COLUMN_BYTES.

        For a compressed batch with more than `max_decompressed_bytes` of records, `add_batch` raises
        DecompressedTooLargeError.
        """
        self.with_headers = headers
        self.max_decompressed_bytes = max_decompressed_bytes
        self.max_bytes = min(max_bytes, MAX_COLUMN_BYTES)
        self._clear(0, 0)

    def _clear(self, key_bytes: int, value_bytes: int) -> None:
        self.rows = 0
        self.offsets = array("q")
        self.timestamps = array("q")
        self.timestamp_types = array("i")
        self.header_counts = array("i", [0])
        self.keys = BinarySink(key_bytes)
        self.values = BinarySink(value_bytes)
        self.header_keys = BinarySink()
        self.header_values = BinarySink()

    @property
    def row_count(self) -> int:
        """The number of rows collected since the last `drain`."""
        return self.rows

    @property
    def nbytes(self) -> int:
        """Bytes of keys, values and headers collected since the last `drain`."""
        return self.keys.used + self.values.used + self.header_keys.used + self.header_values.used

    def add_batch(
        self, buf: Buffer, start: int, header: BatchHeader, from_offset: int = 0, until_offset: int = MAX_OFFSET
    ) -> bool:
        """Add the batch's records with from_offset <= offset < until_offset.

        Return False, without adding any, if the decoder is not empty and its columns could grow beyond `max_bytes`:
        drain() first, and add the batch again. The CRC is not checked. Raises the errors of `open_records`, and
        CorruptMessageError for damage that is found in the records; the earlier batches stay.
        """
        data = open_records(buf, start, header, self.max_decompressed_bytes)
        nbytes = memoryview(data).nbytes
        longest = max(self.keys.used, self.values.used, self.header_keys.used, self.header_values.used)
        if self.rows and longest + nbytes > self.max_bytes:
            return False
        self._reserve(header.count, nbytes)
        self._decode(Cursor(data), header, from_offset, until_offset)
        return True

    def _reserve(self, count: int, nbytes: int) -> None:
        missing = self.rows + count - len(self.offsets)
        if missing > 0:
            length = len(self.offsets) + max(missing, len(self.offsets))
            for column in (self.offsets, self.timestamps, self.timestamp_types):
                _lengthen(column, length)
            if self.with_headers:
                _lengthen(self.header_counts, length + 1)
        self.keys.reserve(count, nbytes)
        self.values.reserve(count, nbytes)

    def _decode(self, cursor: Cursor, header: BatchHeader, from_offset: int, until_offset: int) -> None:
        # The first records of a damaged batch are removed from the sinks again, so remember where it began.
        rows, keys, values = self.rows, self.keys.used, self.values.used
        try:
            self._decode_rows(cursor, header, from_offset, until_offset)
        except CorruptMessageError:
            self._rewind(rows, keys, values)
            raise

    def _rewind(self, rows: int, keys: int, values: int) -> None:
        for sink, used in ((self.keys, keys), (self.values, values)):
            _cut(sink, rows, used)
        self.rows = rows
        if self.with_headers:
            headers = self.header_counts[rows]
            for sink in (self.header_keys, self.header_values):
                if sink.rows > headers:
                    _cut(sink, headers, sink.offsets[headers])

    def _decode_rows(self, cursor: Cursor, header: BatchHeader, from_offset: int, until_offset: int) -> None:
        append_time = header.timestamp_type
        base_offset = header.base_offset
        base_timestamp = header.base_timestamp
        max_timestamp = header.max_timestamp
        offsets = self.offsets
        timestamps = self.timestamps
        timestamp_types = self.timestamp_types
        keys = self.keys
        values = self.values
        with_headers = self.with_headers
        count = header.count
        row = self.rows
        for _ in range(count):
            record_end = begin_record(cursor)
            timestamp = base_timestamp + next_varlong(cursor)
            offset = base_offset + next_varlong(cursor)
            if offset < from_offset:
                cursor.pos = record_end
                continue
            if offset >= until_offset:
                return
            _put(cursor, keys, record_end)
            _put(cursor, values, record_end)
            if with_headers:
                self._headers(cursor, row, record_end)
            else:
                cursor.pos = record_end
            if cursor.pos != record_end:
                raise CorruptMessageError(f"the record at offset {offset} does not fill its length")
            offsets[row] = offset
            timestamps[row] = max_timestamp if append_time else timestamp
            timestamp_types[row] = append_time
            row += 1
            self.rows = row
        if cursor.pos != cursor.end:
            raise CorruptMessageError(f"{cursor.end - cursor.pos} bytes after the last record of a batch")

    def _headers(self, cursor: Cursor, row: int, record_end: int) -> None:
        """Read the headers of the record that ends at `record_end`."""
        count = cursor.header_count()
        if count:
            self._read_headers(cursor, count, record_end)
        self.header_counts[row + 1] = self.header_keys.rows

    def _read_headers(self, cursor: Cursor, count: int, record_end: int) -> None:
        nbytes = record_end - cursor.pos
        if 2 * count > nbytes:
            raise CorruptMessageError(f"{count} headers in {nbytes} bytes")
        self.header_keys.reserve(count, nbytes)
        self.header_values.reserve(count, nbytes)
        for _ in range(count):
            _put(cursor, self.header_keys, record_end)
            _put(cursor, self.header_values, record_end)

    def drain(self) -> Columns:
        """Return the columns collected so far, and empty the decoder."""
        headers = None
        if self.with_headers:
            counts = memoryview(self.header_counts)[: self.rows + 1]
            headers = HeadersColumn(counts, self.header_keys.column(), self.header_values.column())
        columns = Columns(
            self.rows,
            memoryview(self.offsets)[: self.rows],
            memoryview(self.timestamps)[: self.rows],
            memoryview(self.timestamp_types)[: self.rows],
            self.keys.column(),
            self.values.column(),
            headers,
        )
        # The next columns will be about as large, so reserve as much at once.
        self._clear(_with_slack(self.keys.peak), _with_slack(self.values.peak))
        return columns


def _with_slack(size: int) -> int:
    return size + (size >> 3)


def _put(cursor: Cursor, sink: BinarySink, record_end: int) -> int:
    """Append the next byte string of the record to `sink`. Always return 0: in C, -1 signals an exception.

    The length is checked, because `sink` has room for the records' size only, and is written to without a check.
    """
    size = next_varlong(cursor)
    start = cursor.pos
    if size > record_end - start or size < -1:
        return _reject(size, record_end - start)
    if size < 0:
        sink.put_null()
        return 0
    used = sink.used
    if cython.compiled:
        # A constant size takes two instructions, not a call. There is room for as many bytes as the record has left.
        if size <= 16 and record_end - start >= 16:
            memcpy(sink.d + used, cursor.p + start, 16)  # type: ignore[operator]  # pointers
        else:
            memcpy(sink.d + used, cursor.p + start, size)  # type: ignore[operator]
    else:
        sink.d[used : used + size] = cursor.p[start : start + size]
    cursor.pos = start + size
    sink.used = used + size
    row = sink.rows
    if sink.nulls:
        sink.v[row >> 3] |= 1 << (row & 7)
    sink.rows = row + 1
    sink.o[row + 1] = used + size
    return 0


def _reject(size: int, left: int) -> int:
    raise CorruptMessageError(f"a length of {size} where {left} bytes of the record are left")


def _cut(sink: BinarySink, rows: int, used: int) -> None:
    """Remove the rows from `rows` on."""
    for row in range(rows, sink.rows if sink.nulls else rows):
        if sink.validity[row >> 3] >> (row & 7) & 1:
            sink.validity[row >> 3] &= ~(1 << (row & 7)) & 0xFF
        else:
            sink.nulls -= 1
    sink.rows = rows
    sink.used = used


def decode_columns(
    buf: Buffer,
    from_offset: int = 0,
    until_offset: int = MAX_OFFSET,
    *,
    headers: bool = False,
    check_crc: bool = True,
    skip: Callable[[BatchHeader], bool] | None = None,
) -> Columns:
    """Return the records of all whole batches in `buf` with from_offset <= offset < until_offset, as columns.

    Control batches are left out, and those for which `skip` returns true. Raises the errors of
    `ColumnDecoder.add_batch`, and CorruptMessageError for a wrong header or CRC, or if a column could exceed
    MAX_COLUMN_BYTES (a fetch stays far below).
    """
    decoder = ColumnDecoder(headers=headers)
    for header, start, _ in split(buf):
        if header.next_offset <= from_offset or header.base_offset >= until_offset:
            continue
        if header.is_control or (skip is not None and skip(header)):
            continue
        if check_crc:
            verify(buf, start, header)
        if not decoder.add_batch(buf, start, header, from_offset, until_offset):
            raise CorruptMessageError("more than 2 GiB of keys or values in one buffer")
    return decoder.drain()
