"""Conversion between columns and Arrow arrays.

`columns` imports this module at the first use of Arrow, because the clients do not depend on pyarrow.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

OFFSET = pa.int64()
MILLIS = pa.timestamp("ms", tz="UTC")
TIMESTAMP_TYPE = pa.int32()
HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])


def record_batch(arrays: dict[str, pa.Array]) -> pa.RecordBatch:
    """Return an Arrow batch of the arrays, which are given by column name and have the same length."""
    return pa.RecordBatch.from_pydict(arrays)


def stream_of(batch: pa.RecordBatch) -> pa.RecordBatchReader:
    """Return an Arrow stream that consists of one batch."""
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


def fixed_array(arrow_type: Any, view: memoryview, rows: int) -> pa.Array:
    """Wrap numbers as an Arrow array, without a copy."""
    return pa.Array.from_buffers(arrow_type, rows, [None, pa.py_buffer(view)])


def binary_array(
    offsets: memoryview, data: Any, validity: Any, null_count: int, first: int, rows: int
) -> pa.BinaryArray:
    """Wrap a `BinaryColumn` as an Arrow array, without a copy."""
    buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers, null_count, first)


def headers_array(offsets: memoryview, keys: pa.Array, values: pa.Array, rows: int) -> pa.Array:
    """Return headers as list<struct<key, value>>, with null for a record that has none."""
    pairs = pa.StructArray.from_arrays([_text(keys), values], fields=list(HEADER))
    listed = pa.ListArray.from_arrays(fixed_array(pa.int32(), offsets, rows + 1), pairs)
    import pyarrow.compute as pc  # takes 70 ms to import, which records without headers do not need

    # Neither a number nor `pa.scalar`: Arrow would import pandas to check their type.
    filled = pc.list_value_length(listed).cast(pa.bool_())
    return pc.if_else(filled, listed, pa.nulls(1, listed.type)[0])


def _text(keys: Any) -> pa.Array:
    """Return the keys as strings, without a copy if all are valid UTF-8. Malformed UTF-8 is replaced as in Java."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())


def binary_buffers(items: Any) -> tuple[memoryview, Any, Any, int, int]:
    """Return the fields of a `BinaryColumn` over a pyarrow array, or over an object that converts to one. Raises
    TypeError for an unsupported type of array, such as int64.
    """
    array = _one_array(items)
    kind = array.type
    if not (pa.types.is_binary(kind) or pa.types.is_string(kind)):
        if not _holds_bytes(kind):
            raise TypeError(f"expected a binary or string column, not {kind}")
        array = array.cast(pa.binary())
    validity, offsets, data = array.buffers()
    return memoryview(offsets).cast("B").cast("i"), data or b"", validity, array.null_count, array.offset


def _one_array(items: Any) -> Any:
    if isinstance(items, pa.Array):
        return items
    if not isinstance(items, pa.ChunkedArray):
        if hasattr(items, "__arrow_c_stream__"):
            items = pa.chunked_array(items)
        else:
            return pa.array(items, from_pandas=True)
    return items.combine_chunks() if items.num_chunks != 1 else items.chunk(0)


def _holds_bytes(kind: Any) -> bool:
    """Return whether a type is a large or a view form of binary or string, or null."""
    return bool(
        pa.types.is_large_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_null(kind)
    )
