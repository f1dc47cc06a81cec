"""A segment: one `.log` file of batches and the two indexes over it.

Invariants: the file has whole batches with increasing offsets before `readable`. The batches from there to `size` are
queued to be written. Bytes after `size` are preallocated, or the rest of a failed write. Every offset index entry
points to the start of a batch. Of the segments of a log, only the last one is appended to. Not thread-safe: the
segments of a log are used on the event loop only, except `sync`, `has_unflushed_index` and, once they are removed from
the log, `delete_files`. Compaction writes its new segments in a worker.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import CorruptMessageError, KafkaStorageError
from ottla.page_cache import cached_only
from ottla.records import any_magic
from ottla.records.batch import HEADER_BYTES, MAGIC, BatchHeader
from ottla.records.scanner import MAX_RELATIVE_OFFSET, Scanner
from ottla.storage.files import FileSlice, LogFile, sync_file
from ottla.storage.index import OFFSET, POSITION, OffsetIndex, TimeIndex
from ottla.storage.scan import CHUNK_BYTES, MAX_OFFSET, headers, skip, walk

if TYPE_CHECKING:
    from typing_extensions import Buffer

log = logging.getLogger("ottla.storage")

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SNAPSHOT_SUFFIX = ".snapshot"
TXN_INDEX_SUFFIX = ".txnindex"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
"""The suffixes of a segment's files. Producer snapshots are not among them: they cover the log up to their offset."""
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

MAX_SEGMENT_BYTES = (1 << 31) - 1
"""Maximum size of a segment in bytes, because positions in an index have 31 bits."""
WriteFile = Callable[[LogFile, int, "Buffer"], None]
CLOSED, READABLE, WRITABLE = range(3)
"""Modes in which the indexes of a segment are opened."""
RECENT_BATCHES = 512
"""Maximum number of batches whose positions are kept in memory: those last appended, and those at which a read has
ended, so that consumers find the batches that they read next.
"""


def file_name(offset: int, suffix: str) -> str:
    """Return the name of a file with Kafka's format: the offset with 20 digits, and the suffix."""
    return f"{offset:020d}{suffix}"


class TimestampAndOffset(NamedTuple):
    """A timestamp in milliseconds, and the offset of a record with it, or of the last record in its batch."""

    timestamp: int
    offset: int


class Segment:
    """A segment of a log. Its files are opened at the first use."""

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        *,
        index_bytes: int,
        index_interval_bytes: int,
        reserve_bytes: int = 0,
        ending: str = "",
    ) -> None:
        """`reserve_bytes`: size to which the file is preallocated while the segment is active; 0: it is not.

        `ending`: an additional suffix of all file names, for segments that are not part of a log yet.
        """
        self.directory = directory
        self.ending = ending
        self.base_offset = base_offset
        self.index_interval_bytes = index_interval_bytes
        self.offset_index = OffsetIndex(self.path(INDEX_SUFFIX), base_offset, index_bytes)
        self.time_index = TimeIndex(self.path(TIME_INDEX_SUFFIX), base_offset, index_bytes)
        self.size = 0
        self._unwritten: int | None = None
        self.max_timestamp = -1
        self.offset_of_max_timestamp = base_offset
        self.first_timestamp = -1
        self.created_ms = 0
        self._file: LogFile | None = None
        self._bytes_since_index_entry = 0
        self._recent: dict[int, int] = {}
        self._indexes = CLOSED
        self._reserve_bytes = reserve_bytes
        self._reserved = False
        """Whether the file is longer than `size` because it is preallocated."""

    def path(self, suffix: str) -> Path:
        """Return the path of one of the segment's files."""
        return self.directory / (file_name(self.base_offset, suffix) + self.ending)

    @property
    def file(self) -> LogFile:
        """The `.log` file, opened at first use."""
        if self._file is None:
            self._file = LogFile(self.path(LOG_SUFFIX))
        return self._file

    @property
    def readable(self) -> int:
        """The position before which all batches are in the file: `size`, unless writes are queued."""
        return self.size if self._unwritten is None else self._unwritten

    def set_unwritten(self, position: int | None) -> None:
        """Set the position of the first batch whose write is queued; None if all are written."""
        self._unwritten = position

    # Opening and closing

    def create(self, now_ms: int) -> None:
        """Create the `.log` and index files of an empty segment, or empty existing ones. Appends are possible then."""
        self._file = LogFile(self.path(LOG_SUFFIX), create=True)
        self._file.truncate(0)
        self.created_ms = now_ms
        for index in (self.offset_index, self.time_index):
            index.create()
        self._indexes = WRITABLE

    def load(self) -> None:
        """Load the size and the modification time of an existing `.log` file. Files are opened at the first use."""
        stat = self.path(LOG_SUFFIX).stat()
        self.size = stat.st_size
        self.created_ms = int(stat.st_mtime * 1000)

    def _load_indexes(self, level: int = READABLE) -> None:
        if self._indexes >= level:
            return
        try:
            for index in (self.offset_index, self.time_index):
                index.open(writable=level == WRITABLE)
        except OSError:
            self._indexes = CLOSED
            self.offset_index.close()
            self.time_index.close()
            raise
        self._indexes = level
        if self.time_index.last_timestamp > self.max_timestamp:
            self.max_timestamp = self.time_index.last_timestamp
            self.offset_of_max_timestamp = self.time_index.last_offset

    def sanity_check(self) -> None:
        """Raise KafkaStorageError if an index is missing or damaged, or the offset index points beyond the end of the
        `.log` file.
        """
        for index in (self.offset_index, self.time_index):
            if not index.path.exists():
                raise KafkaStorageError(f"{index.path} is missing")
        self._load_indexes()
        self.offset_index.sanity_check()
        self.time_index.sanity_check()
        if self.offset_index.entries and self.offset_index.entry(self.offset_index.entries - 1)[1] >= self.size:
            raise KafkaStorageError(f"{self.offset_index.path} points beyond the end of its log")

    def finish(self) -> bool:
        """Add the last time index entry unless the index has it, write and close both indexes, and free preallocated
        space.

        Return whether an index file has changed, so that the segment has to be flushed again.
        """
        self._load_indexes(WRITABLE)
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp, even_if_full=True)
        # After an OSError up to here, the segment is still open for appends.
        is_changed = any([self.offset_index.write(), self.time_index.write()])
        if self._reserved:
            self.file.truncate(self.size)
            self._reserved = False
        self.offset_index.close()
        self.time_index.close()
        self._indexes = CLOSED
        self._recent.clear()
        return is_changed

    def set_modification_time(self) -> None:
        """Set the file's modification time to `created_ms`.

        So a segment that compaction has written keeps the time of the last segment that it replaces.
        """
        os.utime(self.path(LOG_SUFFIX), (self.created_ms / 1000, self.created_ms / 1000))

    def close(self) -> None:
        """Close the files, without writing index entries. Slices of the log stay readable."""
        self.offset_index.close()
        self.time_index.close()
        self._indexes = CLOSED
        self._recent.clear()
        self._file = None

    def rest(self) -> bool:
        """Write new index entries and close all files until they are used again.

        Return whether an index file has changed, like `finish`.
        """
        is_changed = self._indexes == WRITABLE and self.finish()
        self.close()
        return is_changed

    @property
    def has_unflushed_index(self) -> bool:
        """Whether an index file may have been written since the last `sync`. Thread-safe."""
        return self.offset_index.is_unflushed or self.time_index.is_unflushed

    def sync(self) -> None:
        """Wait until the segment's files and the producer snapshot at its base offset are on disk.

        May be called in a worker thread while the event loop appends.
        """
        file = self._file
        if file is not None:
            file.sync()
        else:
            sync_file(self.path(LOG_SUFFIX))
        self.offset_index.sync()
        self.time_index.sync()
        for suffix in (SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX):
            sync_file(self.path(suffix))

    # Writing

    def append(
        self, data: Buffer, batches: Sequence[tuple[BatchHeader, int, int]], write: WriteFile = LogFile.write
    ) -> None:
        """Append the batches in `data`. `batches`: header, start and end of each batch in `data`.

        `write`: writes the data to the file, or queues the write. After an OSError, no batch is added.
        """
        if self._indexes < WRITABLE:
            self._load_indexes(WRITABLE)
        position = self.size
        try:
            if self._reserve_bytes and not self._reserved:
                self.file.reserve(self._reserve_bytes)
                self._reserved = True
            write(self._file or self.file, position, data)
        except OSError:
            self.file.truncate(position)
            raise
        self.size = position + batches[-1][2]
        for header, start, end in batches:
            self._remember(header.base_offset, position + start)
            self._note(position + start, end - start, header)
        if self.first_timestamp < 0:
            self.first_timestamp = batches[0][0].max_timestamp

    def _remember(self, offset: int, position: int) -> None:
        """Remember the position of the first batch that ends at `offset` or later, for reads that begin there."""
        if len(self._recent) >= RECENT_BATCHES:
            del self._recent[next(iter(self._recent))]
        self._recent[offset] = position

    def _note(self, position: int, nbytes: int, header: BatchHeader) -> None:
        """Update the indexes and the highest timestamp for a batch that was appended at `position`."""
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp, self.offset_of_max_timestamp = header.max_timestamp, header.last_offset
        if self._bytes_since_index_entry > self.index_interval_bytes and not self.offset_index.is_full:
            self.offset_index.append(header.last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += nbytes

    def recover(self, *, contiguous_from: int = MAX_OFFSET) -> int:
        """Check every batch, truncate the file at the first invalid one, and rebuild both indexes.

        Return the offset after the last batch; the base offset if there is none.

        `contiguous_from`: offset from which on no offsets may be missing between batches.
        """
        scanner = self._rebuild(self.file.size(), check_crc=True, contiguous_from=contiguous_from)
        self.size = scanner.position
        if self.size != self.file.size():
            self.file.truncate(self.size)
        return scanner.next_offset

    def rebuild_indexes(self) -> None:
        """Rebuild both indexes. The log is not changed, even if it is damaged."""
        with cached_only(
            enabled=False
        ):  # a lookup that needs the index cannot be interrupted and repeated for each part that is not cached
            scanner = self._rebuild(self.size, check_crc=False)
        if scanner.position != self.size:
            log.error(
                "%s is damaged at byte %d; its indexes are rebuilt up to there, and later records may be unreadable",
                self.path(LOG_SUFFIX),
                scanner.position,
            )

    def _rebuild(self, nbytes: int, *, check_crc: bool, contiguous_from: int = MAX_OFFSET) -> Scanner:
        for index in (self.offset_index, self.time_index):
            index.create()
        self._indexes = WRITABLE
        self._recent.clear()
        scanner = Scanner(
            0,
            self.base_offset,
            check_crc=check_crc,
            contiguous_from=contiguous_from,
            max_offset=self.base_offset + MAX_RELATIVE_OFFSET,
            index_interval_bytes=self.index_interval_bytes,
        )
        walk(self.file, scanner, nbytes)
        for last_offset, position, timestamp, offset_of_timestamp in scanner.entries:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(timestamp, offset_of_timestamp)
        self.max_timestamp, self.offset_of_max_timestamp = scanner.max_timestamp, scanner.offset_of_max_timestamp
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp, even_if_full=True)
        return scanner

    def truncate_to(self, offset: int) -> int:
        """Remove all batches that end at `offset` or later. Return the offset at which the segment ends then: `offset`,
        or the start of the first removed batch if that is lower.
        """
        self._load_indexes(WRITABLE)
        cut = self.position_of(offset)
        position = self.size if cut is None else cut
        end = next((header.base_offset for _, header in headers(self.file, position, self.size)), offset)
        self._recent.clear()
        if position == 0:
            self.first_timestamp = -1
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.max_timestamp = self.time_index.last_timestamp
        self.offset_of_max_timestamp = self.time_index.last_offset
        self._bytes_since_index_entry = 0
        self.file.truncate(position)
        self.size = position
        start = self.offset_index.entry(self.offset_index.entries - 1)[1] if self.offset_index.entries else 0
        for _, header in headers(self.file, start, position):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.offset_of_max_timestamp = header.max_timestamp, header.last_offset
        return min(offset, end)

    # Reading

    def position_of(self, offset: int) -> int | None:
        """Return the position of the first batch that ends at `offset` or later; None if there is none.

        A batch whose write is queued need not be found.
        """
        recent = self._recent.get(offset)
        if recent is not None:
            return recent
        if offset <= self.base_offset:
            return 0 if self.size else None
        start = self._indexed_start(offset - self.base_offset, by=OFFSET)
        position, _, nbytes = skip(self.file, start, self.readable, offset=offset, chunk_bytes=self._chunk_bytes)
        return position if nbytes and position + nbytes <= self.readable else None

    @property
    def _chunk_bytes(self) -> int:
        """The number of bytes to read at an index entry to find a batch: only a header if the batches are large."""
        return HEADER_BYTES if self.size > CHUNK_BYTES * (self.offset_index.entries + 1) else CHUNK_BYTES

    def _indexed_start(self, target: int, *, by: int) -> int:
        """Return the position of the last indexed batch at or before `target`, a relative offset (`by` OFFSET) or a
        position (POSITION); 0 if there is none.

        If the index entry does not point to a batch, the indexes are rebuilt.
        """
        self._load_indexes()
        i = self.offset_index.find(target, by)
        if i >= 0 and not self.offset_index.is_built and not self._is_start(*self.offset_index.entry(i)):
            log.warning("Rebuilding index %s, which does not match its log", self.offset_index.path)
            self.rebuild_indexes()
            i = self.offset_index.find(target, by)
        return 0 if i < 0 else self.offset_index.entry(i)[1]

    def indexed_offset(self, position: int) -> int | None:
        """Return the last offset of the first indexed batch at `position` or later; None if there is none."""
        self._load_indexes()
        i = self.offset_index.find(position - 1, POSITION) + 1
        return self.base_offset + self.offset_index.entry(i)[0] if i < self.offset_index.entries else None

    def _is_start(self, relative_offset: int, position: int) -> bool:
        """Return whether a batch starts at `position` that ends with the relative offset or before.

        It may end before if several batches were appended together.
        """
        head = self.file.read(position, HEADER_BYTES) if 0 < position < self.readable else b""
        try:
            if not any_magic.begins_in(head, 0, len(head)):
                return False
            header = any_magic.read_header(head)
            if header.magic < MAGIC:  # headers of old messages are too short to be recognized reliably
                any_magic.verify(self.file.read(position, header.size_in_bytes), 0, header)
        except CorruptMessageError:
            return False
        return self.base_offset <= header.base_offset and header.last_offset <= self.base_offset + relative_offset

    def read(self, start: int, max_bytes: int, end: int, *, at_least_one: bool) -> FileSlice:
        """Return whole batches from position `start` to before `end`, at most `max_bytes`; with `at_least_one`, at
        least the first one. `start` and `end` must be boundaries of batches.
        """
        assert 0 <= start <= end <= self.size
        if end - start <= max_bytes:
            return FileSlice(self.file, start, end - start)
        limit = start + max_bytes
        begin = max(start, self._indexed_start(limit, by=POSITION))
        stop, next_offset, nbytes = skip(self.file, begin, end, room=limit - begin, chunk_bytes=self._chunk_bytes)
        if stop == start and at_least_one and start + nbytes <= end:
            stop = start + nbytes
        elif start < stop < end and next_offset >= 0:
            self._remember(next_offset, stop)  # the next read of a consumer begins there
        return FileSlice(self.file if stop > start else None, start, stop - start, is_cut=stop < end)

    def batches(self, start: int = 0) -> list[tuple[int, BatchHeader]]:
        """Return position and header of all batches from the one at position `start` on."""
        return list(headers(self.file, start, self.readable))

    def end_offset(self) -> int:
        """Return the offset after the last batch; the base offset if the file is empty.

        Reads the headers of the batches from the last index entry on. Raises CorruptMessageError if the file does not
        end with a valid batch and is not empty.
        """
        self._load_indexes()
        end = self.offset_index.entry(self.offset_index.entries - 1)[1] if self.offset_index.entries else 0
        last = None
        for position, header in headers(self.file, end, self.size):
            end, last = position + header.size_in_bytes, header
        if end != self.size:
            raise CorruptMessageError("the file does not end with a whole batch")
        if last is None:
            return self.base_offset
        any_magic.verify(self.file.read(end - last.size_in_bytes, last.size_in_bytes), 0, last)
        return last.next_offset

    def find_timestamp(self, timestamp: int, from_offset: int) -> tuple[TimestampAndOffset, int] | None:
        """Return timestamp and offset of the first record from `from_offset` on with a timestamp of `timestamp` or
        later, and its leader epoch; None if there is none.
        """
        self._load_indexes()
        start = self.position_of(max(self.time_index.lookup(timestamp), from_offset))
        if start is None:
            return None
        for position, header in headers(self.file, start, self.readable):
            if header.max_timestamp < timestamp:
                continue
            batch = self.file.read(position, header.size_in_bytes)
            for record in any_magic.decode_records(batch, 0, header, from_offset):
                if record.timestamp >= timestamp:
                    return TimestampAndOffset(record.timestamp, record.offset), header.leader_epoch
        return None

    def latest(self) -> TimestampAndOffset:
        """Return the highest timestamp in the segment, -1 if no record has one, and the last offset of its batch."""
        if self.max_timestamp < 0 and self.size and self._indexes == CLOSED:
            self._load_indexes()
            self.rest()  # retention calls this method for every segment, so do not keep the files open
        return TimestampAndOffset(self.max_timestamp, self.offset_of_max_timestamp)

    def modified_ms(self) -> int:
        """Return the modification time of the file in milliseconds."""
        return int(self.path(LOG_SUFFIX).stat().st_mtime * 1000)

    def first_batch_timestamp(self) -> int:
        """Return the highest timestamp in the first batch, from which segment.ms counts; -1 if it has none, or the
        segment is empty or damaged.
        """
        if self.first_timestamp < 0 and self.size:
            try:
                self.first_timestamp = next((h.max_timestamp for _, h in headers(self.file, 0, self.readable)), -1)
            except CorruptMessageError:
                return -1
        return self.first_timestamp

    # Names

    def rename(self, old_suffix: str, new_suffix: str) -> None:
        """Change the additional suffix of all file names, for example from `.log.swap` to `.log`."""
        for suffix in SEGMENT_SUFFIXES:
            path = self.path(suffix)
            try:
                path.with_name(path.name + old_suffix).rename(path.with_name(path.name + new_suffix))
            except FileNotFoundError:  # an index file that was never written
                continue

    def delete_files(self, suffix: str = DELETED_SUFFIX) -> None:
        """Delete the files with this additional suffix. Slices that are being sent stay readable."""
        for own in SEGMENT_SUFFIXES:
            path = self.path(own)
            path.with_name(path.name + suffix).unlink(missing_ok=True)
