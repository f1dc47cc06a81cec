"""One partition as this broker leads it: appends, what may be read, and who waits for more.

Invariant: the high watermark never goes back while the broker runs, and nobody reads at or beyond it. Where the topic
asks for fsync (`flush.messages`), it moves only when the bytes are on disk, and one fsync serves every append that
came in meanwhile. Loop thread; the fsync itself runs on a worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor

from ottla.cluster.metadata import PartitionImage
from ottla.errors import (
    FencedLeaderEpochError,
    KafkaStorageError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
)
from ottla.model import TopicPartition
from ottla.storage.files import FileSlice
from ottla.storage.log import Appended, DiskFailedError, Log

logger = logging.getLogger("ottla.replication")

ALL_REPLICAS = -1
"""acks=all."""

Waiter = Callable[[int], None]
"""Told how many bytes a partition has gained, or 0 when it changed in another way."""


class Partition:
    """A partition that this broker leads."""

    def __init__(self, log: Log, image: PartitionImage, min_insync_replicas: int, workers: Executor) -> None:
        self.log = log
        self.image = image
        self.min_insync_replicas = min_insync_replicas
        self._workers = workers
        self._flush: asyncio.Future[None] | None = None
        self._waiters: set[Waiter] = set()
        self._pending: list[tuple[int, asyncio.Future[None]]] = []
        self._closed = False
        self._failed = False
        self.on_disk_failure: Callable[[Partition, BaseException], None] | None = None
        """Told when the disk failed under the log."""
        log.on_roll = self._on_roll

    @property
    def topic_partition(self) -> TopicPartition:
        """Which partition."""
        return self.log.topic_partition

    @property
    def high_watermark(self) -> int:
        """The offset after the last record that a consumer may read."""
        return self.log.high_watermark

    def lead(self, image: PartitionImage) -> None:
        """Become the leader, with the epoch of `image`. A lone replica has everything that there is."""
        self.image = image
        self.log.high_watermark = self.log.log_end_offset

    @property
    def closed(self) -> bool:
        """Whether it serves nobody any more."""
        return self._closed

    def replace_log(self, log: Log) -> None:
        """Go on with a copy of the log that holds all that the present one does."""
        assert log.log_end_offset == self.log.log_end_offset, "the copy has not caught up"
        log.high_watermark = self.log.high_watermark
        self.log.on_roll = None
        log.on_roll = self._on_roll
        self.log = log

    def close(self) -> None:
        """No more appends or reads; who waits is told."""
        self._closed = True
        for _, future in self._pending:
            if not future.done():
                future.set_exception(NotLeaderOrFollowerError())
        self._pending.clear()
        self._wake(0)

    def check_epoch(self, expected: int) -> None:
        """Hold the leader epoch that a client believes in against the real one; -1 is not checked (KIP-320)."""
        self._check_open()
        if 0 <= expected < self.image.leader_epoch:
            raise FencedLeaderEpochError
        if expected > self.image.leader_epoch:
            raise UnknownLeaderEpochError

    def _check_open(self) -> None:
        if self._failed:
            raise KafkaStorageError(f"the disk failed under {self.topic_partition}")
        if self._closed:
            raise NotLeaderOrFollowerError

    def append(self, data: memoryview, acks: int = ALL_REPLICAS, *, from_client: bool = True) -> Appended:
        """Append batches. Whether they are safe is told by `safe`."""
        self._check_open()
        if acks == ALL_REPLICAS and len(self.image.isr) < self.min_insync_replicas:
            raise NotEnoughReplicasError(
                f"{self.topic_partition} has {len(self.image.isr)} in-sync replica(s), "
                f"min.insync.replicas is {self.min_insync_replicas}"
            )
        try:
            appended = self.log.append(data, leader_epoch=self.image.leader_epoch, origin_client=from_client)
        except DiskFailedError as error:
            self.fail(error)
            raise
        if self.log.unflushed_messages >= self.log.config.flush_messages:
            self._flush_soon()
        else:
            self._advance(self.log.log_end_offset, len(data))
        return appended

    def safe(self, next_offset: int) -> asyncio.Future[None] | None:
        """None when everything before `next_offset` is replicated (and flushed), else what becomes done when it is."""
        if self.high_watermark >= next_offset:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending.append((next_offset, future))
        return future

    def read(self, offset: int, max_bytes: int, *, committed_only: bool, at_least_one: bool) -> FileSlice:
        """Batches from `offset` on, as far as a consumer may read."""
        bound = self.log.last_stable_offset if committed_only else self.high_watermark
        if not self.log.log_start_offset <= offset <= self.log.log_end_offset:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition}: offset {offset} is outside "
                f"{self.log.log_start_offset} to {self.log.log_end_offset}"
            )
        return self.log.read(offset, max_bytes, max_offset=bound, at_least_one=at_least_one)

    def watch(self, waiter: Waiter) -> None:
        """Tell `waiter` of news until `unwatch`."""
        self._waiters.add(waiter)

    def unwatch(self, waiter: Waiter) -> None:
        """Tell it no more."""
        self._waiters.discard(waiter)

    @property
    def has_pending(self) -> bool:
        """Whether somebody waits for an append to be safe."""
        return bool(self._pending)

    async def flush(self) -> None:
        """Wait until everything appended so far is on disk, or cannot be; who waited for that is told."""
        end = self.log.log_end_offset
        try:
            await asyncio.get_running_loop().run_in_executor(self._workers, self.log.flush, end)
        except KafkaStorageError as error:
            self.fail(error)
        else:
            self._advance(end, 0)

    def _on_roll(self, log: Log) -> None:
        """A closed segment is written to disk in the background, so that a restart has only the last one to check."""
        if not self._closed:
            self.flush_in_background(log.active.base_offset)

    def flush_in_background(self, up_to: int | None = None) -> None:
        """Have a worker fsync what was appended (before `up_to`). A failure takes the partition out of service."""
        loop = asyncio.get_running_loop()
        done = loop.run_in_executor(self._workers, self.log.flush, up_to)
        done.add_done_callback(self._on_background_flush)

    def _on_background_flush(self, done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """The disk failed: out of service until a restart.

        After a failed fsync nobody knows which pages are gone, and a second fsync may lie about it.
        """
        if self._failed:
            return
        logger.error("%s is out of service until a restart: %s", self.topic_partition, error)
        self.log.failed = self._failed = self._closed = True
        failed = KafkaStorageError(f"{self.topic_partition} is out of service: {error}")
        for _, future in self._pending:
            if not future.done():
                future.set_exception(failed)
        self._pending.clear()
        self._wake(0)
        if self.on_disk_failure is not None:
            self.on_disk_failure(self, error)

    def _flush_soon(self) -> None:
        if self._flush is not None:
            return
        end, position = self.log.log_end_offset, self.log.size
        self._flush = asyncio.get_running_loop().run_in_executor(self._workers, self.log.flush, end)
        self._flush.add_done_callback(lambda done: self._on_flushed(done, end, position))

    def _on_flushed(self, done: asyncio.Future[None], end: int, position: int) -> None:
        self._flush = None
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self.fail(error)
            return
        if self._closed:
            return
        self._advance(end, max(1, self.log.size - position))
        if self.high_watermark < self.log.log_end_offset:
            self._flush_soon()

    def _advance(self, offset: int, gained: int) -> None:
        if offset <= self.log.high_watermark:
            return
        self.log.high_watermark = offset
        if self._pending:
            still = []
            for wanted, future in self._pending:
                if wanted > offset:
                    still.append((wanted, future))
                elif not future.done():
                    future.set_result(None)
            self._pending = still
        self._wake(gained)

    def _wake(self, gained: int) -> None:
        for waiter in tuple(self._waiters):
            waiter(gained)
