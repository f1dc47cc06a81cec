"""Upserts: the newest record of each key replaces the row of that key; a tombstone deletes it.

Files with rows of these keys are rewritten without them (copy-on-write), which all readers of all formats support. A
key belongs to one partition, as in a compacted topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla_tables.dead_letters import without
from ottla_tables.formats.table import Table, TableFile
from ottla_tables.parquet import aligned, read_batches
from ottla_tables.values.rows import Rows


class NewestKeys:
    """The keys of records, each with the offset of its newest record or a tombstone. Records are added in the order of
    offsets.
    """

    def __init__(self) -> None:
        self._keys: dict[tuple[int, bytes | None], int] = {}
        """The offset of the last record of each partition and key; -1 for a tombstone."""
        self._distinct: Any = None

    def add(self, rows: Rows, records: Any) -> None:
        """Add the keys of records that were converted to `rows`. Dead letters replace no row."""
        self._distinct = None
        if rows.dead is not None:
            records = without(records, rows.dead.column("offset"))
        columns = (records.column(name) for name in ("partition", "key", "offset"))
        tombstones = records.column("value").is_null()
        for partition, key, offset, is_tombstone in zip(*(c.to_pylist() for c in (*columns, tombstones)), strict=True):
            self._keys[partition, key] = -1 if is_tombstone else offset

    @property
    def rows(self) -> set[tuple[int, int]]:
        """The partition and offset of the newest row of each key that is not deleted."""
        return {(partition, offset) for (partition, _), offset in self._keys.items() if offset >= 0}

    def others(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the batches without the rows that have one of the keys, in the same partition."""
        for batch in batches:
            yield batch.filter(pc.invert(self.mask(batch)))

    def mask(self, batch: Any) -> Any:
        """Return an array of booleans: whether each row has one of the keys, in the same partition."""
        if self._distinct is None:
            self._distinct = pa.array(list({key for _, key in self._keys}), pa.binary())
        column = batch.column("key").cast(pa.binary())
        candidates = pc.fill_null(pc.is_in(column, self._distinct), False)
        if not pc.any(candidates).as_py():
            return candidates
        pairs = zip(batch.column("partition").to_pylist(), batch.column("key").to_pylist(), strict=True)
        return pa.array([(partition, _bytes(key)) in self._keys for partition, key in pairs], pa.bool_())


class Upserts:
    """The rows of a commit, or of a range of the log, in the order of their addition. They are kept in memory."""

    def __init__(self) -> None:
        self._rows: list[Any] = []
        self._keys = NewestKeys()

    def add(self, rows: Rows, records: Any) -> None:
        """Add rows, and the records that were converted to them."""
        self._rows.append(rows.batch)
        self._keys.add(rows, records)

    def rows(self) -> Iterator[Any]:
        """Yield the newest row of each key that is not deleted, in batches."""
        if not self._rows:
            return
        schema = self._rows[-1].schema
        table = pa.Table.from_batches([aligned(rows, schema) for rows in self._rows])
        last = self._keys.rows
        pairs = zip(table.column("partition").to_pylist(), table.column("offset").to_pylist(), strict=True)
        newest = table.filter(pa.array([pair in last for pair in pairs], pa.bool_())).select(schema.names)
        batches = newest.combine_chunks().to_batches()
        yield from batches

    def replaced(self, table: Table) -> Iterator[tuple[TableFile, Iterator[Any]]]:
        """Load the table, and yield the files that have rows of these keys, with their other rows."""
        columns = ["partition", "key"]
        for file in table.load().files:
            if any(pc.any(self._keys.mask(batch)).as_py() for batch in read_batches(table, file.path, columns)):
                yield file, self._keys.others(read_batches(table, file.path))


def _bytes(key: str | bytes | None) -> bytes | None:
    return key.encode() if isinstance(key, str) else key
