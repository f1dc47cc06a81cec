"""Checks the files of logs: batches, indexes, leader epochs, producers and transactions.

When a log is opened, its other files must agree with its batches. After a crash, the log is compared with its previous
state: it must contain everything below the recovery point or, if only the process was killed, all batches.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple

from ottla.records.batch import CRC_START, HEADER_BYTES, LOG_OVERHEAD, BatchHeader, read_header
from ottla.records.crc import crc32c
from ottla.records.decoder import decode_records
from ottla.storage.log import Log
from ottla.storage.producer_state import CompletedTransaction, ProducerState, ProducerStates, read_marker
from ottla.storage.recovery import open_log as production_open_log

INDEX_ENTRY: Final = Struct(">ii")
TIME_INDEX_ENTRY: Final = Struct(">qi")
SHOWN: Final = 3


class StoredBatch(NamedTuple):
    """A batch in a segment, with its position in bytes and a digest of its content."""

    segment: Path
    position: int
    header: BatchHeader
    digest: bytes


class LogFiles:
    """The batches in a partition's directory, up to the first damaged one of each segment, and the damage."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.batches: list[StoredBatch] = []
        self.damage: list[str] = []
        self._completed: list[CompletedTransaction] = []
        self.producers = ProducerStates(directory)
        """The producer states that result from all batches."""
        for path in sorted(directory.glob("*.log")):
            self._read(path)

    @property
    def end_offset(self) -> int:
        """The offset after the last batch; 0 if there is none."""
        return self.batches[-1].header.next_offset if self.batches else 0

    @property
    def aborted(self) -> set[tuple[int, int, int]]:
        """The aborted transactions: producer id, first offset, and offset of the marker."""
        return {(t.producer_id, t.first_offset, t.last_offset) for t in self._completed if t.aborted}

    def _read(self, path: Path) -> None:
        data, position = path.read_bytes(), 0
        while position < len(data):
            fault = _fault(data, position)
            if fault is not None:
                self.damage.append(f"{path.name} has {fault} at byte {position} of {len(data)}")
                return
            header = read_header(data, position)
            end = position + header.length + LOG_OVERHEAD
            self.batches.append(StoredBatch(path, position, header, sha256(data[position:end]).digest()))
            self._replay(header, data, position)
            position = end

    def _replay(self, header: BatchHeader, data: bytes, position: int) -> None:
        marker = None
        if header.is_control:
            records = decode_records(memoryview(data), position, header)
            marker = read_marker(records[0]) if records else None
        completed = self.producers.update(header, marker)
        if completed is not None:
            self._completed.append(completed)

    def boundary_faults(self, known_from: float) -> Iterator[str]:
        """Yield descriptions of the segments with a base offset above `known_from` that do not begin at the end offset
        of the previous segment.
        """
        ends = {batch.segment: batch.header.next_offset for batch in self.batches}
        segments = sorted(self.directory.glob("*.log"))
        for before, after in pairwise(segments):
            base, end = int(after.stem), ends.get(before, int(before.stem))
            if base > known_from and base != end:
                yield f"{after.name} follows offset {end - 1}, and was not compacted below {known_from}"

    def order_faults(self, *, compacted: bool) -> Iterator[str]:
        """Yield descriptions of the places where offsets do not increase, or, in a log that is not compacted, where an
        offset is missing.
        """
        for before, after in pairwise(batch.header for batch in self.batches):
            gap = after.base_offset - before.next_offset
            if gap < 0 or (gap and not compacted):
                yield f"offset {after.base_offset} follows {before.last_offset}"

    def index_faults(self) -> Iterator[str]:
        """Yield descriptions of the entries of offset indexes that point to no batch or to the wrong one, and of the
        entries of time indexes whose offset is not the last one of a batch (relative offset 0 is not checked).
        """
        at = {(batch.segment.stem, batch.position): batch.header for batch in self.batches}
        for path in sorted(self.directory.glob("*.index")):
            for relative, position in _entries(path, INDEX_ENTRY):
                header = at.get((path.stem, position))
                if header is None or header.last_offset != int(path.stem) + relative:
                    yield f"{path.name} has offset {int(path.stem) + relative} at byte {position}"
        offsets = {batch.header.last_offset for batch in self.batches}
        for path in sorted(self.directory.glob("*.timeindex")):
            for _, relative in _entries(path, TIME_INDEX_ENTRY):
                if int(path.stem) + relative not in offsets and relative:
                    yield f"{path.name} has offset {int(path.stem) + relative}, where no batch ends"


def _fault(data: bytes, position: int) -> str | None:
    if len(data) - position < HEADER_BYTES:
        return "a torn header"
    length = int.from_bytes(data[position + 8 : position + 12], "big")
    end = position + length + LOG_OVERHEAD
    if length < HEADER_BYTES - LOG_OVERHEAD or end > len(data):
        return "a torn batch"
    crc = int.from_bytes(data[position + 17 : position + 21], "big")
    return None if crc32c(memoryview(data)[position + CRC_START : end], 0) == crc else "a damaged batch"


def _entries(path: Path, entry: Struct) -> Iterator[tuple[int, int]]:
    data = path.read_bytes()
    for fields in entry.iter_unpack(data[: len(data) - len(data) % entry.size]):
        if any(fields):
            yield fields[0], fields[1]


class Crash(NamedTuple):
    """The state of a log when its process died."""

    recovery_point: int
    batches: Sequence[StoredBatch]
    power_lost: bool
    compacted: bool = False


class LogChecker:
    """Checks logs when they are opened, and after power losses. Its `open_log` replaces that of `storage.recovery`."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._crashes: dict[str, Crash] = {}

    def on_crash(self, log: Log, *, power_lost: bool) -> None:
        """Record the state of a log whose process is about to die, before its disk loses anything. A log that is
        closed, has failed, or whose segments are being replaced by compaction, is not recorded.
        """
        if not (log.closed or log.failed or _is_swapping(log.dir)):
            crash = Crash(log.recovery_point, LogFiles(log.dir).batches, power_lost, log.config.compacted)
            self._crashes[str(log.dir)] = crash

    def on_power_lost(self, directory: Path) -> None:
        """Check that everything below the recovery point is still in a log after the power loss. Logs that `on_crash`
        did not record are not checked. Neither are compacted logs, because their segments may be in files that recovery
        has to rename first.
        """
        crash = self._crashes.get(str(directory))
        if crash is None or crash.compacted:
            return
        actual = {batch.header.base_offset: batch.digest for batch in LogFiles(directory).batches}
        lost = [
            batch.header.base_offset
            for batch in crash.batches
            if batch.header.next_offset <= crash.recovery_point and actual.get(batch.header.base_offset) != batch.digest
        ]
        if lost:
            self._note(directory, f"offset {lost[0]} is below the recovery point {crash.recovery_point}, and was lost")

    def open_log(self, directory: Path, *arguments: Any, **options: Any) -> Log:
        """Open a log with the production code, and check it."""
        log = production_open_log(directory, *arguments, **options)
        is_known = options.get("compacted_below", False) and not options.get("clean", False)
        self._check(log, compacted_below=options["recovery_point"] if is_known else math.inf)
        return log

    def _note(self, directory: Path, text: str) -> None:
        self.violations.append(f"{directory.parent.parent.name} {directory.name}: {text}")

    def _check(self, log: Log, *, compacted_below: float = math.inf) -> None:
        """Check a log. Compaction may have removed records below the offset `compacted_below`, but no others."""
        files = LogFiles(Path(log.dir))
        faults = [*files.damage, *files.order_faults(compacted=log.config.compacted), *files.index_faults()]
        faults += files.boundary_faults(compacted_below)
        has_tail = log.active.size > 0 or not log.config.compacted  # compaction may have removed the records before it
        if files.batches and files.end_offset != log.log_end_offset and has_tail:
            faults.append(f"the log ends at {log.log_end_offset}, its batches at {files.end_offset}")
        faults += _epoch_faults(log, files)
        crash = self._crashes.pop(str(log.dir), None)
        if crash is not None:
            faults += _prefix_faults(crash, files, log.log_start_offset)
        if log.log_start_offset == log.segments[0].base_offset == 0 and not log.config.compacted:
            faults += [*_producer_faults(log, files), *_transaction_faults(log, files)]
        for fault in faults[:SHOWN]:
            self._note(log.dir, fault)


def _is_swapping(directory: Path) -> bool:
    """Return whether compaction is replacing segments: a crash then leaves either the old or the new ones."""
    return any(directory.glob("*.swap")) or any(directory.glob("*.cleaned"))


def _prefix_faults(crash: Crash, files: LogFiles, start: int) -> Iterator[str]:
    """Yield an error if the log begins with other batches than before the crash or, after a kill, has other batches.

    Batches before `start`, the log start offset, are not compared. After a power loss, only those below the recovery
    point are compared, and none before the first batch at the time of the crash, because deleted segments may be
    there again.
    """
    if crash.power_lost and crash.batches:
        start = max(start, crash.batches[0].header.base_offset)
    batches = [batch for batch in crash.batches if batch.header.next_offset > start]
    before = [batch.digest for batch in batches]
    after = [batch.digest for batch in files.batches if batch.header.next_offset > start]
    if crash.power_lost:  # beyond the recovery point, a truncation may be undone as well
        before = [batch.digest for batch in batches if batch.header.next_offset <= crash.recovery_point]
        after = after[: len(before)]
    if after != before:
        when = "its disk lost power" if crash.power_lost else "its process was killed"
        yield f"the log begins with other batches than when {when}"


def _epoch_faults(log: Log, files: LogFiles) -> Iterator[str]:
    entries = log.leader_epochs.entries
    starts = [entry.start_offset for entry in entries]
    for batch in files.batches:
        offset = batch.header.base_offset
        i = bisect_right(starts, offset)
        if offset < log.log_start_offset or (entries and not i):
            continue  # deleted, perhaps until a crash took the log start offset back
        epoch = entries[i - 1].epoch if i else -1
        if epoch != batch.header.leader_epoch:
            yield f"offset {offset} has leader epoch {batch.header.leader_epoch}, but the checkpoint has {epoch}"


def _producer_faults(log: Log, files: LogFiles) -> Iterator[str]:
    for producer_id, expected in files.producers.producers.items():
        actual = log.producers.producers.get(producer_id)
        if actual is None or _essence(actual) != _essence(expected):
            shown = None if actual is None else _essence(actual)
            yield f"producer {producer_id} is {shown} after loading, but its batches result in {_essence(expected)}"


def _essence(producer: ProducerState) -> tuple[int, int, int, int]:
    return producer.epoch, producer.last_sequence, producer.first_txn_offset, producer.coordinator_epoch


def _transaction_faults(log: Log, files: LogFiles) -> Iterator[str]:
    listed = log.aborted_transactions(0, log.log_end_offset)
    actual = {(aborted.producer_id, aborted.first_offset, aborted.last_offset) for aborted in listed}
    if actual != files.aborted:
        yield f"the transaction index has {sorted(actual)}, the log {sorted(files.aborted)}"
