"""Records as columns: what `column_decoder` makes of batches and `BatchBuilder.append_columns` takes.

The layout is Arrow's, so `pyarrow.Array.from_buffers` wraps it without a copy; pyarrow itself is not needed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import Buffer


class BinaryColumn(NamedTuple):
    """Byte strings end to end, as in Arrow's binary layout.

    Row i is `data[offsets[first + i] : offsets[first + i + 1]]`, and null where bit `first + i` (lowest bit of each
    byte first) of `validity` is 0. Offsets are a memoryview of format "i" (int32); without `validity` no row is null.
    """

    offsets: memoryview
    data: Buffer
    validity: Buffer | None = None
    null_count: int = 0
    first: int = 0

    def get(self, row: int) -> bytes | None:
        """Row `row` as an object: for tests and small columns."""
        i = self.first + row
        if self.validity is not None and not memoryview(self.validity)[i >> 3] >> (i & 7) & 1:
            return None
        return bytes(memoryview(self.data)[self.offsets[i] : self.offsets[i + 1]])


class HeadersColumn(NamedTuple):
    """The headers of all rows, as Arrow's list of (key, value): row i has those from offsets[i] to offsets[i + 1]."""

    offsets: memoryview
    keys: BinaryColumn
    values: BinaryColumn


class Columns(NamedTuple):
    """Records of one partition as columns of equal length.

    `offsets` and `timestamps` (milliseconds since 1970) are memoryviews of format "q" (int64), `timestamp_types` one of
    format "i" (int32). `headers` is None unless they were asked for.
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
        """Bytes of keys and values together."""
        return int(self.keys.offsets[self.rows]) + int(self.values.offsets[self.rows])


def binary_column(array: Any) -> BinaryColumn:
    """The buffers of a pyarrow binary or string array (32-bit offsets; slices are fine), without a copy."""
    if str(array.type) not in ("binary", "string"):
        raise TypeError(f"a binary or string array with 32-bit offsets is wanted, not {array.type}")
    validity, offsets, data = array.buffers()
    return BinaryColumn(memoryview(offsets).cast("B").cast("i"), data or b"", validity, array.null_count, array.offset)
