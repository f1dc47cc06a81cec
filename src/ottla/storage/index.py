"""The two sparse indexes of a segment: append-only files of fixed-size entries.

- `.index`: 8 bytes per entry: a batch's last offset relative to the base offset, and its position in the `.log`.
- `.timeindex`: 12 bytes per entry: the highest timestamp so far, and the relative offset of its batch.

The entries of an active segment are in memory, and are written when it is rolled, or its log is idle or closed. That is
safe, because an active segment is checked after a crash and its indexes are rebuilt. (Kafka maps the files instead, so
the entries of an active segment are followed by zeros; such files can be read.) The entries of a closed segment are
read from the file when needed. Not thread-safe, except `sync` and `is_unflushed`.
"""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct
from typing import ClassVar

from ottla.errors import KafkaStorageError
from ottla.records.scanner import last_at_most
from ottla.storage.files import LogFile, SyncedFile

OFFSET, POSITION = 0, 1
"""The fields of an entry of the offset index: relative offset and position in the `.log`."""


BLOCK_ENTRIES = 512
"""The maximum number of entries of a read-only index that a search reads at once."""
NO_BLOCK = 0, b""


class CorruptIndexError(KafkaStorageError):
    """An index file is damaged or does not match its log, so it has to be rebuilt."""


class Index:
    """Base of both indexes. Entries are sorted by both of their fields."""

    ENTRY: ClassVar[Struct]
    FIELDS: ClassVar[tuple[tuple[int, int], tuple[int, int]]]
    """Position and size of the fields in an entry, in bytes."""

    def __init__(self, path: Path, base_offset: int, max_bytes: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.max_entries = max(max_bytes // self.ENTRY.size, 1)
        self.entries = 0
        self._data: bytearray | None = None
        """The entries of a writable index; None if it is read-only or closed."""
        self._file: LogFile | None = None
        """The file of a read-only index; None if it is writable or closed, or the file is missing."""
        self._last_block: tuple[int, bytes] = NO_BLOCK
        """The block of a read-only index in which the last search ended: number of its first entry, and bytes."""
        self._unwritten = False
        """Whether the entries in memory differ from those in the file."""
        self.is_built = False
        """Whether all entries were added since the index was created or opened, so that they match the log. False if
        entries were read from a file, which may not match, and for a read-only index.
        """
        self._synced = SyncedFile(path)

    def create(self) -> None:
        """Create an empty index with an empty file."""
        self.close()
        os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644))
        self._data = bytearray()
        self._unwritten = False
        self.is_built = True
        self.entries = 0
        self._synced.changed()

    def open(self, *, writable: bool) -> None:
        """Open the file; with `writable`, load its entries into memory, so that more can be added.

        A missing file counts as empty.

        The entries are not checked; `sanity_check` does that.
        """
        assert self._data is None, f"{self.path} is being written"
        self.close()
        try:
            self._file = LogFile(self.path, writable=False)
        except FileNotFoundError:
            self.entries = 0
        else:
            self.entries = self._file.size() // self.ENTRY.size
            self._remove_zero_tail()
        self.is_built = writable and not self.entries
        if writable:
            nbytes = self.entries * self.ENTRY.size
            self._data = bytearray() if self._file is None else bytearray(self._file.read(0, nbytes))
            self._unwritten = self._file is None or self._file.size() != nbytes
            self._file = None

    @property
    def is_full(self) -> bool:
        """Whether no further entry fits, so that the segment must be rolled."""
        return self.entries >= self.max_entries

    def entry(self, i: int) -> tuple[int, int]:
        """Return the two fields of entry `i`."""
        assert 0 <= i < self.entries
        size = self.ENTRY.size
        if self._data is not None:
            a, b = self.ENTRY.unpack_from(self._data, i * size)
        else:
            assert self._file is not None
            a, b = self.ENTRY.unpack(self._file.read(i * size, size))
        return a, b

    def _put(self, a: int, b: int) -> None:
        assert self._data is not None, f"{self.path} is not open for writing"
        self._data += self.ENTRY.pack(a, b)
        self._unwritten = True
        self.entries += 1

    def find(self, target: int, field: int = 0) -> int:
        """Return the number of the last entry whose `field` (0 or 1) is at most `target`; -1 if there is none."""
        at, nbytes = self.FIELDS[field]
        if self._data is not None:
            return last_at_most(self._data, self.ENTRY.size, at, nbytes, target)
        first, block = self._block(target, field)
        return first + last_at_most(block, self.ENTRY.size, at, nbytes, target)

    def _block(self, target: int, field: int) -> tuple[int, bytes]:
        """Return the block of a read-only index in which to search for `target`: number of its first entry, and bytes.

        The block is kept in memory, because a consumer's next searches usually end in it, too.
        """
        first, block = self._last_block
        size, unpack_from = self.ENTRY.size, self.ENTRY.unpack_from
        if block and unpack_from(block)[field] <= target:
            is_last = first + len(block) // size == self.entries
            if is_last or target < unpack_from(block, len(block) - size)[field]:
                return first, block
        low, high = 0, self.entries
        while high - low > BLOCK_ENTRIES:
            middle = (low + high) // 2
            if self.entry(middle)[field] <= target:
                low = middle
            else:
                high = middle
        if low < high:
            assert self._file is not None
            self._last_block = low, self._file.read(low * size, (high - low) * size)
        return self._last_block

    def truncate(self, entries: int) -> None:
        """Remove all entries except the first `entries`."""
        if entries < self.entries:
            assert self._data is not None, f"{self.path} is not open for writing"
            del self._data[entries * self.ENTRY.size :]
            self._unwritten = True
            self.entries = entries

    def finish(self) -> None:
        """Write the entries to the file, and close it. Nothing can be added until the index is opened again."""
        self.write()
        self.close()

    def write(self) -> bool:
        """Write the entries to the file if they differ from those in it. Return whether the file was written.

        After an OSError, they are still in memory.
        """
        if self._data is None or not self._unwritten:
            return False
        file = LogFile(self.path, create=True)
        file.truncate(0)
        file.write(0, self._data)
        self._unwritten = False
        self._synced.changed()
        return True

    def close(self) -> None:
        """Close the file, and drop entries that have not been written."""
        self._data = None
        self._file = None
        self._last_block = NO_BLOCK

    @property
    def is_unflushed(self) -> bool:
        """Whether the file may have been written since the last `sync`. Thread-safe."""
        return self._synced.is_changed

    def sync(self) -> None:
        """Wait until the file is on disk. Thread-safe."""
        self._synced.sync()

    def _remove_zero_tail(self) -> None:
        """Ignore the zeros after the entries, which remain in the file if Kafka is killed.

        No entry of an offset index is all zeros, because the start of a segment is never indexed. If a damaged file has
        zeros between entries, the result is arbitrary.
        """
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) // 2
            if any(self.entry(middle)):
                low = middle + 1
            else:
                high = middle
        self.entries = low

    def sanity_check(self) -> None:
        """Raise CorruptIndexError if the file's size is not a whole number of entries."""
        if self.path.stat().st_size % self.ENTRY.size:
            raise CorruptIndexError(f"{self.path}: its size is not a multiple of {self.ENTRY.size}")


class OffsetIndex(Index):
    """Maps offsets to the positions of batches in the `.log` file."""

    ENTRY = Struct(">ii")
    FIELDS = ((0, 4), (4, 4))

    def append(self, offset: int, position: int) -> None:
        """Add a batch that ends with `offset` and begins at `position`."""
        relative = offset - self.base_offset
        assert 0 <= relative <= 0x7FFFFFFF, f"{self.path}: offset {offset}"
        self._put(relative, position)

    @property
    def last_offset(self) -> int:
        """The offset of the last entry; the base offset if there are no entries."""
        return self.base_offset + (self.entry(self.entries - 1)[0] if self.entries else 0)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries whose offset is `offset` or higher."""
        self.truncate(self.find(offset - self.base_offset - 1) + 1)

    def sanity_check(self) -> None:
        """Raise CorruptIndexError if the file's size is not a whole number of entries, or the last entry is invalid.

        It is invalid if its offset is before the first entry's, or if there are several entries and its relative offset
        is zero. A negative relative offset of the first entry is an error, too.
        """
        super().sanity_check()
        if self.entries and (self.entry(self.entries - 1)[0] < self.entry(0)[0] or self.entry(0)[0] < 0):
            raise CorruptIndexError(f"{self.path}: its last offset is before its first")
        if self.entries > 1 and self.entry(self.entries - 1)[0] == 0:
            raise CorruptIndexError(f"{self.path}: its last entry is empty")


class TimeIndex(Index):
    """Maps timestamps to offsets.

    Both increase from entry to entry: no record before an entry's offset has a later timestamp.
    """

    ENTRY = Struct(">qi")
    FIELDS = ((0, 8), (8, 4))

    def maybe_append(self, timestamp: int, offset: int, *, even_if_full: bool = False) -> None:
        """Add an entry if its timestamp is later than the last one's, and the index is not full.

        `even_if_full`: for the last entry of a segment, for which space is reserved.
        """
        if timestamp <= self.last_timestamp or (self.is_full and not even_if_full):
            return
        relative = offset - self.base_offset
        assert 0 <= relative <= 0x7FFFFFFF, f"{self.path}: offset {offset}"
        self._put(timestamp, relative)

    @property
    def is_full(self) -> bool:
        """Whether there is at most space for the last entry of the segment."""
        return self.entries >= self.max_entries - 1

    def lookup(self, timestamp: int) -> int:
        """Return the offset at which to start a search for a record of at least this timestamp. All batches that end
        before the offset are earlier.
        """
        i = self.find(timestamp)
        return self.base_offset if i < 0 else self.base_offset + self.entry(i)[1]

    def _remove_zero_tail(self) -> None:
        """Ignore the zeros after the entries, but not if they are the only entry: timestamp 0 at the base offset.

        The files that Kafka preallocates have space for more than one entry.
        """
        if self.entries > 1:
            super()._remove_zero_tail()

    @property
    def last_timestamp(self) -> int:
        """The timestamp in ms of the last entry, which is the highest; -1 if there are no entries."""
        return self.entry(self.entries - 1)[0] if self.entries else -1

    @property
    def last_offset(self) -> int:
        """The offset of the last entry; the base offset if there are no entries."""
        return self.base_offset + (self.entry(self.entries - 1)[1] if self.entries else 0)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries whose offset is `offset` or higher."""
        self.truncate(self.find(offset - self.base_offset - 1, field=1) + 1)

    def sanity_check(self) -> None:
        """Raise CorruptIndexError if the file's size is not a whole number of entries, or the last entry is invalid.

        It is invalid if its timestamp is before the first entry's, or its relative offset is negative.
        """
        super().sanity_check()
        if self.entries and (self.entry(self.entries - 1)[0] < self.entry(0)[0] or self.entry(self.entries - 1)[1] < 0):
            raise CorruptIndexError(f"{self.path}: its last timestamp is before its first")
