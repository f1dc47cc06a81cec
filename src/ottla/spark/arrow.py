"""Columns of records as Arrow record batches in the schema of Spark's Kafka connector, without an object per record.

Keys, values, offsets and timestamps are wrapped where they lie; only the constant columns and the change from
milliseconds to microseconds, the one unit of time that Spark takes, make new memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.model import TopicPartition
from ottla.records.columns import BinaryColumn, Columns, HeadersColumn

TARGET_ROWS = 100_000
"""Rows per batch to aim for: below ten thousand, the cost per batch shows."""
TARGET_BYTES = 32 * 1024 * 1024
"""Keys and values per batch to aim for, whatever the number of rows."""

SPARK_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
HEADERS_SCHEMA = ", headers array<struct<key:string,value:binary>>"

_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])


def arrow_schema(include_headers: bool) -> pa.Schema:
    """The schema of the batches that `record_batches` makes."""
    fields: list[tuple[str, Any]] = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
    return pa.schema([*fields, ("headers", pa.list_(_HEADER))] if include_headers else fields)


def record_batches(chunks: Iterable[Columns], tp: TopicPartition, include_headers: bool) -> Iterator[pa.RecordBatch]:
    """The chunks as batches, small ones joined until they have TARGET_ROWS or TARGET_BYTES."""
    schema = arrow_schema(include_headers)
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for columns in chunks:
        if not columns.rows:
            continue
        pending.append(record_batch(columns, tp, schema))
        rows += columns.rows
        size += columns.nbytes
        if rows >= TARGET_ROWS or size >= TARGET_BYTES:
            yield _joined(pending)
            pending, rows, size = [], 0, 0
    if pending:
        yield _joined(pending)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    # One batch comes out: chunks are joined, and TARGET_BYTES keeps the 32-bit offsets of the columns in range.
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole


def record_batch(columns: Columns, tp: TopicPartition, schema: pa.Schema) -> pa.RecordBatch:
    """One chunk as one batch of `arrow_schema`; the batch keeps the chunk's memory alive."""
    rows = columns.rows
    millis = _fixed(pa.timestamp("ms", tz="UTC"), columns.timestamps, rows)
    arrays = [
        binary_array(columns.keys, rows),
        binary_array(columns.values, rows),
        pa.repeat(pa.scalar(tp.topic, pa.string()), rows),
        pa.repeat(pa.scalar(tp.partition, pa.int32()), rows),
        _fixed(pa.int64(), columns.offsets, rows),
        millis.cast(pa.timestamp("us", tz="UTC")),
        _fixed(pa.int32(), columns.timestamp_types, rows),
    ]
    if len(schema) > len(arrays):
        assert columns.headers is not None, "headers were asked for but not decoded"
        arrays.append(headers_array(columns.headers, rows))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _fixed(arrow_type: Any, view: memoryview, rows: int) -> pa.Array:
    return pa.Array.from_buffers(arrow_type, rows, [None, pa.py_buffer(view)])


def binary_array(column: BinaryColumn, rows: int, arrow_type: Any = None) -> pa.Array:
    """Byte strings as an Arrow array of `arrow_type` (default binary), wrapped where they lie."""
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(arrow_type or pa.binary(), rows, buffers, column.null_count, column.first)


def headers_array(headers: HeadersColumn, rows: int) -> pa.Array:
    """Headers as list<struct<key, value>>; a record without headers has null there, as in the connector."""
    count = headers.offsets[rows]
    pairs = pa.StructArray.from_arrays(
        [binary_array(headers.keys, count, pa.string()), binary_array(headers.values, count)], fields=list(_HEADER)
    )
    listed = pa.ListArray.from_arrays(_fixed(pa.int32(), headers.offsets, rows + 1), pairs)
    empty = pc.equal(pc.list_value_length(listed), 0)
    return pc.if_else(empty, pa.scalar(None, listed.type), listed)
