"""The log of one partition: appending, reading, truncating. Kafka's UnifiedLog.

Invariant: recovery point <= log end, and in the log of a partition log start <= last stable offset <= high watermark <=
log end. The partition advances the high watermark. If the topic is tiered (KIP-405), the log start offset may be below
the first segment: the records between them are only in remote storage. While writes are queued (see `append_writer`),
the log can be read, flushed and replicated up to `written_end_offset` only. Not thread-safe: event loop only, except
`flush`, `sync_tiered_state` and the functions returned by `begin_deletion` and `begin_lower_checkpoint`, which workers
may call, and `written_end_offset`.
"""

from __future__ import annotations

import functools
import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import pairwise, takewhile
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla import errors
from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.config.topic import LogConfig
from ottla.model import OffsetAndTimestamp, TopicPartition
from ottla.records import any_magic
from ottla.records.batch import MAGIC, BatchHeader, assign
from ottla.records.decoder import decode_records
from ottla.records.scanner import MAX_RELATIVE_OFFSET
from ottla.storage import checkpoints, validation
from ottla.storage.files import (
    DiskFailedError,
    FileSlice,
    LogFile,
    replace_file,
    storage_error,
    sync_directory,
    sync_file,
)
from ottla.storage.leader_epochs import EpochEntry, LeaderEpochs, write_tiered
from ottla.storage.log_flusher import LogFlusher
from ottla.storage.pending_writes import PendingWrites
from ottla.storage.producer_state import Marker, ProducerStates, read_marker, snapshots_in
from ottla.storage.segment import (
    DELETED_SUFFIX,
    SNAPSHOT_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
    file_name,
)
from ottla.storage.txn_index import AbortedTransaction, TransactionIndex
from ottla.storage.validation import Batch, Prepared

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ottla.storage.append_writer import AppendWriter

log = logging.getLogger("ottla.storage")

WARM_SEGMENTS = 4
"""Maximum number of closed segments per log whose files stay open between reads."""
REPLAY_BYTES = 1024 * 1024
"""Maximum number of bytes per read when a log is replayed, unless a single batch is larger."""


class Appended(NamedTuple):
    """The result of an append.

    `append_time_ms`: the time of the append if the topic uses LogAppendTime; -1 if it uses CreateTime, or for a
    follower's append; for a duplicate, the highest timestamp of the batch in the log. `duplicate`: whether the batch
    was already in the log.
    """

    base_offset: int
    last_offset: int
    append_time_ms: int
    log_start_offset: int
    header: BatchHeader
    """The header of the first batch, before a leader has assigned its offset and leader epoch, or as a follower has
    received it; for a duplicate, the header of the batch that was not appended.
    """
    duplicate: bool = False


BeginWrite = Callable[[TopicPartition], Callable[[], None] | None]


class LogListener(Protocol):
    """A listener for the events of a log. The owner of the log, a partition, implements it."""

    def on_roll(self) -> None:
        """Called when the log has rolled a new segment. The closed one should be flushed in a worker thread."""

    def on_written(self, nbytes: int) -> None:
        """Called when queued writes of `nbytes` in total are complete. `written_end_offset` has advanced, unless an
        earlier write has failed.
        """

    def on_write_failed(self, error: errors.KafkaStorageError, retry: Callable[[], None]) -> None:
        """Called when a queued write has failed. `retry` queues it again."""


class Log:
    """The log of one partition. Created and loaded by `recovery.open_log`."""

    __slots__ = (  # a broker may have 200,000 logs
        "_abandoned",
        "_begin_lower_checkpoint",
        "_flush_lock",
        "_is_in_directory",
        "_load_producers",
        "_open_segments",
        "_pending_deletes",
        "_pending_writes",
        "_txn_indexes",
        "_unflushed_indexes",
        "_used",
        "clock",
        "closed",
        "config",
        "cuts",
        "dir",
        "failed",
        "flusher",
        "high_watermark",
        "last_flush_ms",
        "leader_epochs",
        "listener",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovery_point",
        "remote_end_offset",
        "segments",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        directory: Path,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        load_producers: Callable[[Log], None],
        clock: Clock = SYSTEM_CLOCK,
        producer_expiration_ms: int = 86_400_000,
        writer: AppendWriter | None = None,
        flusher: LogFlusher | None = None,
        begin_lower_checkpoint: BeginWrite | None = None,
    ) -> None:
        """`load_producers`: rebuilds the producer state from snapshots and batches after a truncation.

        `writer`: writes appends; None: write directly. `flusher`: measures flushes; None: they are not measured.
        `begin_lower_checkpoint`: see the method of this name; None: a truncation does not change checkpoints.
        """
        self.dir = directory
        self._load_producers = load_producers
        self.flusher = flusher
        """The flusher of the log directory; None for a log without one, such as a future log."""
        self._begin_lower_checkpoint = begin_lower_checkpoint
        self.topic_partition = topic_partition
        self.config = config
        self.clock = clock
        self.topic_id: str | None = None
        """Kafka's text form of the topic's UUID, as in partition.metadata; None if there is none."""
        self.segments: list[Segment] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.recovery_point = 0
        self.remote_end_offset = 0
        """The offset up to which all records are in remote storage, as far as known; set by `remote_log`."""
        self.leader_epochs = LeaderEpochs(directory / checkpoints.LEADER_EPOCHS)
        self.producers = ProducerStates(directory, producer_expiration_ms)
        self.last_flush_ms = clock.now_ms()
        self.listener: LogListener | None = None
        self._pending_writes = (
            None if writer is None else PendingWrites(writer, self._on_written, self._on_write_failed)
        )
        self._pending_deletes: list[tuple[int, Segment]] = []
        self._flush_lock = Lock()
        """Guards the recovery point, because a flush in a worker must not advance it past the end of a log that was
        truncated meanwhile.
        """
        self._unflushed_indexes: tuple[Segment, ...] = ()
        """Segments whose indexes were written, perhaps after their records were flushed. Replaced only while
        `_flush_lock` is held.
        """
        self.cuts = 0
        """Number of truncations so far. A task that copies the log detects a truncation by a change of this number."""
        self._open_segments: list[Segment] = []
        self._used = False
        """Whether the log has been written or read since the last `close_idle`."""
        self._txn_indexes: dict[int, TransactionIndex] = {}
        self._is_in_directory = False
        """Whether the name of the log's directory is known to be on disk."""
        self.closed = False
        self._abandoned = False
        self.failed = False
        """Whether an I/O error has taken the log out of service. Written pages may be lost then, so the log is
        recovered at the next start.
        """

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def active(self) -> Segment:
        """The active segment."""
        return self.segments[-1]

    @property
    def local_log_start_offset(self) -> int:
        """The first offset that can be read from this broker's disk. Earlier ones are deleted, or only in remote
        storage.
        """
        return max(self.log_start_offset, self.segments[0].base_offset)

    @property
    def size(self) -> int:
        """Size of the batches in all segments in bytes, including those whose writes are queued."""
        return sum(segment.size for segment in self.segments)

    @property
    def written_end_offset(self) -> int:
        """The offset before which all batches are in the files: the log end offset, unless writes are queued.

        Thread-safe.
        """
        end, pending = self.log_end_offset, self._pending_writes
        if pending is None:
            return end
        # the order matters: the event loop sets the log end offset last
        first = pending.first_offset
        return end if first is None else min(end, first)

    @property
    def unflushed_messages(self) -> int:
        """Number of written offsets from the recovery point on, which may be lost in a power failure."""
        return self.written_end_offset - self.recovery_point

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which a read_committed consumer may read.

        This is the start of the first transaction that is open or whose marker is not below the high watermark, but not
        below the log start offset; the high watermark if there is no such transaction, or it starts later.
        """
        if not self.producers.has_transactions:
            return self.high_watermark
        unstable = self.producers.first_unstable_offset(self.high_watermark)
        if unstable is None:
            return self.high_watermark
        return min(
            max(unstable, self.log_start_offset), self.high_watermark
        )  # the log start offset may have passed the start of a transaction

    # Appending

    def append(
        self, data: memoryview | Prepared, *, leader_epoch: int, origin_client: bool = True, inline: bool = False
    ) -> Appended:
        """Append batches as the leader: validate them, set their offsets and leader epoch in place, and write them.

        `data`: writable, with one or more whole v2 batches, or the result of `validation.prepare`. `origin_client`:
        whether they come from a producer and are validated, or from this broker (group metadata, transaction markers).
        If a producer's batch is a duplicate (see `ProducerStates.duplicate_of`), nothing is appended, and the offsets
        of the earlier batch are returned. Raises the errors of a Produce response, KafkaStorageError if the log is
        closed or cannot be written, and with `inline` LongValidationError for batches whose validation takes long.
        After an error other than DiskFailedError, none of the batches is in the log.
        """
        now_ms = self.clock.now_ms()
        if isinstance(data, Prepared):
            data, batches = data
        elif origin_client:
            data, batches = validation.prepare(data, self.config, now_ms, inline=inline)
        else:
            batches = validation.read_batches(data)
        appended_ms = now_ms if self.config.message_timestamp_type == validation.LOG_APPEND_TIME else -1
        duplicate = self._check_producers(data, batches, origin_client=origin_client)
        if duplicate is not None:
            return duplicate
        offset = first_offset = self.log_end_offset
        placed = []
        for batch in batches:
            header = batch.header
            assign(data, batch.start, offset, leader_epoch)
            header = BatchHeader(offset, header.length, leader_epoch, *header[3:])
            placed.append(Batch(header, batch.start, batch.end))
            offset += header.last_offset_delta + 1
        if origin_client and self.config.message_format < MAGIC:
            data, placed = validation.in_old_format(data, self.config.message_format)
        if len(data) > self.config.segment_bytes:
            raise errors.RecordListTooLargeError(
                f"batches of {len(data)} bytes are larger than segment.bytes={self.config.segment_bytes}"
            )
        self._write(data, placed)
        return Appended(first_offset, offset - 1, appended_ms, self.log_start_offset, batches[0].header)

    def append_as_follower(self, data: memoryview) -> Appended:
        """Append batches of the leader unchanged, except an incomplete last one (see `read_copied_batches`). Raises
        InvalidRecordError if one starts before the log end offset or the end of the batch before it,
        CorruptMessageError for a wrong CRC or if there is no whole batch, and KafkaStorageError.

        Batches that are larger than segment.bytes get a segment of their own: the leader has appended them before the
        config was lowered.

        DeleteRecords may have moved the leader's log start into a batch. An empty log that starts there takes the whole
        batch; its log start stays.
        """
        batches = validation.read_copied_batches(data)
        start, first = self.log_start_offset, batches[0].header
        if start == self.log_end_offset and first.base_offset < start <= first.last_offset:
            high_watermark = self.high_watermark
            self.truncate_fully_and_start_at(first.base_offset)
            appended = self._append_copied(data, batches)
            self.log_start_offset, self.high_watermark = start, high_watermark
            return appended._replace(log_start_offset=start)
        return self._append_copied(data, batches)

    def _append_copied(self, data: memoryview, batches: list[Batch]) -> Appended:
        next_offset = self.log_end_offset
        for batch in batches:
            if batch.header.base_offset < next_offset:
                raise errors.InvalidRecordError(
                    f"{self.topic_partition}: the leader sent offset {batch.header.base_offset}, {next_offset} follows"
                )
            next_offset = batch.header.next_offset
        self._write(data[: batches[-1].end], batches)
        first = batches[0].header
        return Appended(first.base_offset, next_offset - 1, -1, self.log_start_offset, first)

    def _check_producers(self, data: memoryview, batches: list[Batch], *, origin_client: bool) -> Appended | None:
        """Validate the sequence numbers of idempotent batches, and the epochs of transaction markers.

        If a producer's batch is a duplicate, return the result with the offsets of the earlier one, else None.
        """
        for batch in batches:
            header = batch.header
            if not header.has_producer_id:
                continue
            if header.is_control:
                marker = self._marker(data, batch)
                if marker is not None:
                    self.producers.check_marker(header, marker)
                continue
            duplicate = self.producers.duplicate_of(header) if origin_client else None
            if duplicate is not None:
                start = self.log_start_offset
                return Appended(
                    duplicate.first_offset, duplicate.last_offset, duplicate.timestamp, start, header, duplicate=True
                )
            self.producers.check(header)
        return None

    @staticmethod
    def _marker(data: memoryview, batch: Batch) -> Marker | None:
        records = decode_records(data, batch.start, batch.header)
        return read_marker(records[0]) if records else None

    def _write(self, data: memoryview, batches: list[Batch]) -> None:
        """Write batches whose offsets are set, and update indexes, leader epochs and producer state."""
        if self.closed:
            raise errors.KafkaStorageError(f"the log of {self.topic_partition} is closed")
        self._used = True
        last = batches[-1].header
        latest_ms = last.max_timestamp if len(batches) == 1 else max(b.header.max_timestamp for b in batches)
        try:
            self._roll_if_needed(len(data), last.last_offset, latest_ms)
            for header, _, _ in batches:
                if header.leader_epoch > self.leader_epochs.latest:
                    self.leader_epochs.assign(header.leader_epoch, header.base_offset)
            self.active.append(data, batches, self._write_file)
        except OSError as error:
            raise self._storage_error("append to", error) from error
        self.log_end_offset = last.next_offset
        try:
            for batch in batches:
                header = batch.header
                if header.producer_id >= 0:
                    self._update_producer(header, self._marker(data, batch) if header.is_control else None)
        except OSError as error:
            self._undo_append(batches[0].header.base_offset)
            raise self._storage_error("index an aborted transaction of", error) from error
        self.producers.end_offset = self.log_end_offset

    def _write_file(self, file: LogFile, position: int, data: Buffer) -> None:
        """Write an append to its segment, or queue the write while the disk is slow."""
        if self._pending_writes is None:
            file.write(position, data)
        else:
            self._pending_writes.write(self.log_end_offset, self.active, file, position, data)

    def _on_written(self, nbytes: int) -> None:
        if self.listener is not None:
            self.listener.on_written(nbytes)

    def _on_write_failed(self, error: OSError, retry: Callable[[], None]) -> None:
        if self.listener is not None:
            self.listener.on_write_failed(self._storage_error("append to", error), retry)

    @property
    def is_queue_full(self) -> bool:
        """Whether the queue of the log directory's writes has reached its limit, so that producers have to wait."""
        return self._pending_writes is not None and self._pending_writes.writer.is_full

    async def wait_for_queue(self) -> None:
        """Wait until the queue of the log directory's writes is below its limit."""
        if self._pending_writes is not None:
            await self._pending_writes.writer.wait_for_space()

    def _wait_written(self) -> None:
        if self._pending_writes:
            self._pending_writes.wait()

    def _update_producer(self, header: BatchHeader, marker: Marker | None) -> None:
        completed = self.producers.update(header, marker)
        if completed is None:
            return
        self.producers.forget_replicated(self.high_watermark)
        if completed.aborted:
            stable = self.producers.last_stable_offset_after(completed)
            aborted = AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)
            self.txn_index(self.active).append(aborted)

    def _undo_append(self, offset: int) -> None:
        """Undo an append for which the entry in the transaction index could not be written.

        Without the entry, consumers would read an aborted transaction as committed.
        """
        try:
            self.truncate_to(offset)
        except OSError as error:
            raise DiskFailedError(f"could not shorten the log of {self.topic_partition}: {error}") from error

    def _storage_error(self, doing: str, error: OSError) -> errors.KafkaStorageError:
        return storage_error(f"{doing} the log of {self.topic_partition}", self.dir, error)

    # Segments

    def _roll_if_needed(self, nbytes: int, last_offset: int, timestamp: int) -> None:
        config, segment = self.config, self.active
        if segment.size == 0:
            return
        if (
            segment.size > config.segment_bytes - nbytes
            or segment.offset_index.is_full
            or segment.time_index.is_full
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
            or self._is_old(segment, timestamp)
        ):
            self.roll()

    def _is_old(self, segment: Segment, timestamp: int) -> bool:
        """Return whether a segment is older than segment.ms (or a lower max.compaction.lag.ms of a compacted topic)
        less the jitter, by the timestamps of records, or by the clock if they have none.
        """
        limit = self.config.max_segment_ms
        if self.config.segment_jitter_ms:
            limit -= self._jitter(segment)
        first = segment.first_batch_timestamp()
        if first >= 0 and timestamp >= 0:
            return timestamp - first > limit
        return self.clock.now_ms() - segment.created_ms > limit

    def _jitter(self, segment: Segment) -> int:
        """Return a pseudo-random time in ms below segment.jitter.ms, the same for a segment until the next start."""
        spread = min(self.config.segment_jitter_ms, self.config.max_segment_ms)
        return hash((self.topic_partition, segment.base_offset)) % spread

    def roll(self) -> Segment:
        """Complete the active segment, write a producer snapshot, and create a new segment at the log end offset.

        Return the active segment. One that is empty and starts at the log end offset is kept.
        """
        old = self.active
        if old.size == 0 and old.base_offset == self.log_end_offset:
            return old
        self._on_indexes_written(old, is_changed=old.finish())
        self.producers.end_offset = self.log_end_offset
        self.producers.write_snapshot()
        segment = self._new_segment(self.log_end_offset)
        self._keep_open(old)  # its files stay open until other segments have been read or rolled
        if self.listener is not None:
            self.listener.on_roll()
        return segment

    def _on_indexes_written(self, segment: Segment, *, is_changed: bool) -> None:
        """If a segment's indexes have changed, have the next flush wait for them, even if its records are flushed."""
        with self._flush_lock:
            if is_changed and segment not in self._unflushed_indexes:
                self._unflushed_indexes = (*self._unflushed_indexes, segment)

    def _new_segment(self, base_offset: int) -> Segment:
        segment = self.segment_at(base_offset)
        try:
            segment.create(self.clock.now_ms())
        except OSError:
            # Otherwise the last segment could get offsets beyond its limit, and would end there after a restart.
            segment.delete_files("")
            raise
        self.segments.append(segment)
        return segment

    def segment_at(self, base_offset: int) -> Segment:
        """Return a new segment object with the log's configs. No files are opened or created."""
        return Segment(
            self.dir,
            base_offset,
            index_bytes=self.config.segment_index_bytes,
            index_interval_bytes=self.config.index_interval_bytes,
            reserve_bytes=self.config.segment_bytes if self.config.preallocate else 0,
        )

    def txn_index(self, segment: Segment) -> TransactionIndex:
        """Return the transaction index of a segment: the same object in each call, since it keeps its entries."""
        index = self._txn_indexes.get(segment.base_offset)
        if index is None:
            index = self._txn_indexes[segment.base_offset] = TransactionIndex(segment.path(TXN_INDEX_SUFFIX))
        return index

    def segment_number(self, offset: int) -> int:
        """Return the index in `segments` of the segment that contains `offset`; 0 for offsets before the log."""
        return max(bisect_right(self.segments, offset, key=lambda s: s.base_offset) - 1, 0)

    def discard(self, segments: list[Segment]) -> None:
        """Remove segments from the log. Their files get the suffix .deleted; the function that `begin_deletion`
        returns, or `delete_files`, deletes them.
        """
        deleted = {id(segment) for segment in segments}
        self.segments = [segment for segment in self.segments if id(segment) not in deleted]
        due = self.clock.now_ms() + self.config.file_delete_delay_ms
        for segment in segments:
            segment.close()
            try:
                segment.rename("", DELETED_SUFFIX)
            except OSError as error:
                raise self._storage_error("delete a segment of", error) from error
            self._txn_indexes.pop(segment.base_offset, None)
            self._pending_deletes.append((due, segment))

    def begin_deletion(self, now_ms: int) -> Callable[[], None] | None:
        """Return a function, to be called by a worker, that deletes the files of discarded segments whose delay has
        passed. Return None if there are none.
        """
        due = list(takewhile(lambda pending: pending[0] <= now_ms, self._pending_deletes))
        del self._pending_deletes[: len(due)]
        return functools.partial(self._delete, due) if due else None

    def delete_files(self) -> None:
        """Delete the files of all discarded segments now."""
        due, self._pending_deletes = self._pending_deletes, []
        self._delete(due)

    def _delete(self, due: list[tuple[int, Segment]]) -> None:
        for i, (_, segment) in enumerate(due):
            try:
                segment.delete_files()
            except OSError as error:
                self._pending_deletes[:0] = due[i:]
                raise self._storage_error("delete files of", error) from error

    # Reading

    def read(self, offset: int, max_bytes: int, *, max_offset: int, at_least_one: bool = True) -> FileSlice:
        """Return whole batches before `max_offset`, of at most `max_bytes` together. The first one contains `offset`,
        or is the next one if compaction has removed that batch.

        A slice contains batches of one segment only. If the first batch alone is larger than `max_bytes`, it is
        returned if `at_least_one` is set. The slice is empty if `offset` is not below `max_offset` or the written end
        offset. Raises OffsetOutOfRangeError if `offset` is outside the log, OffsetMovedToTieredStorageError if its
        record is only in remote storage, and NotCachedError within `page_cache.cached_only`.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise errors.OffsetOutOfRangeError(
                f"{self.topic_partition} has offsets {self.log_start_offset} to {self.log_end_offset}, not {offset}"
            )
        segments = self.segments
        number = len(segments) - 1
        if offset < segments[number].base_offset:
            number = self.segment_number(offset)
        if offset < segments[number].base_offset:
            raise errors.OffsetMovedToTieredStorageError(
                f"{self.topic_partition}: offset {offset} is only in remote storage, this broker has "
                f"{self.segments[0].base_offset} to {self.log_end_offset}"
            )
        max_offset = min(max_offset, self.written_end_offset)
        if offset >= max_offset:
            return FileSlice(None, 0, 0)
        self._used = True
        while number < len(segments):
            segment = segments[number]
            if segment.base_offset >= max_offset:
                break
            start = segment.position_of(offset)
            number += 1
            if start is None:  # compaction has removed all records from the offset on
                continue
            if number < len(segments):
                self._keep_open(segment)
            end = segment.readable if max_offset >= self.log_end_offset else self._end_position(segment, max_offset)
            return segment.read(start, max_bytes, max(start, end), at_least_one=at_least_one)
        return FileSlice(None, 0, 0)

    def _end_position(self, segment: Segment, max_offset: int) -> int:
        """Return the position in a segment's file at which its batches before `max_offset` end."""
        if segment is not self.active and self._next_base(segment) <= max_offset:
            return segment.readable
        end = segment.position_of(max_offset)
        return segment.readable if end is None else end

    def _keep_open(self, segment: Segment) -> None:
        """Keep the files of a closed segment open.

        If too many are open, close those of the segment that was added first.
        """
        if segment is self.segments[-1] or segment in self._open_segments:
            return
        self._open_segments.append(segment)
        if len(self._open_segments) > WARM_SEGMENTS:
            self._open_segments.pop(0).rest()

    def close_idle(self) -> None:
        """Close the log's files if it was neither written nor read since the last call, and no write is queued. Called
        periodically.

        So an idle partition needs no file descriptors, and no memory for indexes.
        """
        used, self._used = self._used, False
        if used or self.closed or self._pending_writes:
            return
        try:
            for segment in (*self._open_segments, self.active):
                self._on_indexes_written(segment, is_changed=segment.rest())
        except OSError as error:
            raise self._storage_error("write the indexes of", error) from error
        self._open_segments.clear()

    def _next_base(self, segment: Segment) -> int:
        return self.segments[self.segment_number(segment.base_offset) + 1].base_offset

    def batches_from(self, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield header and bytes of every batch on this broker's disk, from the one that contains `offset` on.

        Queued batches that are not written yet are left out. Messages of formats 0 and 1 are yielded as batches of
        format 2.
        """
        offset = max(offset, self.local_log_start_offset)
        while offset < self.log_end_offset:
            with self.read(offset, REPLAY_BYTES, max_offset=self.log_end_offset) as file_slice:
                view = memoryview(file_slice.read())
            if not view:
                return
            for header, start, end in any_magic.split(view):
                offset = header.next_offset
                yield (header, view[start:end]) if header.magic == MAGIC else _as_new(view[start:end])

    def offset_for_time(self, timestamp_ms: int) -> OffsetAndTimestamp | None:
        """Return offset and timestamp of the first record on this broker at `timestamp_ms` or later; None if there is
        none.

        Raises UnsupportedForMessageFormatError for message format 0, which has no timestamps.
        """
        if self.config.message_format == 0:
            raise errors.UnsupportedForMessageFormatError("messages of format 0 have no timestamps")
        for segment in self.segments:
            if segment.latest().timestamp >= timestamp_ms:
                self._keep_open(segment)
                result = segment.find_timestamp(timestamp_ms, self.local_log_start_offset)
                if result is not None:
                    (timestamp, offset), epoch = result
                    return OffsetAndTimestamp(offset, timestamp, epoch)
        return None

    def max_timestamp_offset(self) -> OffsetAndTimestamp | None:
        """Return offset and timestamp of the first record with the highest timestamp in this broker's segments
        (KIP-734); None if no record has a timestamp, or if all records with the highest one are before the log start
        offset, or are not written yet.
        """
        latest = max((segment.latest().timestamp for segment in self.segments), default=-1)
        return None if latest < 0 else self.offset_for_time(latest)

    def offsets_before(self, timestamp_ms: int | None = None) -> list[int]:
        """Return the start offsets of the segments up to the last one that was modified at `timestamp_ms` or before
        (None: of all segments).

        The highest comes first. The log end offset is the first if `timestamp_ms` is None or not in the past, and the
        active segment is not empty. Records that are only in remote storage count as one segment. This is ListOffsets
        version 0 (Kafka before 0.10.1).
        """
        times = [(max(s.base_offset, self.log_start_offset), s.modified_ms()) for s in self.segments]
        if self.log_start_offset < self.segments[0].base_offset:
            times.insert(0, (self.log_start_offset, times[0][1]))  # the records before are in remote storage
        if self.active.size:
            times.append((self.log_end_offset, self.clock.now_ms()))
        while timestamp_ms is not None and times and times[-1][1] > timestamp_ms:
            times.pop()
        return sorted((offset for offset, _ in times), reverse=True)

    def aborted_transactions(self, from_offset: int, until_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap [from_offset, until_offset), for read_committed fetches."""
        transactions = []
        for segment in self.segments[self.segment_number(from_offset) :]:
            entries = self.txn_index(segment).entries
            for aborted in entries[bisect_left(entries, from_offset, key=lambda a: a.last_offset) :]:
                if aborted.first_offset < until_offset:
                    transactions.append(aborted)
                if aborted.last_stable_offset >= until_offset:
                    return transactions
        return transactions

    def offset_after(self, offset: int, nbytes: int) -> int:
        """Return the first indexed offset that is at least `nbytes` bytes after the batch at `offset` in its segment,
        to estimate offsets by size; the end of the segment if there is none.
        """
        for i in range(self.segment_number(offset), len(self.segments)):
            start = self.segments[i].position_of(offset)
            if start is None:
                continue
            position = self.segments[i].indexed_offset(start + nbytes)
            if position is not None:
                return position
            return self.segments[i + 1].base_offset if i + 1 < len(self.segments) else self.log_end_offset
        return self.log_end_offset

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the log's largest leader epoch <= `epoch`, and the offset after its last record; (-1, -1) if unknown.

        See `LeaderEpochs.end_offset_for` for epochs before the first one in the log.
        """
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_for_offset(self, offset: int) -> int:
        """Return the leader epoch of the record at `offset`; -1 if unknown."""
        return self.leader_epochs.epoch_for(offset)

    # Durability

    def flush(self, up_to: int | None = None, *, is_awaited: bool = False) -> None:
        """Wait until all records before `up_to` are on disk, and advance the recovery point to it.

        `up_to`: limited to the written end offset, which is also the default. `is_awaited`: whether acknowledgements
        wait for the flush. May be called in a worker thread. If the log was truncated meanwhile, the recovery point is
        not advanced. Raises KafkaStorageError if the flush fails, unless the log was closed without a flush meanwhile.
        """
        cuts = self.cuts
        end = self.written_end_offset
        if up_to is not None:
            end = min(up_to, end)
        written = self._unflushed_indexes
        if end <= self.recovery_point and not written:
            return
        flusher = self.flusher
        measured = nullcontext() if flusher is None else flusher.measured(self.topic_partition, is_awaited=is_awaited)
        try:
            with measured:
                self._sync(end, written)
        except OSError as error:
            if self._abandoned:
                # the log was deleted, or moved to another directory, during the flush: there is nothing to flush
                return
            raise self._storage_error("flush", error) from error
        with self._flush_lock:
            if cuts == self.cuts:
                self.recovery_point = max(self.recovery_point, end)
            left = (s for s in self._unflushed_indexes if s not in written or s.has_unflushed_index)
            self._unflushed_indexes = tuple(left)
        self.last_flush_ms = self.clock.now_ms()

    def _sync(self, end: int, written: tuple[Segment, ...]) -> None:
        """Wait until the files of records between the recovery point and `end` are on disk, and those of the segments
        in `written`. Raises OSError.
        """
        segments = self.segments  # the event loop may replace the list, because it discards segments
        first = max(bisect_right(segments, self.recovery_point, key=lambda s: s.base_offset) - 1, 0)
        dirty = [segment for segment in segments[first:] if segment.base_offset < end]
        for segment in dict.fromkeys([*written, *dirty]):
            segment.sync()
        self.leader_epochs.sync()
        sync_directory(self.dir)
        if not self._is_in_directory:
            sync_directory(self.dir.parent)
            self._is_in_directory = True

    def close(self, *, waits_for_indexes: bool = True) -> None:
        """Flush, write the producer snapshot and the indexes, and close the files, so that the next start needs no
        recovery.

        `waits_for_indexes`: False if the log will be opened again at once. The indexes of the active segment may then
        not be on disk when this returns: after a loss of power, recovery rebuilds them.
        """
        if self.closed:
            return
        self._wait_written()
        self.closed = True
        self.producers.end_offset = self.log_end_offset
        self.producers.write_snapshot()
        is_changed = self.active.finish()
        self._on_indexes_written(self.active, is_changed=is_changed and waits_for_indexes)
        self.flush()
        for segment in self.segments:
            segment.close()
        self.delete_files()

    def close_without_flush(self) -> None:
        """Close all files without flushing them, and write neither indexes nor a producer snapshot, for example because
        the disk failed or the partition is deleted.
        """
        self.closed = self._abandoned = True
        if self._pending_writes is not None:
            self._pending_writes.drop()
        for segment in self.segments:
            segment.close()

    # Truncating

    def truncate_to(self, offset: int) -> bool:
        """Remove all records from `offset` on, and the whole batch that contains `offset`. Return whether the log ended
        after `offset`.

        If `offset` is within a batch, the log then ends where that batch began, or at the log start offset if that is
        later, and the records before `offset` are fetched again. That happens if DeleteRecords has moved the start of
        the leader's first epoch into a batch.
        """
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(
                offset
            )  # an epoch without records may contradict the leader's epochs, too
            return False
        self._wait_written()
        if offset <= self.segments[0].base_offset:
            epochs = self.leader_epochs.entries
            self.truncate_fully_and_start_at(offset, min(self.log_start_offset, offset))
            self.leader_epochs.restore([e for e in epochs if e.start_offset < offset])  # of tiered records
            return True
        keep = self.segment_number(offset)
        self.discard(self.segments[keep + 1 :])
        offset = max(self.active.truncate_to(offset), min(offset, self.log_start_offset))
        self.txn_index(self.active).truncate_to(offset)
        # the shorter files of the segment are not on disk: after a loss of power, the old end may be there again
        self._end_at(offset, flushed_to=max(self.active.base_offset, self.log_start_offset))
        self.leader_epochs.truncate_from_end(offset)
        self._rebuild_producers()
        return True

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove all records, and continue at `offset`.

        `log_start_offset`: the log start offset if it is not `offset`, because earlier records are in remote storage.
        """
        self._wait_written()
        self.discard(list(self.segments))
        self.delete_files()  # the new segment may have the name of an old one
        self._new_segment(offset)
        self._end_at(offset)
        self.log_start_offset = offset if log_start_offset is None else log_start_offset
        self.leader_epochs.clear()
        self.producers.clear(offset)
        for _, path in snapshots_in(self.dir):
            path.unlink(missing_ok=True)

    def sync_tiered_state(self, offset: int, epochs: list[EpochEntry], producer_snapshot: bytes | None = None) -> None:
        """Write the state that this broker keeps of the records before `offset` once they are only in remote storage.

        The state is their leader epochs, and the producer snapshot (None: it is in its file, which is flushed). Both
        are written with fsync, so call this in a worker thread, before the segments are deleted.
        """
        snapshot = self.dir / file_name(offset, SNAPSHOT_SUFFIX)
        if producer_snapshot is None:
            sync_file(snapshot)
        else:
            replace_file(snapshot, producer_snapshot)
        before = [entry for entry in epochs if entry.start_offset < offset]
        write_tiered(self.dir / checkpoints.TIERED_LEADER_EPOCHS, before)

    def tiered_state_at(self, offset: int) -> tuple[list[EpochEntry], bytes] | None:
        """Return the leader epochs and the producer snapshot of the records before `offset`; None if there is no
        snapshot.
        """
        try:
            snapshot = (self.dir / file_name(offset, SNAPSHOT_SUFFIX)).read_bytes()
        except FileNotFoundError:
            return None
        return [e for e in self.leader_epochs.entries if e.start_offset < offset], snapshot

    def restart_after_tiered(
        self, offset: int, log_start_offset: int, epochs: list[EpochEntry], producer_snapshot: bytes
    ) -> None:
        """Remove all records, and continue at `offset` with the leader epochs and the producers of the records before,
        which are in remote storage.

        The new segment is created last: if the broker crashes before that, the log is empty after the restart, and the
        state is built again. `sync_tiered_state` must have been called with the same state.
        """
        self._wait_written()
        try:
            self.discard(list(self.segments))
            self.delete_files()
            snapshot = self.dir / file_name(offset, SNAPSHOT_SUFFIX)
            for _, path in snapshots_in(self.dir):
                if path != snapshot:
                    path.unlink(missing_ok=True)
            if not snapshot.exists():
                replace_file(snapshot, producer_snapshot, sync=False)
            self.leader_epochs.restore(epochs)
            self._new_segment(offset)
            self._end_at(offset)
            self.log_start_offset, self.high_watermark = log_start_offset, offset
            self.producers.load_snapshot(snapshot)
        except OSError as error:
            raise self._storage_error("restart", error) from error

    def begin_lower_checkpoint(self) -> Callable[[], None] | None:
        """Return a function, to be called by a worker, that writes the recovery points of the log directory after a
        truncation has lowered that of this log; None if they need not be written.

        The lower recovery point has to be on disk before later appends are acknowledged, because recovery assumes that
        everything below the checkpointed recovery point was flushed.
        """
        return None if self._begin_lower_checkpoint is None else self._begin_lower_checkpoint(self.topic_partition)

    def _end_at(self, offset: int, *, flushed_to: int | None = None) -> None:
        self.log_end_offset = offset
        flushed_to = offset if flushed_to is None else min(flushed_to, offset)
        with self._flush_lock:
            self.cuts += 1
            self.recovery_point = min(self.recovery_point, flushed_to)
        self.high_watermark = min(self.high_watermark, offset)
        self.log_start_offset = min(self.log_start_offset, offset)

    def _rebuild_producers(self) -> None:
        for offset, path in snapshots_in(self.dir):
            if offset > self.log_end_offset:
                path.unlink(missing_ok=True)
        self._load_producers(self)

    def delete_records_before(self, offset: int) -> int:
        """Advance the log start offset to `offset`, and discard the segments before it, unless the log start offset is
        there or higher already. Return the log start offset.

        Raises OffsetOutOfRangeError if `offset` is above the high watermark, and KafkaStorageError.
        """
        if offset > self.high_watermark:
            raise errors.OffsetOutOfRangeError(
                f"{self.topic_partition}: records can be deleted up to {self.high_watermark}, not {offset}"
            )
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            try:
                self.drop_before_start()
            except OSError as error:
                raise self._storage_error("delete records of", error) from error
        return self.log_start_offset

    def drop_before_start(self) -> int:
        """Discard the segments that end at or before the log start offset, except the active one.

        Return their number.
        """
        deleted = []
        for segment, following in pairwise(self.segments):
            if following.base_offset > self.log_start_offset:
                break
            deleted.append(segment)
        if deleted:
            self.discard(deleted)
            self._drop_snapshots()
        self.leader_epochs.truncate_from_start(self.log_start_offset)
        return len(deleted)

    def drop_local_before(self, offset: int) -> None:
        """Discard the segments that end at or before `offset`, except the active one, because they are in remote
        storage.

        The log start offset stays, and the producer snapshot at `offset` must be on disk: it replaces the segments
        when the producer state is loaded.
        """
        assert offset <= self.remote_end_offset
        try:
            self.discard(self.segments[: self.segment_number(offset)])
            self._drop_snapshots()
        except OSError as error:
            raise self._storage_error("delete tiered segments of", error) from error

    def _drop_snapshots(self) -> None:
        """Delete producer snapshots that are older than the first segment, except the newest snapshot.

        The one at the start of the first segment stays: later ones may be lost in a power failure.
        """
        for offset, path in snapshots_in(self.dir)[:-1]:
            if offset < self.segments[0].base_offset:
                path.unlink(missing_ok=True)


def _as_new(message: memoryview) -> tuple[BatchHeader, memoryview]:
    """Convert a message of format 0 or 1, with the messages compressed in it, to a batch of format 2 with the same
    offsets.
    """
    from ottla.records import legacy_message_set

    batch = memoryview(legacy_message_set.in_place(message))
    return any_magic.read_header(batch), batch
