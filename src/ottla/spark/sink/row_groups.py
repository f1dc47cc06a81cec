"""Grouping of the rows of a batch by topic and partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import ConfigurationError

NO_PARTITION = -1


class RowGroup(NamedTuple):
    """Rows for a topic and, if they contain a partition number, for a partition."""

    topic: str
    partition: int | None
    values: pa.Array
    keys: pa.Array | None
    headers: pa.Array | None


def row_groups(batch: pa.RecordBatch, topic: str | None) -> Iterator[RowGroup]:
    """Yield the rows of a batch grouped by topic and partition, in their original order within each group. Raises
    ConfigurationError for a row without a topic or with a negative partition.
    """
    columns = {name.lower(): batch.column(i) for i, name in enumerate(batch.schema.names)}
    topics = None if topic is not None else columns["topic"].dictionary_encode()
    if topics is not None and topics.null_count:
        raise ConfigurationError('a row has null as its topic: fill the column topic, or set .option("topic", "…")')
    if topics is None and "partition" not in columns:
        yield _row_group(str(topic), None, columns)
        return
    codes = _codes(batch.num_rows, topics, columns.get("partition"))
    for code in pc.unique(codes).to_pylist():
        number, partition = divmod(code, _PARTITIONS)
        name = str(topic) if topics is None else topics.dictionary[number].as_py()
        rows = pc.equal(codes, code)
        chosen = {column: values.filter(rows) for column, values in columns.items()}
        yield _row_group(name, None if partition == 0 else partition + NO_PARTITION, chosen)


_PARTITIONS = 1 << 32


def _codes(rows: int, topics: pa.DictionaryArray | None, partitions: pa.Array | None) -> pa.Array:
    """Encode the topic and partition of each row as a number. The partition is encoded as its number plus one, or as 0
    if the row has none. Raises ConfigurationError for a negative partition.
    """
    numbers = pa.repeat(pa.scalar(0, pa.int64()), rows) if topics is None else topics.indices.cast(pa.int64())
    codes = pc.multiply(numbers, _PARTITIONS)
    if partitions is None:
        return codes
    least = pc.min(partitions).as_py()
    if least is not None and least < 0:
        raise ConfigurationError(f"the column partition has {least}, which is neither null nor a partition number")
    partition_ids = pc.fill_null(partitions.cast(pa.int64()), NO_PARTITION)
    return pc.add(codes, pc.subtract(partition_ids, NO_PARTITION))


def _row_group(topic: str, partition: int | None, columns: dict[str, Any]) -> RowGroup:
    return RowGroup(topic, partition, columns["value"], columns.get("key"), columns.get("headers"))
