"""The columns of every record in Arrow: offset, partition, timestamp, key, value and headers."""

from __future__ import annotations

from array import array
from typing import Any, Final

import pyarrow as pa

from ottla.records.arrow import HEADER, fixed_array
from ottla.records.columns import Columns

MICROS: Final = pa.timestamp("us", tz="UTC")
"""The type of the column `timestamp` in all table formats."""
OFFSET: Final = pa.field("offset", pa.int64(), nullable=False)
PARTITION: Final = pa.field("partition", pa.int32(), nullable=False)
TIMESTAMP: Final = pa.field("timestamp", MICROS)
HEADERS: Final = pa.field("headers", pa.list_(HEADER))
RECORD: Final = pa.schema(
    [OFFSET, PARTITION, TIMESTAMP, pa.field("key", pa.binary()), pa.field("value", pa.binary()), HEADERS]
)
"""The columns of a record, with key and value as bytes."""


def record_batch(columns: Columns, partition: int) -> Any:
    """Return decoded records as an Arrow batch with the schema RECORD. Their headers must have been decoded."""
    rows = columns.rows
    assert columns.headers is not None, "headers were decoded"
    arrays = [
        fixed_array(pa.int64(), columns.offsets, rows),
        pa.repeat(_number(partition), rows),
        fixed_array(pa.timestamp("ms", tz="UTC"), columns.timestamps, rows).cast(MICROS),
        columns.keys.to_arrow(rows),
        columns.values.to_arrow(rows),
        columns.headers.to_arrow(rows),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORD)


def _number(number: int) -> Any:
    # Not `pa.scalar`: it imports pandas if it can, which takes 0.3 s.
    return fixed_array(pa.int32(), memoryview(array("i", [number])), 1)[0]
