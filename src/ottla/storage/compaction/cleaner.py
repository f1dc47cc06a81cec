"""Compaction: rewrites a log's closed segments with only the last record of each key. Kafka's LogCleaner.

A pass has three steps. The constructor determines the range (on the event loop). `copy` reads it and writes `.cleaned`
segments (on a worker, because closed segments do not change). `install` replaces the old segments with them (on the
event loop). After a crash at any point, recovery restores either the old segments or the new ones. Offsets never
change, so there are gaps between them afterwards.

Tombstones and transaction markers stay until delete.retention.ms after the first pass that reads them: this time is
written into their batch (KIP-534). Formats 0 and 1 have no field for it, so the age of the segment counts. Records of
aborted transactions are removed at once. The last batch of an active producer stays, without records if necessary,
because it has the sequence number that the next batch must follow.
"""

from __future__ import annotations

import functools
import logging
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator

from ottla.errors import KafkaStorageError
from ottla.records import any_magic, legacy_message_set
from ottla.records.batch import CODEC_MASK, HEADER_BYTES, LOG_OVERHEAD, MAGIC, BatchHeader, write_header
from ottla.records.builder import BatchBuilder, record_size_upper_bound
from ottla.records.decoder import Record
from ottla.records.scanner import MAX_RELATIVE_OFFSET
from ottla.storage.compaction.cleanable import Cleanable, measure
from ottla.storage.compaction.offset_map import DEDUPE_BUFFER_BYTES, OffsetMap
from ottla.storage.files import DiskFailedError, storage_error, sync_directory
from ottla.storage.log import Log
from ottla.storage.producer_state import read_marker
from ottla.storage.scan import headers
from ottla.storage.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    SWAP_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
)
from ottla.storage.throttle import Throttle
from ottla.storage.txn_index import AbortedTransaction, TransactionIndex

log = logging.getLogger("ottla.storage.compaction.cleaner")


Steps = Generator[Callable[[], None], None, bool]
"""A generator that runs on the event loop.

It yields functions that may wait for the disk. A worker has to call them, and their OSErrors are raised in the
generator. The generator returns whether the work was completed.
"""


def run_steps(steps: Steps) -> bool:
    """Run steps in this thread, including the functions that they yield, and return their result."""
    try:
        wait_for_disk = next(steps)
        while True:
            try:
                wait_for_disk()
            except OSError as error:
                wait_for_disk = steps.throw(error)
            else:
                wait_for_disk = next(steps)
    except StopIteration as done:
        return bool(done.value)


class CleanerPass:
    """One compaction pass over one log."""

    def __init__(
        self,
        cleanable: Cleanable,
        now_ms: int,
        *,
        map_bytes: int = DEDUPE_BUFFER_BYTES,
        throttle: Throttle | None = None,
    ) -> None:
        self.log = cleanable.log
        self._throttle = throttle or Throttle()
        self.first_dirty = cleanable.first_dirty
        self.now_ms = now_ms
        self._keys = OffsetMap(map_bytes)
        self._sources = [s for s in self.log.segments[:-1] if s.base_offset < cleanable.end]
        self._limit = cleanable.end
        self._cuts = self.log.cuts
        self.closed_to = self.log.active.base_offset
        """The end of the closed segments. The checkpointed recovery point must be here or later before `install`."""
        self._end = cleanable.first_dirty
        self._groups: list[tuple[list[Segment], Segment]] = []
        # Copied on the event loop, because the worker must not read data that appends change.
        producers = self.log.producers.producers.values()
        self._last_batches = {p.batches[-1].last_offset for p in producers if p.batches}
        self._last_epochs = {p.id: p.epoch for p in producers if not p.batches}
        self._aborted: dict[int, list[AbortedTransaction]] = {}
        """The aborted transactions by producer id, in the order of their offsets."""
        for aborted in self.log.aborted_transactions(self.log.log_start_offset, cleanable.end):
            self._aborted.setdefault(aborted.producer_id, []).append(aborted)
        self._rolled_back = {s.base_offset: list(self.log.txn_index(s).entries) for s in self._sources}
        # Messages of formats 0 and 1 have no field for the delete horizon, so the age of their segment counts.
        clean = [s.created_ms for s in self._sources if s.base_offset < cleanable.first_dirty]
        self._old_horizon_ms = clean[-1] - self.log.config.delete_retention_ms if clean else 0
        self.cleaned_to = cleanable.first_dirty
        """The offset at which the next pass starts, once this one is installed."""

    # In a worker thread

    def copy(self) -> None:
        """Read the keys, then write `.cleaned` segments, and wait until they are on disk.

        The old segments are flushed as well. Recovery can then distinguish records that compaction has removed (below
        the recovery point) from the end of a segment that was lost in a power failure (above it).

        Raises the errors of `files.storage_error` for an I/O error, StoppedError if the throttle is stopped, and
        CorruptMessageError for damage in the log. After an error the written files are removed and the log is
        unchanged.
        """
        try:
            self.log.flush(self.closed_to)
            end = self._end = self._read_keys()
            sources = [s for s in self._sources if s.base_offset < end]
            transactions = _Transactions(self)
            for group in _groups(sources, self.log.config.segment_bytes, end):
                self._copy_group(group, transactions)
            self.cleaned_to = end
        except OSError as error:
            self.abort()
            raise storage_error(f"compact {self.log.topic_partition}", self.log.dir, error) from error
        except BaseException:
            self.abort()
            raise

    def _read_keys(self) -> int:
        """Add the keys of the dirty range to the map.

        Return the offset up to which the keys of all batches are in it.

        If the map becomes full, the pass ends before the batch whose keys do not fit. The rest of the log is not
        changed.
        """
        for segment in self._sources:
            full_at = self._read_segment(segment)
            if full_at is not None:
                if full_at == self.first_dirty:
                    log.warning(
                        "%s cannot be compacted: the batch at offset %d has more keys than fit into "
                        "log.cleaner.dedupe.buffer.size; raise this config",
                        self.log.topic_partition,
                        full_at,
                    )
                return full_at
        return self._limit

    def _read_segment(self, segment: Segment) -> int | None:
        """Add a segment's keys to the map.

        Return the base offset of the first batch whose keys do not fit; None if all fit.
        """
        for header, _, records in self._records(segment, self.first_dirty):
            if header.base_offset >= self._limit:
                return None
            if header.is_control or self._is_aborted(header):
                continue
            if len(self._keys) + len(records) > self._keys.max_keys:
                return max(header.base_offset, self.first_dirty)
            for record in records:
                if record.key is not None:
                    self._keys.put(record.key, record.offset)
        return None

    def _records(self, segment: Segment, from_offset: int) -> Iterator[tuple[BatchHeader, bytes, list[Record]]]:
        """Yield (header, bytes, records) of every batch of a closed segment that ends at `from_offset` or later."""
        for position, header in headers(segment.file, 0, segment.size):
            if header.last_offset >= from_offset:
                self._throttle.spend(header.size_in_bytes)
                batch = segment.file.read(position, header.size_in_bytes)
                yield header, batch, any_magic.decode_records(batch, 0, header, from_offset)

    def _is_aborted(self, header: BatchHeader) -> bool:
        if not header.is_transactional:
            return False
        aborted = self._aborted.get(header.producer_id, [])
        i = bisect_left(aborted, header.base_offset, key=lambda a: a.last_offset)
        return i < len(aborted) and aborted[i].first_offset <= header.base_offset

    def _copy_group(self, group: list[Segment], transactions: _Transactions) -> None:
        target = Segment(
            self.log.dir,
            group[0].base_offset,
            index_bytes=self.log.config.segment_index_bytes,
            index_interval_bytes=self.log.config.index_interval_bytes,
            ending=CLEANED_SUFFIX,
        )
        self._groups.append((group, target))
        target.create(group[-1].created_ms)
        for source in group:
            old_tombstones_go = source.created_ms <= self._old_horizon_ms
            for header, batch, records in self._records(source, 0):
                rewritten = self._filter(header, batch, records, transactions, old_tombstones_go=old_tombstones_go)
                if rewritten is None:
                    continue
                self._throttle.spend(len(rewritten))
                target.append(rewritten, [(any_magic.read_header(rewritten), 0, len(rewritten))])
        self._copy_transaction_index(group, target)
        target.finish()
        target.set_modification_time()
        target.sync()

    def _copy_transaction_index(self, group: list[Segment], target: Segment) -> None:
        """Copy the index entries of aborted transactions that end after the pass, because some of their records
        remain.
        """
        index = TransactionIndex(target.path(TXN_INDEX_SUFFIX))
        for source in group:
            for aborted in self._rolled_back[source.base_offset]:
                if aborted.last_offset >= self._end:
                    index.append(aborted)

    def _filter(
        self,
        header: BatchHeader,
        batch: bytes,
        records: list[Record],
        transactions: _Transactions,
        *,
        old_tombstones_go: bool,
    ) -> bytes | memoryview | None:
        """Return the batch to write: the same batch, one with fewer records, or one without records; None to remove the
        batch.
        """
        if header.base_offset >= self._end:
            return batch
        if header.magic < MAGIC:
            retained = [r for r in records if self._keeps(r, expired=old_tombstones_go)]
            if len(retained) == len(records):
                return batch
            return legacy_message_set.encode_set(retained, header.attributes, header.magic) if retained else None
        horizon = header.base_timestamp if header.has_delete_horizon else None
        expired = horizon is not None and horizon <= self.now_ms
        if header.is_control:
            if records and transactions.still_has_data(header, records[0]):
                return batch
            retained = [] if expired else records
            needs_horizon = bool(retained)
        else:
            aborted = self._is_aborted(header)
            retained = [] if aborted else [r for r in records if self._keeps(r, expired=expired)]
            needs_horizon = any(r.value is None for r in retained)
            if retained:
                transactions.on_batch_retained(header)
        if needs_horizon and horizon is None:
            horizon = self.now_ms + self.log.config.delete_retention_ms
            return _rewrite(header, retained, horizon)
        if retained:
            return batch if len(retained) == len(records) else _rewrite(header, retained, horizon)
        if header.is_control:
            return batch if self._last_epochs.get(header.producer_id) == header.producer_epoch else None
        if header.last_offset not in self._last_batches:
            return None
        # without its marker, the batch would start a transaction that never ends
        transactions.on_batch_retained(header)
        return _without_records(header)

    def _keeps(self, record: Record, *, expired: bool) -> bool:
        """Return whether to retain a record: it is the last one of its key, and not an expired tombstone."""
        if record.key is None:
            return False
        if self._keys.get(record.key) > record.offset:
            return False
        return record.value is not None or not expired

    # In the event loop

    def install(self) -> bool:
        """Run all of `install_steps` in this thread, and return the result."""
        return run_steps(self.install_steps())

    def install_steps(self) -> Steps:
        """Replace the old segments with the new ones.

        Change nothing and return False if the log no longer has all of the old ones.

        After an I/O error before the first old segment is removed, the log is unchanged. After that, the log is
        inconsistent until the next start completes the swap, so every error is raised as a DiskFailedError.
        """
        if not self._is_current():
            self.abort()
            return False
        doing = f"swap in compacted segments of {self.log.topic_partition}"
        plain = [(group, self.log.segment_at(target.base_offset)) for group, target in self._groups]
        try:
            # From the last to the first: recovery regards a .swap file before all .cleaned ones as complete.
            for _, fresh in reversed(plain):
                fresh.rename(CLEANED_SUFFIX, SWAP_SUFFIX)
            yield functools.partial(sync_directory, self.log.dir)
        except OSError as error:
            if self.log.closed:
                return False  # the log was deleted meanwhile, with its directory
            self._undo(plain)
            raise storage_error(doing, self.log.dir, error) from error
        if not self._is_current():
            self._undo(plain)
            return False
        try:
            for group, fresh in plain:
                self._replace(group, fresh)
        except (OSError, KafkaStorageError) as error:
            raise DiskFailedError(f"could not {doing} in {self.log.dir}: {error}; restart the broker") from error
        self._groups = []
        try:
            yield functools.partial(sync_directory, self.log.dir)
        except OSError as error:
            if not self.log.closed:
                raise storage_error(doing, self.log.dir, error) from error
        return True

    def _is_current(self) -> bool:
        """Return whether the log is open and still has all segments that were copied, with all of their records."""
        present = {id(segment) for segment in self.log.segments}
        is_whole = self.log.cuts == self._cuts and not self.log.closed
        return is_whole and all(id(s) in present for group, _ in self._groups for s in group)

    def _undo(self, plain: list[tuple[list[Segment], Segment]]) -> None:
        """Remove the written files, whether they are still named `.cleaned` or already `.swap`.

        If a `.swap` file remained, the next recovery would regard it as complete.
        """
        try:
            for _, fresh in plain:
                fresh.delete_files(SWAP_SUFFIX)
            self.abort()
        except OSError as error:
            doing = f"remove compacted segments of {self.log.topic_partition}"
            raise DiskFailedError(f"could not {doing} in {self.log.dir}: {error}; restart the broker") from error

    def _replace(self, group: list[Segment], fresh: Segment) -> None:
        at = self.log.segments.index(group[0])
        self.log.discard(group)
        # The files are removed at once, because their names may be needed again. Readers keep the old files open.
        for segment in group:
            segment.delete_files(DELETED_SUFFIX)
        fresh.rename(SWAP_SUFFIX, "")
        fresh.load()
        if fresh.size == 0 and at > 0:
            fresh.delete_files("")
            return
        self.log.segments.insert(at, fresh)

    def abort(self) -> None:
        """Remove the written files. Those that cannot be removed now will be deleted at the next start."""
        for _, target in self._groups:
            target.close()
            try:
                target.delete_files("")
            except OSError as error:
                log.warning(
                    "Cannot remove unfinished compacted files of %s; the next start deletes them: %s",
                    self.log.topic_partition,
                    error,
                )
        self._groups = []


class _Transactions:
    """Tracks which producers' transactions have retained batches."""

    def __init__(self, cleaning: CleanerPass) -> None:
        self._cleaning = cleaning
        self._with_data: set[int] = set()

    def on_batch_retained(self, header: BatchHeader) -> None:
        """Record that a batch of this producer is retained."""
        if header.is_transactional:
            self._with_data.add(header.producer_id)

    def still_has_data(self, header: BatchHeader, record: Record) -> bool:
        """Return whether the transaction that a marker ends has retained batches.

        Then forget it, because the producer's next transaction starts after the marker. Return True for a record that
        is not a marker.
        """
        marker = read_marker(record)
        had = header.producer_id in self._with_data
        self._with_data.discard(header.producer_id)
        return marker is None or had


def clean(opened: Log, first_dirty: int, *, map_bytes: int = DEDUPE_BUFFER_BYTES) -> int:
    """Run a whole pass in this thread. Return the offset at which the next pass starts."""
    now_ms = opened.clock.now_ms()
    cleaning = CleanerPass(measure(opened, first_dirty, now_ms), now_ms, map_bytes=map_bytes)
    cleaning.copy()
    return cleaning.cleaned_to if cleaning.install() else first_dirty


def _groups(segments: list[Segment], max_bytes: int, end: int) -> Iterator[list[Segment]]:
    """Yield groups of neighbouring segments that fit into one segment, so that the number of small segments does not
    grow.
    """
    group: list[Segment] = []
    for i, segment in enumerate(segments):
        following = segments[i + 1].base_offset if i + 1 < len(segments) else end
        too_large = sum(s.size for s in group) + segment.size > max_bytes
        if group and (too_large or following - group[0].base_offset > MAX_RELATIVE_OFFSET):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def _rewrite(header: BatchHeader, records: list[Record], horizon: int | None) -> memoryview:
    """Return the batch with only these records. Producer id, epoch and the range of offsets stay the same."""
    size = sum(record_size_upper_bound(len(r.key or b""), len(r.value or b""), r.headers) for r in records)
    builder = BatchBuilder(
        bytearray(HEADER_BYTES + size), header.codec, base_offset=header.base_offset, delete_horizon_ms=horizon
    )
    for record in records:
        fits = builder.append_at(record.offset, record.timestamp, record.key, record.value, record.headers)
        assert fits, "the buffer was made large enough"
    return builder.close(
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        leader_epoch=header.leader_epoch,
        append_time_ms=header.max_timestamp if header.timestamp_type else None,
        last_offset_delta=header.last_offset_delta,
    )


def _without_records(header: BatchHeader) -> bytes:
    """Return the batch without records, which keeps the sequence number.

    It has no codec, because compressing no bytes yields some bytes.
    """
    out = bytearray(HEADER_BYTES)
    attributes = header.attributes & ~CODEC_MASK
    write_header(out, 0, header._replace(length=HEADER_BYTES - LOG_OVERHEAD, attributes=attributes, count=0))
    return bytes(out)
