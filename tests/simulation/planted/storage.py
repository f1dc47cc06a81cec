"""Bugs of logs: recovery, indexes, fsync, the state of producers."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any

from tests.simulation.planted.patching import imported, needs, patch

from ottla import errors
from ottla.simulation.disk import OsModule
from ottla.storage import checkpoints, partition_metadata, producer_state, recovery
from ottla.storage.index import OffsetIndex
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDir
from ottla.storage.producer_state import ProducerState, ProducerStates
from ottla.storage.segment import Segment


def sequences_are_not_checked() -> None:
    """A batch that a producer repeats is appended again."""
    patch(ProducerStates, "check", lambda self, header: None)
    patch(ProducerStates, "duplicate_of", lambda self, header: None)


def duplicates_are_detected_in_four_batches() -> None:
    """The window for duplicate batches is one batch too short."""
    original = ProducerState.__init__

    def init(self: Any, producer_id: int) -> None:
        original(self, producer_id)
        self.batches = deque(maxlen=4)

    patch(ProducerState, "__init__", init)


@needs("restart", "cut-link-one-way")
def snapshots_have_the_last_batch_only() -> None:
    """Producer snapshots have only the fields of Kafka's, so that earlier batches are lost in a restart."""
    patch(producer_state, "_pack_earlier", lambda producer: b"")


@needs("power-loss")
def torn_tails_stay() -> None:
    """Recovery does not truncate the log after the last valid batch."""

    def recover(self: Any, *, contiguous_from: int = 0) -> int:
        scanner = self._rebuild(self.file.size(), check_crc=True)
        self.size = self.file.size()
        return int(scanner.next_offset)

    patch(Segment, "recover", recover)


@needs("power-loss")
def damaged_batches_are_kept() -> None:
    """Recovery does not compute checksums."""
    original = Segment._rebuild

    def rebuild(self: Any, nbytes: int, *, check_crc: bool, **options: Any) -> Any:
        return original(self, nbytes, check_crc=False, **options)

    patch(Segment, "_rebuild", rebuild)


@needs("power-loss")
def indexes_are_not_rebuilt() -> None:
    """After a crash the indexes are used as they are."""
    original = Segment.recover

    def recover(self: Any, **options: Any) -> int:
        before = {index: index.path.read_bytes() for index in (self.offset_index, self.time_index)}
        end = original(self, **options)
        for index, content in before.items():
            index._data = bytearray(content)
            index.entries = len(content) // index.ENTRY.size
        return end

    patch(Segment, "recover", recover)


@needs("isolation", "restart")
def indexes_keep_entries_of_truncated_batches() -> None:
    """A truncation leaves the offset index as it is."""
    patch(OffsetIndex, "truncate_to", lambda self, offset: None)


@needs("fsync-failure")
def fsync_errors_are_ignored() -> None:
    """Logs and checkpoints count as flushed although fsync has failed."""
    fsync = OsModule.fsync

    def ignore(self: Any, fd: int) -> None:
        with contextlib.suppress(OSError):
            fsync(self, fd)

    patch(OsModule, "fsync", ignore)
    patch(OsModule, "fdatasync", ignore)


def recovery_points_are_ahead_of_the_fsync() -> None:
    """The recovery point moves to the end of the log although nothing was flushed."""

    def flush(self: Any, up_to: int | None = None, *, is_awaited: bool = False) -> None:
        end = self.written_end_offset
        self.recovery_point = max(self.recovery_point, end if up_to is None else min(up_to, end))

    patch(Log, "flush", flush)


def producer_snapshots_are_too_new() -> None:
    """Recovery keeps snapshots that are newer than the recovered log."""
    original = imported(recovery, "snapshots_in")

    def load(opened: Any) -> None:
        snapshots = original(opened.dir)
        opened.producers.clear(opened.log_start_offset)
        if snapshots:
            opened.producers.load_snapshot(snapshots[-1][1])
        opened.producers.end_offset = opened.log_end_offset

    patch(recovery, "load_producers", load)


def producer_snapshots_are_too_old() -> None:
    """The batches after a snapshot are not replayed."""
    original = recovery._scan

    def scan(opened: Any, from_offset: int) -> Any:
        return iter(()) if from_offset == opened.producers.end_offset else original(opened, from_offset)

    patch(recovery, "_scan", scan)


@needs("cut-then-power-loss")
def leader_epochs_are_taken_from_the_checkpoint() -> None:
    """After a crash the checkpoint of leader epochs counts, not the batches (seed 2242)."""
    original = recovery._load_leader_epochs
    patch(recovery, "_load_leader_epochs", lambda opened, checked_from: original(opened, None))


@needs("restart", "kill", workloads=("shortened",))
def log_start_offsets_are_forgotten() -> None:
    """After a restart, deleted records exist again."""
    original = LogDir._load_one

    def load(self: Any, tp: Any, directory: Any, config_of: Any, recovery_point: int, start_offset: int) -> Any:
        return original(self, tp, directory, config_of, recovery_point, 0)

    patch(LogDir, "_load_one", load)


def old_producer_epochs_write() -> None:
    """A log appends batches of fenced producers."""
    original = ProducerStates.check

    def check(self: Any, header: Any) -> None:
        with contextlib.suppress(errors.InvalidProducerEpochError):
            original(self, header)

    patch(ProducerStates, "check", check)


@needs("fsync-failure", "power-loss")
def checkpoints_are_not_fsynced() -> None:
    """A power failure empties the checkpoint of the recovery points."""
    original = checkpoints.write_lines
    patch(checkpoints, "write_lines", lambda path, entries, *, sync=True: original(path, entries, sync=False))


@needs("power-loss")
def files_of_zeros_are_damage() -> None:
    """A partition.metadata file of zeros takes its replica offline."""
    patch(partition_metadata, "UNWRITTEN", "")


BUGS = (
    checkpoints_are_not_fsynced,
    files_of_zeros_are_damage,
    sequences_are_not_checked,
    duplicates_are_detected_in_four_batches,
    snapshots_have_the_last_batch_only,
    torn_tails_stay,
    damaged_batches_are_kept,
    indexes_are_not_rebuilt,
    indexes_keep_entries_of_truncated_batches,
    fsync_errors_are_ignored,
    recovery_points_are_ahead_of_the_fsync,
    producer_snapshots_are_too_new,
    producer_snapshots_are_too_old,
    leader_epochs_are_taken_from_the_checkpoint,
    log_start_offsets_are_forgotten,
    old_producer_epochs_write,
)
