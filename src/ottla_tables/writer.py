"""Writes one topic to its table: reads the new records of all partitions, writes files, and commits both at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.errors import OffsetOutOfRangeError
from ottla.model import TopicPartition
from ottla.storage.log_reader import ReadOnlyLog
from ottla_tables.columns import record_batch
from ottla_tables.errors import CommitConflictError, TableError
from ottla_tables.formats.table import Commit, Table
from ottla_tables.log.segments import SegmentReader
from ottla_tables.parquet import FileWriter

log: Final = logging.getLogger("ottla.tables")

COMMIT_ATTEMPTS: Final = 5


class Ends(NamedTuple):
    """The readable part of a topic: directory, first offset and high watermark of each partition.

    `are_current`: whether the leaders are still the same. An earlier leader may have records that were never committed.
    """

    directories: Mapping[int, Path]
    starts: Mapping[int, int]
    high_watermarks: Mapping[int, int]
    are_current: Callable[[], bool] = lambda: True


class TableWriter:
    """The writer of one table. Its state is in the table itself; here is a copy of the offsets."""

    def __init__(self, topic: str, table: Table, flush_bytes: int) -> None:
        self.topic = topic
        self.table = table
        self.offsets = table.load().offsets
        self._flush_bytes = flush_bytes
        self._readers: dict[int, SegmentReader] = {}

    def is_behind(self, ends: Ends) -> bool:
        """Return whether there are offsets that the table lacks."""
        return any(
            self._start(partition, ends) < ends.high_watermarks.get(partition, 0) for partition in ends.directories
        )

    def backlog_bytes(self, ends: Ends) -> int:
        """Return about how many bytes of the log are not in the table."""
        size = 0
        for partition, directory in ends.directories.items():
            start = self._start(partition, ends)
            if start < ends.high_watermarks.get(partition, 0):
                size += ReadOnlyLog(directory, start, None).size_from(start)
        return size

    def _start(self, partition: int, ends: Ends) -> int:
        return self.offsets.get(partition, ends.starts.get(partition, 0))

    def flush(self, ends: Ends) -> int:
        """Write about flush.bytes of new records and commit them. Return the number of rows.

        Raises CommitConflictError if another writer has committed these records.
        """
        files = FileWriter(self.table)
        try:
            offsets, rows = self._write(files, ends)
            written = files.close()
            if written and not ends.are_current():
                raise TableError(f"{self.topic}: a leader has changed while its records were read; reading them again")
            if written:
                self._commit(Commit(written, (), offsets))
        except BaseException:
            files.discard()
            raise
        self.offsets = offsets
        return rows

    def _write(self, files: FileWriter, ends: Ends) -> tuple[dict[int, int], int]:
        offsets, rows, size = dict(self.offsets), 0, 0
        for partition in sorted(ends.directories):
            for batch, next_offset, nbytes in self._read(partition, ends):
                files.write(batch)
                offsets[partition] = next_offset
                rows += batch.num_rows
                size += nbytes
                if size >= self._flush_bytes:
                    return offsets, rows
        return offsets, rows

    def _read(self, partition: int, ends: Ends) -> Iterator[tuple[Any, int, int]]:
        """Yield batches of rows, each with the offset after it and its size."""
        tp = TopicPartition(self.topic, partition)
        reader = self._readers.setdefault(partition, SegmentReader(tp))
        directory, end = ends.directories[partition], ends.high_watermarks.get(partition, 0)
        start = self._start(partition, ends)
        while start < end:
            try:
                for columns, next_offset in reader.read(directory, start, end):
                    start = next_offset
                    yield record_batch(columns, partition), next_offset, columns.nbytes
                return
            except OffsetOutOfRangeError:
                first = ReadOnlyLog(directory, start, end).start
                if first <= start:
                    raise
                log.error(
                    "%s: offsets %d to %d were deleted before they were written to the table; "
                    "retention.ms or retention.bytes is too small, or the writer has not run",
                    tp,
                    start,
                    first - 1,
                )
                start = first

    def _commit(self, commit: Commit) -> None:
        for attempt in range(COMMIT_ATTEMPTS):
            try:
                self.table.commit(commit)
                return
            except CommitConflictError:
                # Another program has changed the table, such as a compaction by Spark: the files are still right if the
                # offsets are those that they continue.
                offsets = self.table.load().offsets
                if offsets == commit.offsets:
                    return  # the commit has succeeded, although its response was lost
                if offsets != self.offsets or attempt == COMMIT_ATTEMPTS - 1:
                    self.offsets = offsets
                    raise
