"""Columns of records as Arrow record batches in the schema of Spark's Kafka connector, without an object per record.

Keys, values, offsets and timestamps are wrapped where they lie; only the constant columns and the change from
milliseconds to microseconds, the one unit of time that Spark takes, make new memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from ottla.model import TopicPartition
from ottla.records.arrow import HEADER, binary_array, fixed_array, headers_array
from ottla.records.columns import Columns

TARGET_ROWS = 100_000
"""Rows per batch to aim for: below ten thousand, the cost per batch shows."""
TARGET_BYTES = 32 * 1024 * 1024
"""Keys and values per batch to aim for, whatever the number of rows."""

SPARK_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
HEADERS_SCHEMA = ", headers array<struct<key:string,value:binary>>"


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
    return pa.schema([*fields, ("headers", pa.list_(HEADER))] if include_headers else fields)


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
    millis = fixed_array(pa.timestamp("ms", tz="UTC"), columns.timestamps, rows)
    arrays = [
        binary_array(columns.keys, rows),
        binary_array(columns.values, rows),
        pa.repeat(pa.scalar(tp.topic, pa.string()), rows),
        pa.repeat(pa.scalar(tp.partition, pa.int32()), rows),
        fixed_array(pa.int64(), columns.offsets, rows),
        millis.cast(pa.timestamp("us", tz="UTC")),
        fixed_array(pa.int32(), columns.timestamp_types, rows),
    ]
    if len(schema) > len(arrays):
        assert columns.headers is not None, "headers were asked for but not decoded"
        arrays.append(headers_array(columns.headers, rows))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
