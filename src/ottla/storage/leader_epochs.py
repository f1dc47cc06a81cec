"""The start offset of each leader epoch (KIP-101). Kafka's LeaderEpochFileCache.

The entries are sorted by epoch and start offset. A follower gets the end offset of an epoch from its leader, to find
out where its log differs.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from ottla.errors import KafkaStorageError
from ottla.storage.checkpoints import read_lines, write_lines
from ottla.storage.files import SyncedFile


class EpochEntry(NamedTuple):
    """A leader epoch and the offset at which it starts."""

    epoch: int
    start_offset: int


def write_tiered(path: Path, entries: list[EpochEntry]) -> None:
    """Write the checkpoint of the epochs of tiered records, with fsync. Callable from a worker thread.

    Raises OSError.
    """
    write_lines(path, (f"{e.epoch} {e.start_offset}" for e in entries))


class LeaderEpochs:
    """The entries of a log's `leader-epoch-checkpoint`. Not thread-safe: event loop only, except `sync`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[EpochEntry] = []
        self._synced = SyncedFile(path)

    def load(self) -> None:
        """Read the file; a missing one counts as empty.

        Raises KafkaStorageError if it cannot be read, is damaged, or its entries are not sorted.
        """
        try:
            self.entries = [EpochEntry(int(epoch), int(start)) for epoch, start in read_lines(self.path, 2)]
        except ValueError as error:
            raise KafkaStorageError(f"{self.path} is damaged: {error}") from None
        if any(a.epoch >= b.epoch or a.start_offset > b.start_offset for a, b in pairwise(self.entries)):
            raise KafkaStorageError(f"{self.path}: epochs and offsets must increase")

    def load_tiered(self, path: Path, first_offset: int) -> None:
        """If no known epoch starts before `first_offset`, the start of the first segment, add the epochs that do from
        the checkpoint of tiered records. In this case, raises KafkaStorageError if the checkpoint is damaged or cannot
        be read.
        """
        if self.entries and self.entries[0].start_offset < first_offset:
            return
        try:
            tiered = [EpochEntry(int(epoch), int(start)) for epoch, start in read_lines(path, 2)]
        except ValueError as error:
            raise KafkaStorageError(f"{path} is damaged: {error}") from None
        tiered = [entry for entry in tiered if entry.start_offset < first_offset]
        if not tiered:
            return
        self.entries = [*tiered, *(entry for entry in self.entries if entry.epoch > tiered[-1].epoch)]

    @property
    def latest(self) -> int:
        """The latest epoch; -1 if there is none."""
        return self.entries[-1].epoch if self.entries else -1

    def assign(self, epoch: int, start_offset: int) -> None:
        """Assign `epoch` to the records from `start_offset` on. Remove entries whose epoch or offset is not lower.

        Do nothing if `epoch` is negative (unknown), or is the latest one already.
        """
        if epoch < 0 or (self.entries and self.entries[-1].epoch == epoch):
            return
        retained = [e for e in self.entries if e.epoch < epoch and e.start_offset < start_offset]
        self._replace([*retained, EpochEntry(epoch, start_offset)])

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest known epoch <= `epoch`, and the offset after its last record.

        Return (-1, -1) if no epoch is known, or if `epoch` is negative or later than all known ones. If it is earlier
        than all known ones, return `epoch` itself and the start of the first known one.
        """
        if epoch < 0 or not self.entries:
            return -1, -1
        if epoch == self.entries[-1].epoch:
            return epoch, log_end_offset
        if epoch > self.entries[-1].epoch:
            return -1, -1
        i = bisect_right(self.entries, epoch, key=lambda e: e.epoch)
        if i == 0:
            # The epoch is older than all known ones: the log starts with the first known one.
            return epoch, self.entries[0].start_offset
        return self.entries[i - 1].epoch, self.entries[i].start_offset

    def epoch_for(self, offset: int) -> int:
        """Return the epoch of the record at `offset`; -1 if unknown."""
        i = bisect_right(self.entries, offset, key=lambda e: e.start_offset)
        return self.entries[i - 1].epoch if i else -1

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that start at `end_offset` or later."""
        if self.entries and self.entries[-1].start_offset >= end_offset:
            self._replace([e for e in self.entries if e.start_offset < end_offset])

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the epochs before the one that contains `start_offset`, and let that one start there."""
        i = bisect_right(self.entries, start_offset, key=lambda e: e.start_offset)
        if (i and self.entries[i - 1].start_offset != start_offset) or i > 1:
            first = EpochEntry(self.entries[i - 1].epoch, start_offset)
            self._replace([first, *self.entries[i:]])

    def restore(self, entries: list[EpochEntry]) -> None:
        """Replace the entries with those of an earlier part of the log, which is in remote storage."""
        self._replace(entries)

    def clear(self) -> None:
        """Remove all epochs."""
        if self.entries:
            self._replace([])

    def _replace(self, entries: list[EpochEntry]) -> None:
        # There is no fsync here: Log.flush does it, and recovery reads the epochs of unflushed batches from the log.
        write_lines(self.path, (f"{e.epoch} {e.start_offset}" for e in entries), sync=False)
        self._synced.changed()
        self.entries = entries

    def sync(self) -> None:
        """Wait until the file is on disk. Callable from a worker thread."""
        self._synced.sync()
