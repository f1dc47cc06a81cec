"""Conversion of a task's rows to the values that database drivers accept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ottla.errors import ConfigurationError


def rows_of(batch: pa.RecordBatch, keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the rows as dictionaries.

    With `keys`, they are ordered by key, so that tasks that update the same rows lock them in the same order. If
    several rows have the same key, only the last one is returned. Raises ConfigurationError for values that cannot be
    written: text that is not UTF-8, years outside 1 to 9999, and null as a key.
    """
    for key in keys:
        if batch.column(key).null_count:
            raise ConfigurationError(
                f"keyColumns: a row has null in the column {key}, so it cannot be identified and would be appended each"
                " time. Remove such rows (filter), or replace null by a value (coalesce)"
            )
    columns = [_values(name, column) for name, column in zip(batch.schema.names, _in_utc(batch).columns, strict=True)]
    rows = [dict(zip(batch.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]
    if keys:
        # A duplicate key in a statement is an error in PostgreSQL; the last row counts.
        rows = sorted({tuple(row[key] for key in keys): row for row in rows}.values(), key=lambda r: _order(r, keys))
    return rows


def _values(name: str, column: pa.Array) -> list[Any]:
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"the column {name} has text that is not UTF-8 ({error}): write it as binary, remove such rows"
            f" (is_valid_utf8({name})), or fix them (make_valid_utf8({name}))"
        ) from error
    except (OverflowError, ValueError) as error:
        raise ConfigurationError(
            f"the column {name} has a time outside of the years 1 to 9999 ({error}): remove such rows, or cast it"
            " to string"
        ) from error


def _in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert timestamps from the session's time zone to UTC. Otherwise, database types without a time zone would
    change their values.

    In addition, when clocks are set back, two timestamps would become equal and, as keyColumns, identify the same row.
    """
    fields = [f.with_type(pa.timestamp(f.type.unit, "UTC")) if _has_zone(f.type) else f for f in batch.schema]
    return batch.cast(pa.schema(fields))


def _has_zone(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _order(row: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(repr(row[key]) for key in keys)
