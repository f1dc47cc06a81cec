"""Opens a log: completes or undoes interrupted changes, checks data that a crash may have damaged, and truncates the
log at the first invalid batch.

After a clean shutdown, only the batches at the end of the last segment are checked. After a crash, every batch from the
recovery point on is checked; the batches before it were flushed. In both cases, indexes that are missing or found to be
invalid are rebuilt.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.config.topic import LogConfig
from ottla.errors import CorruptMessageError, KafkaStorageError
from ottla.model import TopicPartition
from ottla.records.batch import HEADER_BYTES, read_header
from ottla.records.decoder import decode_records
from ottla.records.scanner import Scanner
from ottla.storage import checkpoints
from ottla.storage.append_writer import AppendWriter
from ottla.storage.files import LogFile, storage_error
from ottla.storage.index import OffsetIndex, TimeIndex
from ottla.storage.log import BeginWrite, Log
from ottla.storage.log_flusher import LogFlusher
from ottla.storage.partition_metadata import read_topic_id
from ottla.storage.producer_state import BATCHES_KEPT, read_marker, snapshots_in
from ottla.storage.scan import MAX_OFFSET, headers, walk
from ottla.storage.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
    file_name,
)
from ottla.storage.txn_index import AbortedTransaction

log = logging.getLogger("ottla.storage")


def open_log(
    directory: Path,
    topic_partition: TopicPartition,
    config: LogConfig,
    *,
    clock: Clock = SYSTEM_CLOCK,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    clean: bool = False,
    compacted: bool = False,
    compacted_below: bool = False,
    producer_expiration_ms: int = 86_400_000,
    writer: AppendWriter | None = None,
    flusher: LogFlusher | None = None,
    begin_lower_checkpoint: BeginWrite | None = None,
) -> Log:
    """Open the log in `directory`, or create it if it does not exist. Return it, ready for appends.

    `clean`: whether it was shut down cleanly, so that of its segments only file names, the sizes of index files, and
    the indexes and the end of the last segment are checked. `compacted`: whether it was once compacted, so that offsets
    may be missing even if its topic is no longer compacted. `compacted_below`: whether no segment was compacted above
    the recovery point. The high watermark is the local log start offset until the caller sets it. Raises
    KafkaStorageError if the files cannot be read or are inconsistent.
    """
    opened = Log(
        directory,
        topic_partition,
        config,
        load_producers=load_producers,
        clock=clock,
        producer_expiration_ms=producer_expiration_ms,
        writer=writer,
        flusher=flusher,
        begin_lower_checkpoint=begin_lower_checkpoint,
    )
    try:
        directory.mkdir(exist_ok=True)
        opened.topic_id = read_topic_id(directory)
        names = _tidy(directory)
        _load_segments(opened, names)
        if clean:
            _ensure_indexes(opened, names)
            _load_end(opened, log_start_offset, None)
        else:
            checked_from = _recover(
                opened, recovery_point, compacted=compacted or config.compacted, compacted_below=compacted_below
            )
            _load_end(opened, log_start_offset, checked_from)
    except OSError as error:
        raise storage_error(f"open the log of {topic_partition}", directory, error) from error
    opened.recovery_point = opened.log_end_offset if clean else min(recovery_point, opened.log_end_offset)
    return opened


# Left over from an interrupted change


def _tidy(directory: Path) -> set[str]:
    """Complete or undo interrupted changes of files, and return the names of the remaining files.

    The cleaner writes `.cleaned` files, renames all of them to `.swap` when they are complete, deletes the old
    segments, and removes the suffix `.swap`. It renames them from the last segment to the first. So `.cleaned` files
    are removed, and a `.swap` file is complete if no `.cleaned` file has the same or a lower offset.
    """
    names = set(os.listdir(directory))
    cleaned = {name for name in names if name.endswith(CLEANED_SUFFIX)}
    for name in names:
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")):
            (directory / name).unlink(missing_ok=True)
    swaps = sorted(name for name in names if name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    oldest_cleaned = min((_offset(name) for name in cleaned), default=None)
    for name in swaps:
        if oldest_cleaned is not None and _offset(name) >= oldest_cleaned:
            # Files are renamed from the last segment to the first, so this group was not complete yet.
            _unlink_all(directory, _offset(name), SWAP_SUFFIX)
        else:
            _complete_swap(directory, name)
    for name in os.listdir(directory):
        if name.endswith(SWAP_SUFFIX):
            (directory / name).unlink(missing_ok=True)
    return set(os.listdir(directory))


def _offset(name: str) -> int:
    digits = name.partition(".")[0]
    return int(digits) if digits.isdigit() else 0


def _complete_swap(directory: Path, name: str) -> None:
    """Delete the segments that a `.swap` segment replaces, then remove its suffix."""
    base = _offset(name)
    segment = Segment(directory, base, index_bytes=0, index_interval_bytes=0)
    end = _swap_end(directory / name, base)
    for other in os.listdir(directory):
        if other.endswith(LOG_SUFFIX) and base <= _offset(other) < max(end, base + 1):
            _unlink_all(directory, _offset(other), "")
    segment.rename(SWAP_SUFFIX, "")


def _swap_end(path: Path, base: int) -> int:
    """Return the offset after the last batch in a `.swap` file."""
    end = base
    file = LogFile(path)
    for _, header in headers(file, 0, file.size()):
        end = header.next_offset
    return end


def _unlink_all(directory: Path, base: int, suffix: str) -> None:
    for own in SEGMENT_SUFFIXES:
        (directory / (file_name(base, own) + suffix)).unlink(missing_ok=True)


# Segments


def _load_segments(opened: Log, names: set[str]) -> None:
    logs = sorted(name for name in names if name.endswith(LOG_SUFFIX) and name.removesuffix(LOG_SUFFIX).isdigit())
    for name in names:
        stem, _, suffix = name.partition(".")
        if f".{suffix}" in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX) and stem + LOG_SUFFIX not in names:
            log.warning("Removing index %s, because the .log file of its segment is missing", opened.dir / name)
            (opened.dir / name).unlink(missing_ok=True)
    for name in logs:
        segment = opened.segment_at(int(name.removesuffix(LOG_SUFFIX)))
        segment.load()
        opened.segments.append(segment)
    if not opened.segments:
        first = opened.segment_at(0)
        first.create(opened.clock.now_ms())
        opened.segments.append(first)


def _recover(opened: Log, recovery_point: int, *, compacted: bool, compacted_below: bool) -> int:
    """Check the batches of the last segment and of all that end after the recovery point, and the indexes of the
    others. Truncate the log at the first damaged batch, or at a gap in its offsets that compaction cannot have left.

    Return the base offset of the first segment whose batches were checked.
    """
    segments = opened.segments
    checked_from = segments[opened.segment_number(recovery_point)].base_offset
    # Later snapshots may not be flushed. In addition, replaying only the batches after them would not rebuild all
    # transaction indexes.
    for offset, path in snapshots_in(opened.dir):
        if offset > checked_from:
            path.unlink(missing_ok=True)
    # Only compaction removes offsets. In other logs, a gap is the result of a crash, and the log is truncated there,
    # unless the recovery point is unknown: the log may have been compacted before.
    contiguous_from = recovery_point if recovery_point > 0 and not compacted else MAX_OFFSET
    # Between segments there is no gap even in the copy of a compacted log, until they are compacted here: each begins
    # where the one before it has ended.
    joined_from = 0 if compacted_below else contiguous_from
    for i, segment in enumerate(segments):
        following = segments[i + 1].base_offset if i + 1 < len(segments) else None
        if following is not None and following <= recovery_point:
            _check_indexes(segment)
            _check_transactions(opened, segment, following)
            continue
        before = segment.size
        end = segment.recover(contiguous_from=contiguous_from)
        opened.txn_index(segment).clear()
        if segment.size != before:
            log.warning(
                "%s: truncated %s from %d to %d bytes, where a damaged batch, a gap in the offsets or preallocated "
                "space begins", opened.topic_partition, segment.path(LOG_SUFFIX).name, before, segment.size,
            )  # fmt: skip
        if following is not None and (segment.size != before or end > following or following > end >= joined_from):
            _drop_after(opened, i)
            break
        if following is not None:
            segment.finish()
    return checked_from


def _drop_after(opened: Log, i: int) -> None:
    """Remove the segments after segment `i`, which was truncated or does not end where the next one begins."""
    for segment in opened.segments[i + 1 :]:
        log.warning(
            "%s: removing %s, because an earlier segment was truncated, or does not end where the next one begins",
            opened.topic_partition,
            segment.path(LOG_SUFFIX).name,
        )
        segment.close()
        segment.delete_files("")
    del opened.segments[i + 1 :]


def _check_indexes(segment: Segment) -> None:
    """Rebuild the indexes of a flushed segment if they are invalid."""
    try:
        segment.sanity_check()
    except KafkaStorageError as error:
        log.warning("%s; rebuilding the index", error)
        segment.rebuild_indexes()
        segment.finish()
        segment.sync()  # no flush will: the segment is below the recovery point


def _check_transactions(opened: Log, segment: Segment, following: int) -> None:
    """If the transaction index of a flushed segment is invalid, have it rebuilt together with the producer state."""
    index = opened.txn_index(segment)
    try:
        index.sanity_check(segment.base_offset, following)
    except KafkaStorageError as error:
        log.warning("%s; rebuilding the index", error)
        index.clear()
        for offset, path in snapshots_in(opened.dir):
            if offset > segment.base_offset:
                path.unlink(missing_ok=True)


def _ensure_indexes(opened: Log, names: set[str]) -> None:
    """Check that the index files exist and have a plausible size, and those of the active segment more closely. If a
    check fails, rebuild the indexes of the segment. Called after a clean shutdown.
    """
    for segment in opened.segments:
        for suffix, entry in ((INDEX_SUFFIX, OffsetIndex.ENTRY.size), (TIME_INDEX_SUFFIX, TimeIndex.ENTRY.size)):
            path = segment.path(suffix)
            if path.name not in names or path.stat().st_size % entry:
                _check_indexes(segment)
                break
    _check_indexes(opened.active)


# The end of the log, and its epochs and producers


def _load_end(opened: Log, log_start_offset: int, checked_from: int | None) -> None:
    active = opened.active
    try:
        opened.log_end_offset = active.end_offset()
    except CorruptMessageError as error:
        # This can also happen after a clean shutdown: a file may have been truncated or damaged since.
        log.warning(
            "%s: %s; recovering this segment, which truncates it at the first damaged batch",
            active.path(LOG_SUFFIX),
            error,
        )
        opened.log_end_offset = active.recover()
        checked_from = active.base_offset if checked_from is None else checked_from
    if log_start_offset > opened.log_end_offset:
        log.warning(
            "%s ends at offset %d, before its log start offset %d: deleting its segments",
            opened.topic_partition,
            opened.log_end_offset,
            log_start_offset,
        )
        opened.truncate_fully_and_start_at(log_start_offset)
    first = opened.segments[0].base_offset
    # Without a checkpoint, the log start offset of a tiered log is unknown. It must not be above the first record in
    # remote storage: what is below it is deleted there. The leader corrects it.
    opened.log_start_offset = log_start_offset if opened.config.remote_storage_enable else max(log_start_offset, first)
    opened.high_watermark = opened.local_log_start_offset
    _load_leader_epochs(opened, checked_from)
    load_producers(opened)
    for segment in opened.segments:
        segment.rest()


def _load_leader_epochs(opened: Log, checked_from: int | None) -> None:
    """Load the leader epochs from their file; also from batches if those may be newer, or if the file is damaged or has
    no epochs.
    """
    epochs = opened.leader_epochs
    try:
        epochs.load()
        epochs.truncate_from_end(opened.log_end_offset)
        epochs.truncate_from_start(opened.log_start_offset)
    except KafkaStorageError as error:
        log.warning("%s; rebuilding this checkpoint from the log", error)
        epochs.entries = []
    if not epochs.entries:
        checked_from = opened.log_start_offset
    if checked_from is not None:
        _scan_leader_epochs(opened, checked_from)
    if opened.config.remote_storage_enable:
        try:
            epochs.load_tiered(opened.dir / checkpoints.TIERED_LEADER_EPOCHS, opened.segments[0].base_offset)
        except KafkaStorageError as error:
            log.error("%s; while this broker leads the partition, consumers cannot read the tiered records", error)


def _scan_leader_epochs(opened: Log, checked_from: int) -> None:
    epochs = opened.leader_epochs
    # After a power failure, the file may already lack epochs although the truncation of the log was lost, so the
    # batches count.
    epochs.truncate_from_end(checked_from)
    for _, scanner in _scan(opened, checked_from):
        for epoch, offset in scanner.epochs:
            if epoch > epochs.latest:
                epochs.assign(epoch, offset)


def load_producers(opened: Log) -> None:
    """Load the producer state from the newest usable snapshot within the log, if there is one, and from the batches
    after it.

    In a tiered log, write the snapshots that are missing at the starts of segments, except the first segment.
    """
    producers = opened.producers
    producers.clear(opened.log_start_offset)
    snapshots = snapshots_in(opened.dir)
    boundaries = {s.base_offset for s in opened.segments[1:]} if opened.config.remote_storage_enable else set()
    # of a tiered log, each segment is copied together with the producers' state at its end
    missing = boundaries - {offset for offset, _ in snapshots}
    usable_until = min(missing, default=opened.log_end_offset)
    for offset, path in reversed(snapshots):
        if offset > opened.log_end_offset:
            path.unlink(missing_ok=True)
            continue
        if offset > usable_until:
            continue
        try:
            producers.load_snapshot(path)
            break
        except KafkaStorageError as error:
            log.warning("Removing a damaged producer snapshot, and reading more of the log instead: %s", error)
            path.unlink(missing_ok=True)
            missing |= boundaries & {offset}
    for segment, scanner in _scan(opened, max(producers.end_offset, opened.log_start_offset)):
        if segment.base_offset in missing:
            producers.end_offset = segment.base_offset
            producers.write_snapshot()
        for position in scanner.replay_positions():
            _replay(opened, segment, position)
    producers.end_offset = opened.log_end_offset
    if opened.log_end_offset in missing:  # the last segment is empty: the broker was killed after it was created
        producers.write_snapshot()


def _scan(opened: Log, from_offset: int) -> Iterator[tuple[Segment, Scanner]]:
    """Yield each segment that has batches from `from_offset` on, with a scanner that has read them."""
    for i, segment in enumerate(opened.segments):
        following = opened.segments[i + 1].base_offset if i + 1 < len(opened.segments) else opened.log_end_offset
        start = segment.position_of(from_offset) if following > from_offset else None
        if start is not None:
            scanner = Scanner(start, segment.base_offset, check_crc=False, batches_per_producer=BATCHES_KEPT)
            walk(segment.file, scanner, segment.size)
            yield segment, scanner


def _replay(opened: Log, segment: Segment, position: int) -> None:
    """Update the producer state, and the transaction index, with the batch at `position`."""
    header = read_header(segment.file.read(position, HEADER_BYTES))
    marker = None
    if header.is_control:
        records = decode_records(segment.file.read(position, header.size_in_bytes), 0, header)
        marker = read_marker(records[0]) if records else None
    completed = opened.producers.update(header, marker)
    if completed is None or not completed.aborted:
        return
    index = opened.txn_index(segment)
    if index.entries and index.entries[-1].last_offset >= completed.last_offset:
        return
    stable = opened.producers.last_stable_offset_after(completed)
    index.append(AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable))
