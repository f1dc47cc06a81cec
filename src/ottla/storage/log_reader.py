"""Reads logs from log directories without a broker, or while a broker writes to them.

Reading ends at the high watermark of the last checkpoint. Bytes before it never change, except that compaction and
retention replace and unlink whole files; a mapped file stays as it was. Nothing is written, and no lock is taken.
"""

from __future__ import annotations

import logging
import mmap
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ottla.errors import CorruptMessageError, KafkaStorageError, OffsetOutOfRangeError
from ottla.model import TopicPartition
from ottla.records import any_magic
from ottla.records.batch import MAGIC, BatchHeader
from ottla.storage.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, read_offsets
from ottla.storage.index import OffsetIndex
from ottla.storage.log_dir import parse_directory_name
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, file_name

log = logging.getLogger("ottla.storage")

INDEX_BYTES = 10 * 1024 * 1024
TRIES = 5
"""Maximum number of times that the segments are listed, if compaction or retention deletes some meanwhile."""


class StoredBatch(NamedTuple):
    """A batch in a mapped file. The mapping lives as long as its `data` is used."""

    data: memoryview
    position: int
    header: BatchHeader


class ReadOnlyLog:
    """One partition's log."""

    def __init__(self, directory: Path, start: int, high_watermark: int | None) -> None:
        self.directory = directory
        bases = self._bases()
        self.start = max(start, bases[0] if bases else 0)
        """The first offset that exists and is not deleted."""
        self._high_watermark = high_watermark

    @cached_property
    def end(self) -> int:
        """The high watermark; without a checkpoint, the end of the last whole batch."""
        high_watermark = self._high_watermark
        reached = self._reached(high_watermark)
        if high_watermark is not None and reached < high_watermark:
            log.warning(
                "%s ends at offset %d, before its high watermark %d: the records in between are lost",
                self.directory,
                reached,
                high_watermark,
            )
        return max(self.start, reached if high_watermark is None else min(reached, high_watermark))

    def batches(self, start: int, end: int) -> Iterator[StoredBatch]:
        """Yield the batches that contain offsets with start <= offset < end, in order.

        Raises OffsetOutOfRangeError if `start` was deleted, KafkaStorageError if a segment cannot be read,
        CorruptMessageError for damaged batches.
        """
        for attempt in range(TRIES):
            try:
                for batch in self._batches(start, end):
                    yield batch
                    start = batch.header.next_offset
                return
            except FileNotFoundError as error:
                # Compacted or deleted since it was listed; the new listing has its replacement.
                if attempt == TRIES - 1:
                    raise KafkaStorageError(f"{self.directory}: {error}") from error

    def _batches(self, start: int, end: int) -> Iterator[StoredBatch]:
        if start >= end:
            return
        bases = self._bases()
        first = bisect_right(bases, start) - 1
        if first < 0:
            # Compaction keeps the first segment's name: only retention, or the deletion of the topic, removes it.
            raise OffsetOutOfRangeError(f"{self.directory}: offset {start} was deleted")
        for base in bases[first:]:
            data = self._mapped(base) if base < end else memoryview(b"")
            reached = 0
            for position, header in _headers(data, self._position(data, base, start) if base <= start else 0):
                reached = position + header.size_in_bytes
                if header.last_offset < start:
                    continue
                # the header of an old compressed message has only its last offset
                if header.magic == MAGIC and header.base_offset >= end:
                    return
                yield StoredBatch(data, position, header)
                if header.next_offset >= end:
                    # The rest may be incomplete, or torn by a crash, and is not read.
                    return
            if base < min(end, bases[-1]) and reached < data.nbytes:
                raise CorruptMessageError(
                    f"{self.directory / file_name(base, LOG_SUFFIX)}: no valid batch at byte {reached}"
                )

    def _reached(self, until: int | None) -> int:
        """Return the end of the last whole batch; with `until`, of the first one that ends there or later."""
        bases = self._bases()
        if not bases:
            return 0
        reached = base = bases[-1]
        if until is not None and base >= until:
            return base
        try:
            data = self._mapped(base)
        except FileNotFoundError:  # deleted since it was listed: its end is unknown
            return base if until is None else until
        for _, header in _headers(data, 0 if until is None else self._position(data, base, until - 1)):
            reached = header.next_offset
            if until is not None and reached >= until:
                break
        return reached

    def _bases(self) -> list[int]:
        """Return the base offsets of the segments."""
        stems = (entry.stem for entry in self.directory.glob(f"*{LOG_SUFFIX}"))
        return sorted(int(stem) for stem in stems if stem.isdigit())

    def _mapped(self, base: int) -> memoryview:
        with (self.directory / file_name(base, LOG_SUFFIX)).open("rb") as file:
            try:
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            except ValueError:  # an empty file cannot be mapped
                return memoryview(b"")

    def _position(self, data: memoryview, base: int, offset: int) -> int:
        """Return the position from which to look for an offset; the start of the file if the index is missing, as
        for an active segment.

        The same if the index does not match, because compaction may have replaced both files meanwhile.
        """
        index = OffsetIndex(self.directory / file_name(base, INDEX_SUFFIX), base, INDEX_BYTES)
        try:
            index.open(writable=False)
            at = index.find(offset - base)
            position = index.entry(at)[1] if at >= 0 else 0
            return position if _is_start(data, position, offset) else 0
        finally:
            index.close()


def _is_start(data: memoryview, position: int, offset: int) -> bool:
    """Return whether a whole batch begins at the position and does not end after the offset."""
    try:
        if not 0 < position < data.nbytes or not any_magic.begins_in(data, position, data.nbytes - position):
            return False
        header = any_magic.read_header(data, position)
        if header.last_offset > offset or position + header.size_in_bytes > data.nbytes:
            return False
        any_magic.verify(data, position, header)
    except CorruptMessageError:
        return False
    return True


def _headers(data: memoryview, position: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of every whole batch from `position` on; zeros after the last one end it."""
    while any_magic.begins_in(data, position, data.nbytes - position) and any(data[position + 8 : position + 12]):
        header = any_magic.read_header(data, position)
        if position + header.size_in_bytes > data.nbytes:
            return
        yield position, header
        position += header.size_in_bytes


def offline_logs(log_dirs: list[Path]) -> dict[TopicPartition, ReadOnlyLog]:
    """Return the logs in log directories, as they are now. Raises KafkaStorageError for a path that is not a directory.

    Of the replicas in directories of several brokers, the one with the highest high watermark is used.
    """
    logs: dict[TopicPartition, ReadOnlyLog] = {}
    for path in log_dirs:
        if not path.is_dir():
            raise KafkaStorageError(f"{path} is not a directory")
        starts = read_offsets(path / LOG_START_OFFSETS)
        has_ends = (path / HIGH_WATERMARKS).exists()
        ends = read_offsets(path / HIGH_WATERMARKS)
        for directory in sorted(path.iterdir()):
            tp = parse_directory_name(directory.name)
            if tp is not None and directory.is_dir():
                replica = ReadOnlyLog(directory, starts.get(tp, 0), ends.get(tp, 0) if has_ends else None)
                if tp not in logs or logs[tp].end < replica.end:
                    logs[tp] = replica
    return logs
