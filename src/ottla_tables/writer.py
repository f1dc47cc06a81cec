"""Writes one topic to its table: reads new records, writes them to files, and commits files and offsets together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from ottla.errors import OffsetOutOfRangeError
from ottla.model import TopicPartition
from ottla.storage.log_reader import ReadOnlyLog
from ottla_tables.columns import record_batch
from ottla_tables.committing import commit_after
from ottla_tables.dead_letters import DeadLetters
from ottla_tables.errors import CommitConflictError, TableError
from ottla_tables.formats.table import Commit, Table, TableFile, WrittenFile
from ottla_tables.log.segments import Chunk, SegmentReader
from ottla_tables.log.tiered import TieredRecords
from ottla_tables.parquet import FileWriter
from ottla_tables.upsert import Upserts
from ottla_tables.values.arrow_types import lacks
from ottla_tables.values.rows import RowConverter, Rows

log: Final = logging.getLogger("ottla.tables")


class Ends(NamedTuple):
    """The readable part of a topic: directory, first offset and high watermark of each partition.

    `are_current`: returns whether the leaders are still the same. The log of an earlier leader may contain records that
    were never committed.
    """

    directories: Mapping[int, Path]
    starts: Mapping[int, int]
    high_watermarks: Mapping[int, int]
    are_current: Callable[[], bool] = lambda: True


class TableWriter:
    """The writer of one topic's table. It continues from the offsets that are stored in the table.

    Args:
        topic: the topic's name.
        table: the table.
        converter: converts records to rows of the table.
        dead_letters: the dead-letter table; None if every record can be converted.
        flush_bytes: approximate maximum size in bytes of the records of a commit.
        is_upsert: whether the table has a row per key instead of one per record.
        tiered: reads records that are in remote storage only; None if there is no remote storage.
    """

    def __init__(
        self,
        topic: str,
        table: Table,
        converter: RowConverter,
        dead_letters: DeadLetters | None,
        flush_bytes: int,
        *,
        is_upsert: bool = False,
        tiered: TieredRecords | None = None,
    ) -> None:
        self.topic = topic
        self.table = table
        self.offsets = table.load().offsets
        self._converter = converter
        self._dead_letters = dead_letters
        if dead_letters is not None:
            dead_letters.load(self.offsets)
        self._flush_bytes = flush_bytes
        self._is_upsert = is_upsert
        self._tiered = tiered
        self._readers: dict[int, SegmentReader] = {}
        self._truncated: set[int] = set()
        self.changed: list[Table] = []
        """The tables that the last flush has committed to."""

    @property
    def tables(self) -> list[Table]:
        """The table and, if there is one, the dead-letter table."""
        return [self.table, *([] if self._dead_letters is None else [self._dead_letters.table])]

    def is_behind(self, ends: Ends) -> bool:
        """Return whether a partition on this machine has offsets below its high watermark that are not in the table."""
        return any(
            self._start(partition, ends) < ends.high_watermarks.get(partition, 0) for partition in ends.directories
        )

    def report_truncation(self, ends: Ends) -> None:
        """Log an error once for each partition whose log has become shorter than the table, for example in an unclean
        leader election.

        A new leader reports its high watermark to consumers only when it has reached the first offset of the leader's
        epoch, so the reported one decreases only if committed records were lost.
        """
        for partition, end in ends.high_watermarks.items():
            offset = self.offsets.get(partition, 0)
            if end >= offset:
                self._truncated.discard(partition)
            elif partition not in self._truncated:
                self._truncated.add(partition)
                log.error(
                    "%s-%d: the log ends before offset %d, but the table has records up to offset %d. The log has lost "
                    "records, for example in an unclean leader election; new records before offset %d will not be in "
                    "the table. To write the table again from the log, set another ottla.table.location",
                    self.topic,
                    partition,
                    end,
                    offset - 1,
                    offset,
                )

    def backlog_bytes(self, ends: Ends) -> int:
        """Return the approximate number of bytes of the log that are not in the table. If some of them are no longer
        in the directory of their partition, the partition counts as at least `flush_bytes`, so that a flush is due.
        """
        size = 0
        for partition, directory in ends.directories.items():
            start = self._start(partition, ends)
            if start < ends.high_watermarks.get(partition, 0):
                stored = ReadOnlyLog(directory, start, None)
                size += stored.size_from(start)
                size += self._flush_bytes if start < stored.start else 0
        return size

    def _start(self, partition: int, ends: Ends) -> int:
        return self.offsets.get(partition, ends.starts.get(partition, 0))

    def flush(self, ends: Ends) -> int:
        """Write and commit new records, up to about `flush_bytes`. Return the number of records.

        Raises CommitConflictError if a commit of another writer is in conflict with this one, and TableError if a
        leader has changed while the records were read.
        """
        files = _Files(self.table)
        self.changed = []
        try:
            offsets, records, removed = self._write(files, ends)
            written = files.close()
            if records and not ends.are_current():
                raise TableError(f"{self.topic}: a leader has changed while its records were read; reading them again")
            if self._dead_letters is not None and self._dead_letters.commit(offsets):
                self.changed.append(self._dead_letters.table)
        except BaseException:
            files.discard()
            if self._dead_letters is not None:
                self._dead_letters.discard()
            raise
        if records:
            try:
                commit_after(self.table, Commit(written, removed, offsets), self.offsets)
            except CommitConflictError:
                files.discard()
                self.offsets = self.table.offsets
                raise
            self.changed.append(self.table)
        self.offsets = offsets
        return records

    def _write(self, files: _Files, ends: Ends) -> tuple[dict[int, int], int, list[TableFile]]:
        """Write files. Return the next offset of each partition, the number of records that were read, and the files
        of the table that the new ones replace.
        """
        offsets, count, size = dict(self.offsets), 0, 0
        upserts = Upserts() if self._is_upsert else None
        for partition, records, next_offset, nbytes in self._records(ends):
            rows = self._convert(partition, records)
            batch = rows.batch
            if upserts is not None:
                upserts.add(rows, records)
            else:
                files.write(batch, self._converter.schema)
            offsets[partition] = next_offset
            count += records.num_rows
            size += nbytes
            if size >= self._flush_bytes:
                break
        removed: list[TableFile] = []
        if upserts is not None and count:
            for file, batches in upserts.replaced(self.table):
                removed.append(file)
                for batch in batches:
                    files.write(batch, batch.schema)
            for batch in upserts.rows():
                files.write(batch, self._converter.schema)
        return offsets, count, removed

    def _convert(self, partition: int, records: Any) -> Rows:
        if self._dead_letters is None:
            return self._converter.convert(records)
        rows = self._converter.convert(self._dead_letters.without_dead(partition, records))
        if rows.dead is not None:
            self._dead_letters.write(rows.dead)
        return rows

    def _records(self, ends: Ends) -> Iterator[tuple[int, Any, int, int]]:
        """Yield the partition, a batch of records, the offset after it and its size in bytes."""
        for partition in sorted(ends.directories):
            start = self._start(partition, ends)
            end = ends.high_watermarks.get(partition, 0)
            for columns, next_offset in self._chunks(partition, ends.directories[partition], start, end):
                yield partition, record_batch(columns, partition), next_offset, columns.nbytes

    def _chunks(self, partition: int, directory: Path, start: int, end: int) -> Iterator[Chunk]:
        tp = TopicPartition(self.topic, partition)
        reader = self._readers.setdefault(partition, SegmentReader(tp))
        while start < end:
            try:
                for chunk in reader.read(directory, start, end):
                    start = chunk.next_offset
                    yield chunk
                return
            except OffsetOutOfRangeError:
                local = ReadOnlyLog(directory, start, None).start
                if local <= start:
                    raise TableError(f"{directory}: the log is being moved or deleted") from None
            first = self._first_offset(tp, start, local)
            if first > start:
                self._log_lost(tp, start, first)
            if first < local and self._tiered is not None:
                yield from self._tiered.read(tp, first, min(local, end))
            start = local

    def _first_offset(self, tp: TopicPartition, start: int, local: int) -> int:
        """Return the first offset from `start` on that can be read, in remote storage or on this disk."""
        if self._tiered is None:
            return local
        first = self._tiered.first_offset(tp)
        if first is None:
            raise TableError(f"{tp}: there is no leader")
        return min(max(first, start), local)

    def _log_lost(self, tp: TopicPartition, start: int, first: int) -> None:
        log.error(
            "%s: offsets %d to %d were deleted before they were written to the table. If retention has deleted them, "
            "increase retention.ms or retention.bytes, or run the writer without long pauses.",
            tp,
            start,
            first - 1,
        )


class _Files:
    """The new files of a commit. When the table evolves, the next rows are written to new files."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._writers = [FileWriter(table)]
        self._columns = pa.struct(list(table.schema))

    def write(self, batch: Any, schema: Any) -> None:
        """Add rows with a schema. If the table lacks columns or fields, or has narrower numbers, it evolves first."""
        if lacks(self._columns, pa.struct(list(schema))):
            self._table.evolve(schema)
            self._writers.append(FileWriter(self._table))
            self._columns = pa.struct(list(self._table.schema))
        self._writers[-1].write(batch)

    def close(self) -> list[WrittenFile]:
        """Complete all files, and return them."""
        return [file for writer in self._writers for file in writer.close()]

    def discard(self) -> None:
        """Close and delete all files."""
        for writer in self._writers:
            writer.discard()
