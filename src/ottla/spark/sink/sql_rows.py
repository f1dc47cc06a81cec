"""Rows of a task as a database's driver takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ottla.errors import ConfigurationError


def rows_of(batch: pa.RecordBatch, keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the rows in the order of their keys, so that tasks which update the same rows lock them in the same order.

    Raises ConfigurationError for values that no database accepts: text that is no UTF-8, years that Python's dates do
    not have, and null as a key.
    """
    for key in keys:
        if batch.column(key).null_count:
            raise ConfigurationError(
                f"keyColumns: a row has null as its {key}, by which no row is found again: it would be appended each"
                " time. Leave such rows out (filter), or give them a value (coalesce)"
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
            f"the column {name} has text that is no UTF-8 ({error}): write it as binary, leave such rows out"
            f" (is_valid_utf8({name})), or fix them (make_valid_utf8({name}))"
        ) from error
    except (OverflowError, ValueError) as error:
        raise ConfigurationError(
            f"the column {name} has a time outside of the years 1 to 9999 ({error}): leave such rows out, or cast it"
            " to string"
        ) from error


def _in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert timestamps from the session's time zone to UTC, as database types without a time zone would change
    them.

    Also, when clocks are set back, two timestamps would become one, and with keyColumns one row.
    """
    fields = [f.with_type(pa.timestamp(f.type.unit, "UTC")) if _has_zone(f.type) else f for f in batch.schema]
    return batch.cast(pa.schema(fields))


def _has_zone(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _order(row: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(repr(row[key]) for key in keys)
