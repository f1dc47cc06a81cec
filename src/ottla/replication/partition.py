"""A partition of which this broker has a replica: its log, its role, its high watermark, and the requests that wait for
the latter.

The partition's image determines whether this broker is the leader or a follower. The leader's part is in
`leader_replica`, the follower's in `follower`.

Invariant: the high watermark never decreases while this broker leads, and consumers read no records at or above it.
While `flush.messages` or more records are not flushed, an append advances the high watermark only to the end of the
flushed ones; all appends that arrive during an fsync share the next one. Not thread-safe: event loop only; fsync runs
on a worker.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from uuid import UUID

from ottla import errors
from ottla.cluster.image.cluster_image import PartitionImage
from ottla.logs import limit_repeated_errors, reason_of
from ottla.model import TopicPartition
from ottla.protocol.fields import ZERO_UUID
from ottla.replication.isr_updates import IsrSubmitter
from ottla.replication.leader_replica import LeaderReplica
from ottla.replication.offset_waiters import OffsetWaiters
from ottla.replication.topic_stats import TopicStats
from ottla.storage import validation
from ottla.storage.append_writer import QueueFullError
from ottla.storage.files import SCARCE, DiskFailedError, DiskFullError, FileSlice, ResourcesExhaustedError
from ottla.storage.log import Appended, Log
from ottla.storage.validation import Prepared

logger = logging.getLogger("ottla.replication")
full_log = logging.getLogger("ottla.replication.full")
limit_repeated_errors(full_log)  # every retry of a producer fails in the same way

ALL_REPLICAS = -1
"""The value of acks that means all."""

LAG_SECONDS = 30.0
"""Kafka's default of `replica.lag.time.max.ms`."""

FULL_RETRY_SECONDS = 1.0
"""Delay in seconds before a queued write is tried again because the disk was full."""
FLUSH_RETRY_SECONDS = 1.0
"""Delay in seconds before a flush is tried again because file descriptors or memory were exhausted."""

Waiter = Callable[[int], None]
"""Called with the number of bytes that were added to a partition, or 0 after another change."""


class Partition:
    """This broker's replica of a partition, leader or follower. Implements LogListener."""

    def __init__(
        self,
        log: Log,
        image: PartitionImage,
        min_insync_replicas: int,
        workers: Executor,
        *,
        topic_id: UUID = ZERO_UUID,
        isr_updates: IsrSubmitter | None = None,
        lag_seconds: float = LAG_SECONDS,
        on_disk_failure: Callable[[Partition, BaseException], None] | None = None,
        topic_stats: TopicStats | None = None,
    ) -> None:
        """`on_disk_failure`: called with the partition and the error when `fail` takes the partition out of service,
        unless the error means that file descriptors or memory are exhausted.
        """
        self.log = log
        self.image = image
        self.topic_id = topic_id
        self.topic_stats = topic_stats or TopicStats()
        """The counters of the topic, which all of its partitions share."""
        self.leads = False
        """Whether this broker has the role of the leader."""
        self.min_insync_replicas = min_insync_replicas
        self._workers = workers
        self._flush: asyncio.Future[None] | None = None
        self._waiters: dict[Waiter, None] = {}  # in the order of their arrival
        self._append_waiters: dict[Waiter, None] = {}
        self._replicated = OffsetWaiters()
        """Futures that complete when the high watermark has reached an offset."""
        self._flushed = OffsetWaiters()
        """Futures that complete when records are written on this broker, and flushed if required: for acks=1."""
        self._written = OffsetWaiters()
        """Futures that complete when queued writes have been written."""
        self.leader_replica = LeaderReplica(self, isr_updates, lag_seconds)
        self.throttled_leader = False
        self.throttled_follower = False
        """`throttled_leader` and `throttled_follower`: whether replication is throttled while this broker leads, or
        follows (see `replication_quota`).
        """
        self._closed = False
        self._failed = False
        self._on_disk_failure = on_disk_failure
        log.listener = self

    @property
    def topic_partition(self) -> TopicPartition:
        return self.log.topic_partition

    @property
    def _flush_workers(self) -> Executor:
        """The threads that flush the log: those of its directory, if it has any. The directory changes if the log is
        moved.
        """
        return self._workers if self.log.flusher is None else self.log.flusher.workers

    @property
    def high_watermark(self) -> int:
        """The offset up to which consumers may read, except with isolation level read_committed."""
        return self.log.high_watermark

    def is_older(self, image: PartitionImage) -> bool:
        """Return whether an image is older than the current one."""
        current = self.image
        return (image.leader_epoch, image.state_version) < (current.leader_epoch, current.state_version)

    def lead(self, image: PartitionImage) -> bool:
        """Become the leader, or apply a new state as the leader. Return whether this starts a new leader epoch.

        If there is no other replica, the high watermark becomes the end of the log when this broker becomes the leader.
        Otherwise it stays until all in-sync followers have fetched.
        """
        led = self.leads
        new = not led or image.leader_epoch > self.image.leader_epoch
        changed = new or image.state_version > self.image.state_version or image.replicas != self.image.replicas
        self.image = image
        self.leads = True
        leader = self.leader_replica
        if len(image.replicas) == 1:
            leader.state = None
            if not led:  # otherwise appends may wait, for the followers that were removed or for a flush
                self.log.high_watermark = self.log.written_end_offset
        elif new or leader.state is None:
            leader.start_epoch(image)
        elif changed:
            leader.state.update(image)
        if changed:
            self._on_new_state()
        return new

    def become_follower(self, image: PartitionImage) -> None:
        """Become a follower of the leader in `image`, if it names one.

        Pending appends fail with NotLeaderOrFollowerError.
        """
        self.image = image
        if self.leads:
            self._resign()

    def _resign(self) -> None:
        self.leads = False
        self.leader_replica.resign()
        self._fail_waiters(errors.NotLeaderOrFollowerError())

    @property
    def closed(self) -> bool:
        """Whether the partition is out of service: closed, or failed."""
        return self._closed

    @property
    def failed(self) -> bool:
        """Whether `fail` has taken the partition out of service."""
        return self._failed

    def replace_log(self, log: Log) -> None:
        """Replace the log with its copy in another log directory, which must have the same end offset."""
        assert log.log_end_offset == self.log.log_end_offset, "the copy has not caught up"
        log.high_watermark = self.log.high_watermark
        self.log.listener = None
        log.listener = self
        self.log = log
        self._flush = None  # that of the old log may hang; the copy is on disk
        self.maybe_advance_high_watermark(0)

    def close(self) -> None:
        """Take the partition out of service. Pending appends fail with NotLeaderOrFollowerError, and waiters are
        called.
        """
        self._closed = True
        self._resign()

    def _fail_waiters(self, error: errors.KafkaError) -> None:
        self._replicated.fail_all(error)
        self._flushed.fail_all(error)
        self._written.fail_all(error)
        self.leader_replica.fail_waiters(error)
        _wake(self._waiters, 0)
        _wake(self._append_waiters, 0)

    def check_epoch(self, expected: int) -> None:
        """Check the leader epoch in a request; -1 is not checked (KIP-320).

        Raises FencedLeaderEpochError if it is older than the current one, UnknownLeaderEpochError if it is newer, and
        the errors of `check_open`.
        """
        if self._failed or self._closed:
            self.check_open()
        if expected < 0 or expected == self.image.leader_epoch:
            return
        raise errors.FencedLeaderEpochError if expected < self.image.leader_epoch else errors.UnknownLeaderEpochError

    def check_open(self) -> None:
        """Raise KafkaStorageError or NotLeaderOrFollowerError if the partition is out of service."""
        if self._failed:
            raise errors.KafkaStorageError(f"the disk of {self.topic_partition} has failed")
        if self._closed:
            raise errors.NotLeaderOrFollowerError

    async def prepare(self, data: memoryview) -> Prepared:
        """Validate a producer's batch in a worker, because it would take too long on the event loop.

        The caller passes the result to `append`.
        """
        prepare = functools.partial(validation.prepare, data, self.log.config, self.log.clock.now_ms())
        return await asyncio.get_running_loop().run_in_executor(self._workers, prepare)

    def append(
        self,
        data: memoryview | Prepared,
        acks: int = ALL_REPLICAS,
        *,
        from_client: bool = True,
        inline: bool = False,
    ) -> Appended:
        """Append batches as the leader. For their replication, see `when_committed`.

        `inline`: raise LongValidationError for a batch that has to be validated by `prepare` first, and QueueFullError
        if the caller has to `wait_for_disk` first.

        Raises the errors of `check_open` and `Log.append`, NotLeaderOrFollowerError if this broker does not lead, and
        with acks=all NotEnoughReplicasError. An error of the disk may take the partition out of service.
        """
        if self._failed or self._closed:
            self.check_open()
        if not self.leads:
            raise errors.NotLeaderOrFollowerError
        in_sync = len(self.image.isr)
        if acks == ALL_REPLICAS and in_sync < self.min_insync_replicas and in_sync < self.required_isr:
            raise errors.NotEnoughReplicasError(
                f"{self.topic_partition} has {in_sync} in-sync replica(s), "
                f"min.insync.replicas is {self.min_insync_replicas}"
            )
        if inline and self.log.is_queue_full:
            raise QueueFullError
        try:
            appended = self.log.append(
                data, leader_epoch=self.image.leader_epoch, origin_client=from_client, inline=inline
            )
        except DiskFailedError as error:
            self.fail(error)
            raise
        except DiskFullError as error:
            # Other in-sync replicas may have space and can lead. The last one stays in service, because retention may
            # free space.
            if len(self.image.isr) > 1:
                self.fail(error)
            else:
                full_log.warning("Cannot append to %s; rejecting the batch: %s", self.topic_partition, error)
            raise
        except ResourcesExhaustedError as error:
            full_log.warning("Cannot append to %s; rejecting the batch: %s", self.topic_partition, error)
            raise
        nbytes = len(data.data if isinstance(data, Prepared) else data)
        stats = self.topic_stats
        stats.produce_requests += 1
        if not appended.duplicate:
            stats.bytes_in += nbytes
            stats.messages_in += appended.last_offset - appended.base_offset + 1
        if (
            self.log.written_end_offset > appended.last_offset
        ):  # otherwise the write is queued, and on_written will be called
            self._on_appended(nbytes)
        return appended

    @property
    def required_isr(self) -> int:
        """The number of replicas that must be in sync for acks=all: `min.insync.replicas`, but at most the number of
        replicas, as in Kafka.
        """
        return min(self.min_insync_replicas, len(self.image.replicas))

    def _on_appended(self, nbytes: int) -> None:
        if self.log.unflushed_messages >= self.log.config.flush_messages:
            self._flush_soon()
        else:
            self.maybe_advance_high_watermark(nbytes)
        if self._append_waiters:
            _wake(self._append_waiters, nbytes)

    def on_written(self, nbytes: int) -> None:
        """Called when `nbytes` of queued writes have been written."""
        if self._closed:
            return
        self._written.complete_up_to(self.log.written_end_offset)
        self._on_appended(nbytes)

    def on_write_failed(self, error: errors.KafkaStorageError, retry: Callable[[], None]) -> None:
        """Take the partition out of service, or, if the disk is full and no other replica can lead, call `retry`
        later.
        """
        if self._closed:
            return
        if isinstance(error, DiskFullError) and len(self.image.isr) <= 1:
            full_log.warning(
                "Cannot write appended records of %s; retrying in %g s: %s",
                self.topic_partition,
                FULL_RETRY_SECONDS,
                error,
            )
            asyncio.get_running_loop().call_later(FULL_RETRY_SECONDS, retry)
        else:
            self.fail(error)

    def when_written(self) -> asyncio.Future[None] | None:
        """Return None if all appended records are in the files, else a future that completes when they are."""
        end = self.log.log_end_offset
        return None if self.log.written_end_offset >= end else self._written.add(end)

    async def wait_for_disk(self) -> None:
        """Wait until the queue of writes has space for further appends."""
        await self.log.wait_for_queue()

    def when_committed(self, next_offset: int, acks: int = ALL_REPLICAS) -> asyncio.Future[None] | None:
        """Return None if all records before `next_offset` are committed, else a future that completes when they are.

        With acks=all, records are committed when they are replicated; with acks=1, when they are in this broker's log.
        In both cases this broker must have flushed them if `flush.messages` requires it.
        """
        if self.high_watermark >= next_offset:
            return None
        if acks == ALL_REPLICAS or self.leader_replica.state is None:
            return self._replicated.add(next_offset)
        return None if self._local_end_offset >= next_offset else self._flushed.add(next_offset)

    def read(self, offset: int, max_bytes: int, *, committed_only: bool, at_least_one: bool) -> FileSlice:
        """Return batches from `offset` on, up to the high watermark, or with `committed_only` up to the last stable
        offset.

        `max_bytes` and `at_least_one` are those of `Log.read`. Raises OffsetOutOfRangeError for an offset outside the
        log, OffsetMovedToTieredStorageError for one that is only in remote storage, and KafkaStorageError if the log
        cannot be read. A failed disk takes the partition out of service.
        """
        bound = self.log.last_stable_offset if committed_only else self.log.high_watermark
        return self._read(offset, max_bytes, bound, at_least_one)

    def read_to_end(self, offset: int, max_bytes: int, *, at_least_one: bool) -> FileSlice:
        """Return batches from `offset` to the end of the log, for a follower. Raises the errors of `read`."""
        return self._read(offset, max_bytes, self.log.log_end_offset, at_least_one)

    def _read(self, offset: int, max_bytes: int, bound: int, at_least_one: bool) -> FileSlice:
        try:
            return self.log.read(offset, max_bytes, max_offset=bound, at_least_one=at_least_one)
        except OSError as error:
            if error.errno not in SCARCE:
                self.fail(error)
            raise errors.KafkaStorageError(f"{self.topic_partition} cannot be read: {error}") from error

    def watch(self, waiter: Waiter, *, appends: bool = False) -> None:
        """Call `waiter` whenever consumers can read more, or with `appends` after every append as the leader, until
        `unwatch`.

        It is also called when this broker stops leading or serving the partition.
        """
        (self._append_waiters if appends else self._waiters)[waiter] = None

    def unwatch(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)
        self._append_waiters.pop(waiter, None)

    def wake_followers(self) -> None:
        """Call the waiters for appends, such as the pending fetches of followers, so that they respond now."""
        _wake(self._append_waiters, 0)

    def _on_new_state(self) -> None:
        if len(self.image.isr) < self.required_isr and self.leader_replica.state is not None:
            self._replicated.fail_all(
                errors.NotEnoughReplicasAfterAppendError(f"{self.topic_partition} has only isr={self.image.isr}")
            )
        self.maybe_advance_high_watermark(0)
        self.leader_replica.on_new_state()

    def set_high_watermark(self, offset: int) -> None:
        self.log.high_watermark = offset
        _wake(self._waiters, 0)

    @property
    def has_pending(self) -> bool:
        """Whether any caller of `when_committed` waits for an append to be committed."""
        return bool(self._replicated or self._flushed)

    async def flush(self) -> None:
        """Flush all records that have been written so far. If that fails, take the partition out of service."""
        log = self.log
        flush = functools.partial(log.flush, log.written_end_offset, is_awaited=True)
        try:
            await asyncio.get_running_loop().run_in_executor(self._flush_workers, flush)
        except errors.KafkaStorageError as error:
            if log is self.log:  # otherwise it was moved to another directory, which has not failed
                self.fail(error)
        else:
            self.maybe_advance_high_watermark(0)

    async def checkpoint_truncation(self) -> None:
        """Wait until the recovery point on disk is not above the end of the truncated log.

        If it cannot be written, take the partition out of service.
        """
        write = self.log.begin_lower_checkpoint()
        if write is None:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(self._workers, write)
        except errors.KafkaStorageError as error:
            self.fail(error)

    def on_roll(self) -> None:
        """Flush the segment that was just closed, in the background, so that recovery has to check only the active
        segment.
        """
        if not self._closed:
            self.flush_in_background(self.log.active.base_offset)

    def flush_in_background(self, up_to: int | None = None) -> None:
        """Flush records on a worker: those before offset `up_to`, or all for None.

        If that fails, take the partition out of service, or try again if file descriptors or memory are exhausted.
        """
        loop, log = asyncio.get_running_loop(), self.log
        done = loop.run_in_executor(self._flush_workers, log.flush, up_to)
        done.add_done_callback(lambda done: self._on_background_flush(done, log, up_to))

    def _on_background_flush(self, done: asyncio.Future[None], log: Log, up_to: int | None) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None and log is self.log:  # otherwise it was moved to another directory, which has not failed
            self._on_flush_failed(error, lambda: self.flush_in_background(up_to))

    def _on_flush_failed(self, error: BaseException, flush: Callable[[], None]) -> None:
        """Take the partition out of service, or call `flush` later if file descriptors or memory are exhausted."""
        if not isinstance(error, ResourcesExhaustedError):
            self.fail(error)
            return
        full_log.warning("Cannot flush %s; retrying in %g s: %s", self.topic_partition, FLUSH_RETRY_SECONDS, error)
        asyncio.get_running_loop().call_later(FLUSH_RETRY_SECONDS, lambda: None if self._closed else flush())

    def fail(self, error: BaseException) -> None:
        """Take the partition out of service until a restart, for example because its disk has failed or is full.

        There is no retry: after a failed fsync it is unknown which pages are lost, and a second fsync may succeed
        nevertheless.
        """
        if self._failed:
            return
        reason = reason_of(error)
        logger.error("Taking %s out of service until a restart: %s", self.topic_partition, reason)
        self.log.failed = self._failed = self._closed = True
        self._fail_waiters(errors.KafkaStorageError(f"{self.topic_partition} is out of service: {reason}"))
        is_scarce = isinstance(error, ResourcesExhaustedError) or (isinstance(error, OSError) and error.errno in SCARCE)
        if self._on_disk_failure is not None and not is_scarce:
            self._on_disk_failure(self, error)

    def _flush_soon(self) -> None:
        if self._flush is not None:
            return
        log, position = self.log, self.log.size
        flush = functools.partial(log.flush, log.written_end_offset, is_awaited=True)
        self._flush = asyncio.get_running_loop().run_in_executor(self._flush_workers, flush)
        self._flush.add_done_callback(lambda done: self._on_flushed(done, log, position))

    def _on_flushed(self, done: asyncio.Future[None], log: Log, position: int) -> None:
        error = None if done.cancelled() else done.exception()
        if log is not self.log:
            return  # it was moved to another directory meanwhile
        self._flush = None
        if error is not None:
            self._on_flush_failed(error, self._flush_soon)
            return
        if self._closed:
            return
        self.maybe_advance_high_watermark(max(1, self.log.size - position))
        if self.log.unflushed_messages >= self.log.config.flush_messages:
            self._flush_soon()

    @property
    def _local_end_offset(self) -> int:
        """The end offset of the written records, or of the flushed ones if `flush.messages` or more are unflushed."""
        log = self.log
        end = log.written_end_offset
        return end if end - log.recovery_point < log.config.flush_messages else log.recovery_point

    def uncommitted_reason(self, next_offset: int) -> str:
        """Return the reason why the records before `next_offset` are not committed yet, for an error message."""
        if self._local_end_offset < next_offset:
            return f"the disk of {self.log.dir.parent} has not written them yet"
        behind = self.leader_replica.followers_behind(next_offset)
        if behind:
            return f"these in-sync replicas have not fetched them yet: {', '.join(map(str, behind))}"
        return "the ISR is changing"

    def maybe_advance_high_watermark(self, gained: int) -> None:
        """Advance the high watermark as far as possible, and complete the requests that wait for it.

        Do nothing if this broker does not lead. `gained`: number of bytes that were appended; 0 after another change.
        """
        if not self.leads:
            return
        offset = self._local_end_offset
        self._flushed.complete_up_to(offset)
        if self.leader_replica.state is not None:
            offset = self.leader_replica.high_watermark(offset, self.min_insync_replicas)
        if offset <= self.log.high_watermark:
            return
        self.log.high_watermark = offset
        self._replicated.complete_up_to(offset)
        _wake(self._waiters, gained)


def _wake(waiters: dict[Waiter, None], gained: int) -> None:
    for waiter in tuple(waiters):
        waiter(gained)
