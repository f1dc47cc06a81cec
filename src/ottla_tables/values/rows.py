"""The interface of converters from records to rows, and the converters to bytes and text."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ottla_tables.columns import RECORD

ERROR: Final = pa.field("error", pa.string())
DEAD_LETTER: Final = pa.schema([*RECORD, ERROR])
"""The columns of dead letters: those of the record, and the error."""


MAX_SELECTIONS: Final = 20
"""Maximum number of times that a conversion names invalid records of a batch, before the batch is halved."""


class InvalidRowsError(ValueError):
    """Raised if some records of a batch cannot be converted. `rows` is an Arrow array of their indexes in the
    batch, counted from 0.
    """

    def __init__(self, message: str, rows: Any) -> None:
        super().__init__(message)
        self.rows = rows


class Rows(NamedTuple):
    """Rows of the table, and the dead letters (with the schema DEAD_LETTER; None if there are none)."""

    batch: Any
    dead: Any = None


class RowConverter(Protocol):
    """Converts records to rows. The schema of the rows may grow if the values have new fields."""

    @property
    def schema(self) -> Any:
        """The Arrow schema of the rows."""
        ...

    def convert(self, records: Any) -> Rows:
        """Convert a batch with the schema RECORD. Records that cannot be converted become dead letters."""
        ...


class BytesConverter:
    """Converts records to rows with key and value as bytes."""

    schema = RECORD

    def convert(self, records: Any) -> Rows:
        """Return the records unchanged, as rows."""
        return Rows(records)


class TextConverter:
    """Converts records to rows with key and value as text. Records whose key or value is not valid UTF-8 are dead
    letters.
    """

    schema = pa.schema([pa.field(f.name, pa.string()) if f.name in ("key", "value") else f for f in RECORD])

    def convert(self, records: Any) -> Rows:
        """Return rows with the keys and values as text, and the dead letters."""
        return by_halves(records, self._convert, self.schema)

    def _convert(self, records: Any) -> Any:
        columns = [
            column.cast(field.type) if column.type != field.type else column
            for column, field in zip(records.columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def by_halves(records: Any, convert: Any, schema: Any) -> Rows:
    """Convert records. If that fails, convert each half, and so on, so that only invalid records become dead letters.

    `convert` raises pa.ArrowInvalid if a record cannot be converted, and InvalidRowsError if it knows which ones: those
    are converted one by one.
    """
    good: list[Any] = []
    bad: list[Any] = []
    _halve(records, convert, good, bad)
    if len(good) == 1 and not bad:
        return Rows(good[0])
    batches = _in_order(good, schema).to_batches()
    empty = [pa.array([], field.type) for field in schema]
    rows = batches[0] if batches else pa.RecordBatch.from_arrays(empty, schema=schema)
    dead = _in_order(bad, DEAD_LETTER).to_batches()[0] if bad else None
    return Rows(rows, dead)


def _in_order(batches: list[Any], schema: Any) -> Any:
    """Return batches as one, in the order of the offsets."""
    table = pa.Table.from_batches(batches, schema).combine_chunks()
    offsets = table.column("offset")
    if len(offsets) > 1 and not pc.all(pc.less(offsets[:-1], offsets[1:])).as_py():
        table = table.sort_by("offset").combine_chunks()
    return table


def _halve(records: Any, convert: Any, good: list[Any], bad: list[Any], selections: int = MAX_SELECTIONS) -> None:
    try:
        good.append(convert(records))
        return
    except InvalidRowsError as error:
        reason = str(error)
        if selections and records.num_rows > 1:
            is_invalid = pc.is_in(records.column("offset"), records.column("offset").take(error.rows))
            invalid, others = records.filter(is_invalid), records.filter(pc.invert(is_invalid))
            for row in range(invalid.num_rows):
                _halve(invalid.slice(row, 1), convert, good, bad)
            if others.num_rows:
                _halve(others, convert, good, bad, selections - 1)
            return
    except pa.ArrowInvalid as error:
        reason = str(error)
    if records.num_rows == 1:
        bad.append(dead_letters(records, reason))
        return
    middle = records.num_rows // 2
    _halve(records.slice(0, middle), convert, good, bad)
    _halve(records.slice(middle), convert, good, bad)


def dead_letters(records: Any, error: str) -> Any:
    """Return records as dead letters, all with the same error."""
    errors = pa.array([error] * records.num_rows, pa.string())
    return pa.RecordBatch.from_arrays([*records.columns, errors], schema=DEAD_LETTER)
