"""The dead-letter table: records that cannot be converted to rows of the topic's table, each with the reason.

It is committed before the topic's table. After a crash between the two commits, its records are skipped when their
offsets are read again, even if their conversion would then succeed. So no record is in both tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla_tables.committing import commit_after
from ottla_tables.errors import CommitConflictError
from ottla_tables.formats.table import Commit, Table
from ottla_tables.parquet import FileWriter, read_batches

SUFFIX = "_dead_letters"


class DeadLetters:
    """Writes the dead-letter table of one topic."""

    def __init__(self, table: Table) -> None:
        self.table = self._table = table
        self._offsets: dict[int, int] = {}
        self._dead: dict[int, Any] = {}
        """By partition: the offsets of committed dead letters that the writer may read again, as Arrow arrays."""
        self._files: FileWriter | None = None

    def load(self, offsets: Mapping[int, int]) -> None:
        """Load the offsets of committed dead letters that are not below the next offsets of the topic's table."""
        snapshot = self._table.load()
        self._offsets = snapshot.offsets
        ahead = {p: offsets.get(p, 0) for p, end in self._offsets.items() if end > offsets.get(p, 0)}
        if not ahead:
            return
        for file in snapshot.files:
            for batch in read_batches(self._table, file.path, ["offset", "partition"]):
                for partition, start in ahead.items():
                    mask = pc.and_(pc.equal(batch["partition"], partition), pc.greater_equal(batch["offset"], start))
                    earlier = self._dead.get(partition, pa.array([], pa.int64()))
                    self._dead[partition] = pa.concat_arrays([earlier, batch["offset"].filter(mask)])

    def without_dead(self, partition: int, records: Any) -> Any:
        """Return the records that are not among the committed dead letters."""
        dead = self._dead.get(partition)
        if dead is None or not len(dead):
            return records
        return without(records, dead)

    def write(self, batch: Any) -> None:
        """Write dead letters, with the schema `rows.DEAD_LETTER`, to files that `commit` commits."""
        if self._files is None:
            self._files = FileWriter(self._table)
        self._files.write(batch)

    def commit(self, offsets: Mapping[int, int]) -> bool:
        """Commit the written dead letters, with the next offsets of the topic's partitions. Return whether there are
        any. Raises CommitConflictError, after deleting the files, if another writer has committed.
        """
        if self._files is None:
            return False
        files, self._files = self._files, None
        merged = {p: max(offset, self._offsets.get(p, 0)) for p, offset in offsets.items()}
        try:
            written = files.close()
        except BaseException:
            files.discard()
            raise
        try:
            commit_after(self._table, Commit(written, (), merged), self._offsets)
        except CommitConflictError:
            files.discard()
            raise
        self._offsets = merged
        return True

    def discard(self) -> None:
        """Delete the dead letters that are not committed."""
        files, self._files = self._files, None
        if files is not None:
            files.discard()


def without(records: Any, offsets: Any) -> Any:
    """Return the records of one partition without those that have these offsets."""
    return records.filter(pc.invert(pc.is_in(records.column("offset"), offsets)))
