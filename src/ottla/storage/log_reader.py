"""Reads logs from log directories without a broker, or while a broker writes to them.

Reading ends at the high watermark of the last checkpoint, or at the end of the log if the directory has no checkpoint
of high watermarks. A log that is missing in the checkpoint is read as empty. The data before the high watermark does
not change, except that compaction and retention replace or delete whole files, which does not affect files that are
already mapped. Nothing is written, and no lock is taken.
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
"""Maximum number of attempts to read the segments, if compaction or retention deletes some meanwhile."""


class StoredBatch(NamedTuple):
    """A batch in a mapped file.

    `data`: the whole file, which stays mapped while it is referenced. `position`: where the batch starts in it.
    """

    data: memoryview
    position: int
    header: BatchHeader


class ReadOnlyLog:
    """The log of one partition, for reading only."""

    def __init__(self, directory: Path, start: int, high_watermark: int | None) -> None:
        self.directory = directory
        bases = self._bases()
        self.start = max(start, bases[0] if bases else 0)
        """The log start offset, or the start of the first segment if that is later."""
        self._high_watermark = high_watermark

    @cached_property
    def end(self) -> int:
        """The offset to which the log can be read: the high watermark, or the end of the last whole batch if that is
        lower, or if the high watermark is None; not below `start`.
        """
        high_watermark = self._high_watermark
        reached = self._reached(high_watermark)
        if high_watermark is not None and reached < high_watermark:
            log.warning(
                "%s ends at offset %d, before its checkpointed high watermark %d: the records in between cannot be "
                "read from this replica",
                self.directory,
                reached,
                high_watermark,
            )
        return max(self.start, reached if high_watermark is None else min(reached, high_watermark))

    def batches(self, start: int, end: int) -> Iterator[StoredBatch]:
        """Yield the batches that contain offsets with start <= offset < end, in order, and perhaps one more message of
        format 0 or 1, because its header may not have its first offset.

        Raises OffsetOutOfRangeError if `start` is before the first segment or there is no segment, KafkaStorageError if
        segments disappear in each of TRIES attempts, CorruptMessageError for bytes that cannot be a batch. CRCs are not
        verified.
        """
        for attempt in range(TRIES):
            try:
                for batch in self._batches(start, end):
                    yield batch
                    start = batch.header.next_offset
                return
            except FileNotFoundError as error:
                # The segment was compacted or deleted after it was listed. A new listing has its replacement.
                if attempt == TRIES - 1:
                    raise KafkaStorageError(f"{self.directory}: {error}") from error

    def size_from(self, offset: int) -> int:
        """Return the approximate number of bytes in the log from `offset` on."""
        bases = self._bases()
        first = max(bisect_right(bases, offset) - 1, 0)
        size = 0
        for base in bases[first:]:
            try:
                size += (self.directory / file_name(base, LOG_SUFFIX)).stat().st_size
                if base < offset:
                    size -= self._position(self._mapped(base), base, offset)
            except FileNotFoundError:  # deleted or compacted meanwhile
                continue
        return size

    def _batches(self, start: int, end: int) -> Iterator[StoredBatch]:
        if start >= end:
            return
        bases = self._bases()
        first = bisect_right(bases, start) - 1
        if first < 0:
            # The offset was deleted: compaction keeps the first segment's name, so only retention or the deletion of
            # the topic removes it.
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
                    # The rest may be incomplete or damaged by a crash, and is not read.
                    return
            if base < min(end, bases[-1]) and reached < data.nbytes:
                raise CorruptMessageError(
                    f"{self.directory / file_name(base, LOG_SUFFIX)}: no valid batch at byte {reached}"
                )

    def _reached(self, until: int | None) -> int:
        """Return the end offset of the last whole batch, as far as it can be determined.

        If this is `until` or later, any offset from `until` to the end may be returned.
        """
        bases = self._bases()
        if not bases:
            return 0
        reached = base = bases[-1]
        if until is not None and base >= until:
            return base
        try:
            data = self._mapped(base)
        except FileNotFoundError:  # the segment was deleted after it was listed, so its end is unknown
            return base if until is None else until
        for _, header in _headers(data, 0 if until is None else self._position(data, base, until - 1)):
            reached = header.next_offset
            if until is not None and reached >= until:
                break
        return reached

    def _bases(self) -> list[int]:
        """Return the base offsets of all segments, sorted."""
        stems = (entry.stem for entry in self.directory.glob(f"*{LOG_SUFFIX}"))
        return sorted(int(stem) for stem in stems if stem.isdigit())

    def _mapped(self, base: int) -> memoryview:
        with (self.directory / file_name(base, LOG_SUFFIX)).open("rb") as file:
            try:
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            except ValueError:  # an empty file cannot be mapped
                return memoryview(b"")

    def _position(self, data: memoryview, base: int, offset: int) -> int:
        """Return the position in a segment from which to search for an offset.

        It is 0 if the index has no entry up to the offset, such as that of an active segment, or does not match the
        data, because compaction has replaced both files meanwhile.
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
    """Return whether a complete, undamaged batch with a last offset of at most `offset` starts at `position`, which is
    not 0.
    """
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
    """Yield position and header of every whole batch from `position` on.

    An incomplete batch or zeros after the last batch end the iteration. Raises CorruptMessageError for bytes that
    cannot be a batch.
    """
    while any_magic.begins_in(data, position, data.nbytes - position) and any(data[position + 8 : position + 12]):
        header = any_magic.read_header(data, position)
        if position + header.size_in_bytes > data.nbytes:
            return
        yield position, header
        position += header.size_in_bytes


def offline_logs(log_dirs: list[Path]) -> dict[TopicPartition, ReadOnlyLog]:
    """Return the logs in these log directories.

    If several brokers' directories have replicas of a partition, the replica with the highest `end` is returned. Raises
    KafkaStorageError if a path is not a directory, or a checkpoint in it is damaged or cannot be read.
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
