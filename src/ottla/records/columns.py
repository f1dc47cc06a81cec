"""Records as columns, which `column_decoder` decodes from batches and `BatchBuilder.append_columns` encodes.

The layout is Arrow's, so that `arrow` wraps all but headers without a copy; only that module needs pyarrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import Buffer


class BinaryColumn(NamedTuple):
    """A column of byte strings in Arrow's binary layout: one after the other in `data`.

    Row i is `data[offsets[first + i] : offsets[first + i + 1]]`, and null if bit `first + i` (lowest bit of each byte
    first) of `validity` is 0. Offsets are a memoryview of format "i" (int32); without `validity` no row is null.
    """

    offsets: memoryview
    data: Buffer
    validity: Buffer | None = None
    null_count: int = 0
    first: int = 0

    def get(self, row: int) -> bytes | None:
        """Return the value of one row; None for null. Creates an object, which the hot paths avoid."""
        i = self.first + row
        if self.validity is not None and not memoryview(self.validity)[i >> 3] >> (i & 7) & 1:
            return None
        return bytes(memoryview(self.data)[self.offsets[i] : self.offsets[i + 1]])

    @classmethod
    def from_arrow(cls, items: Any) -> BinaryColumn:
        """Return the column of a pyarrow array, or of an object that converts to one (a series of pandas or Polars).

        Binary and string arrays with 32-bit offsets, and slices of them, are not copied unless they have several
        chunks. Raises TypeError for an unsupported type of array, such as int64.
        """
        from ottla.records import arrow

        return cls(*arrow.binary_buffers(items))

    def to_arrow(self, rows: int) -> Any:
        """Return the first `rows` byte strings as a `pyarrow.BinaryArray`, without a copy."""
        from ottla.records import arrow

        return arrow.binary_array(*self, rows)


class HeadersColumn(NamedTuple):
    """The headers of all rows, as Arrow's list of (key, value): row i has the pairs j with
    offsets[i] <= j < offsets[i + 1].
    """

    offsets: memoryview
    keys: BinaryColumn
    values: BinaryColumn

    def to_arrow(self, rows: int) -> Any:
        """Return a list<struct<key, value>> array; null for a record without headers, as in Spark's Kafka connector."""
        from ottla.records import arrow

        count = self.offsets[rows]
        return arrow.headers_array(self.offsets, self.keys.to_arrow(count), self.values.to_arrow(count), rows)


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Records of one partition as columns of equal length.

    With pyarrow installed, it speaks Arrow's PyCapsule interface, so that `polars.DataFrame(columns)`,
    `pyarrow.table(columns)` and DuckDB accept it. It is not a tuple, because libraries treat tuples as rows.

    `offsets` and `timestamps` (milliseconds since 1970) are memoryviews of format "q" (int64), `timestamp_types` one of
    format "i" (int32). `headers` is None unless requested.
    """

    rows: int
    offsets: memoryview
    timestamps: memoryview
    timestamp_types: memoryview
    keys: BinaryColumn
    values: BinaryColumn
    headers: HeadersColumn | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of keys, values and headers together."""
        size = int(self.keys.offsets[self.rows]) + int(self.values.offsets[self.rows])
        if self.headers is None:
            return size
        count = self.headers.offsets[self.rows]
        return size + int(self.headers.keys.offsets[count]) + int(self.headers.values.offsets[count])

    def to_arrow(self) -> Any:
        """Return a `pyarrow.RecordBatch` with the columns offset, timestamp, timestamp_type, key and value, and headers
        if they were decoded. Only headers are copied.
        """
        from ottla.records import arrow

        arrays = {
            "offset": arrow.fixed_array(arrow.OFFSET, self.offsets, self.rows),
            "timestamp": arrow.fixed_array(arrow.MILLIS, self.timestamps, self.rows),
            "timestamp_type": arrow.fixed_array(arrow.TIMESTAMP_TYPE, self.timestamp_types, self.rows),
            "key": self.keys.to_arrow(self.rows),
            "value": self.values.to_arrow(self.rows),
        }
        if self.headers is not None:
            arrays["headers"] = self.headers.to_arrow(self.rows)
        return arrow.record_batch(arrays)

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        """Return the columns as an Arrow struct array, in capsules of its schema and data. Needs pyarrow."""
        return self.to_arrow().__arrow_c_array__(requested_schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Return the columns as an Arrow stream of one batch, in a capsule. Needs pyarrow."""
        from ottla.records import arrow

        return arrow.stream_of(self.to_arrow()).__arrow_c_stream__(requested_schema)
