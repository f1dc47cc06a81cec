"""Table maintenance: merges small files, and deletes old snapshots with the files that only they use."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from ottla.clock import now_ms
from ottla.config.topic import TableConfig
from ottla_tables.committing import commit_after
from ottla_tables.errors import CommitConflictError
from ottla_tables.formats.table import Commit, Snapshot, Table, TableFile
from ottla_tables.parquet import FileWriter, read_batches

log: Final = logging.getLogger("ottla.tables")

EXPIRY_MS: Final = 600_000
"""Minimum time in milliseconds between two deletions of old snapshots."""


class Maintenance:
    """The maintenance of one table, by its writer."""

    def __init__(self, topic: str, table: Table, config: TableConfig, clock_ms: Callable[[], int] = now_ms) -> None:
        self._topic = topic
        self._table = table
        self._file_bytes = config.ottla_table_flush_bytes
        self._count = config.ottla_table_compact_files
        self._retention_ms = config.ottla_table_retention_ms
        self._clock_ms = clock_ms
        self._expired_ms = 0

    def run(self) -> None:
        """Merge small files if a directory has at least ottla.table.compact.files of them (0: never; 1 counts as 2). At
        most once every `EXPIRY_MS`, delete old snapshots (unless ottla.table.retention.ms is negative). If another
        writer commits meanwhile, leave the work to the next run.
        """
        try:
            if self._count:
                self._compact(self._table.load())
            if self._retention_ms >= 0 and self._clock_ms() >= self._expired_ms + EXPIRY_MS:
                self._table.expire(self._clock_ms() - self._retention_ms)
                self._expired_ms = self._clock_ms()
        except CommitConflictError as error:
            log.info(
                "Topic %s: maintenance of its table or dead-letter table is left to a later flush: %s",
                self._topic,
                error,
            )

    def _compact(self, snapshot: Snapshot) -> None:
        directories: dict[str, list[TableFile]] = defaultdict(list)
        for file in snapshot.files:
            if file.size < self._file_bytes // 2:
                directories[file.path.rpartition("/")[0]].append(file)
        small = [file for files in directories.values() if len(files) >= max(self._count, 2) for file in files]
        if small:
            began = time.perf_counter()
            self._merge(small, snapshot)
            log.info(
                "Topic %s: merged small files (%d, such as %s) in %.2f s",
                self._topic,
                len(small),
                small[0].path,
                time.perf_counter() - began,
            )

    def _merge(self, files: Sequence[TableFile], snapshot: Snapshot) -> None:
        merged = FileWriter(self._table, self._file_bytes)
        try:
            for file in files:
                for batch in read_batches(self._table, file.path):
                    merged.write(batch)
            written = merged.close()
        except BaseException:
            merged.discard()
            raise
        try:
            commit_after(self._table, Commit(written, files, snapshot.offsets, is_rewrite=True), snapshot.offsets)
        except CommitConflictError:
            merged.discard()
            raise
