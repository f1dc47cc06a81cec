"""Converts columns of records to Arrow record batches with the schema of Spark's Kafka connector, without creating an
object per record.

Keys, values, offsets and timestamp types are wrapped without a copy, unless small chunks are joined. Memory is
allocated for the topic, the partition, and timestamps, which Spark accepts only in microseconds.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from ottla.model import TopicPartition
from ottla.records.arrow import HEADER, fixed_array
from ottla.records.columns import Columns

TARGET_ROWS = 30_000
"""Target number of rows per batch. With fewer than 10,000 the cost per batch is noticeable; many more exceed the CPU's
caches.
"""
TARGET_BYTES = 4 * 1024 * 1024
"""Target size in bytes of keys, values and headers per batch. It is about that of a fetch, so that fetches need not be
joined.
"""


class Column(NamedTuple):
    """A column: its type in Spark and in Arrow, and the function that builds its values from a chunk of records."""

    spark_type: str
    arrow_type: Any
    array: Callable[[Columns, TopicPartition], pa.Array]


MICROS: Final = pa.timestamp("us", tz="UTC")


def _timestamps(chunk: Columns, tp: TopicPartition) -> pa.Array:
    return fixed_array(pa.timestamp("ms", tz="UTC"), chunk.timestamps, chunk.rows).cast(MICROS)


def _text(text: str) -> pa.Scalar:
    # Not `pa.scalar` here or below: it imports pandas if it can, which adds 0.3 s to a worker's first task.
    data = text.encode()
    buffers = [None, pa.py_buffer(array("i", [0, len(data)])), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), 1, buffers)[0]


def _number(number: int) -> pa.Scalar:
    return fixed_array(pa.int32(), memoryview(array("i", [number])), 1)[0]


def _headers(chunk: Columns, tp: TopicPartition) -> pa.Array:
    assert chunk.headers is not None, "headers are required but were not decoded"
    return chunk.headers.to_arrow(chunk.rows)


COLUMNS: Final[dict[str, Column]] = {
    "key": Column("binary", pa.binary(), lambda chunk, tp: chunk.keys.to_arrow(chunk.rows)),
    "value": Column("binary", pa.binary(), lambda chunk, tp: chunk.values.to_arrow(chunk.rows)),
    "topic": Column("string", pa.string(), lambda chunk, tp: pa.repeat(_text(tp.topic), chunk.rows)),
    "partition": Column("int", pa.int32(), lambda chunk, tp: pa.repeat(_number(tp.partition), chunk.rows)),
    "offset": Column("bigint", pa.int64(), lambda chunk, tp: fixed_array(pa.int64(), chunk.offsets, chunk.rows)),
    "timestamp": Column("timestamp", MICROS, _timestamps),
    "timestampType": Column(
        "int", pa.int32(), lambda chunk, tp: fixed_array(pa.int32(), chunk.timestamp_types, chunk.rows)
    ),
    "headers": Column("array<struct<key:string,value:binary>>", pa.list_(HEADER), _headers),
}
"""The columns of Spark's Kafka connector, in its order."""


def column_names(include_headers: bool) -> tuple[str, ...]:
    """Return the names of all columns, headers only if `include_headers` is true."""
    return tuple(name for name in COLUMNS if include_headers or name != "headers")


def spark_schema(names: Iterable[str]) -> str:
    """Return the schema of columns in Spark's notation."""
    return ", ".join(f"{name} {COLUMNS[name].spark_type}" for name in names)


def arrow_schema(names: Iterable[str]) -> pa.Schema:
    """Return the Arrow schema of the batches that `record_batches` yields."""
    return pa.schema([(name, COLUMNS[name].arrow_type) for name in names])


def record_batches(chunks: Iterable[Columns], tp: TopicPartition, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Convert chunks of records to batches. Small chunks are joined until there are TARGET_ROWS or TARGET_BYTES."""
    schema = arrow_schema(names)
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
    # One batch results: the chunks are joined, and TARGET_BYTES keeps the 32-bit offsets of the columns in range.
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole


def record_batch(columns: Columns, tp: TopicPartition, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a chunk of records to a batch with this schema. The batch keeps the chunk's memory alive."""
    return pa.RecordBatch.from_arrays([COLUMNS[name].array(columns, tp) for name in schema.names], schema=schema)
