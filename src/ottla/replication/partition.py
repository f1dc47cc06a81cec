"""One partition of which this broker has a replica: appends, what may be read, and who waits for more.

It leads, or it follows; what it is comes with an image of the partition. Invariant: the high watermark never goes back
while it leads, and nobody but replicas reads at or beyond it. Where the topic asks for fsync (`flush.messages`), it
moves only when the bytes are on disk, and one fsync serves every append that came in meanwhile. Loop thread; the fsync
itself runs on a worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from typing import NamedTuple

from ottla.cluster.image.cluster_image import PartitionImage
from ottla.errors import (
    FencedLeaderEpochError,
    KafkaError,
    KafkaStorageError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
)
from ottla.model import TopicPartition
from ottla.net.flood import FloodFilter
from ottla.protocol.fields import ZERO_UUID
from ottla.replication.isr_state import LeaderState
from ottla.replication.isr_updates import IsrUpdates, submit_until_settled
from ottla.replication.offset_waiters import OffsetWaiters
from ottla.replication.replica import Replica
from ottla.storage.files import SCARCE, DiskFailedError, DiskFullError, FileSlice, ResourcesExhaustedError
from ottla.storage.log import Appended, Log

logger = logging.getLogger("ottla.replication")
full_log = logger.getChild("full")
full_log.addFilter(FloodFilter())  # each append that a client tries again fails

ALL_REPLICAS = -1
"""acks=all."""

LAG_SECONDS = 30.0
"""Kafka's default of replica.lag.time.max.ms."""

FLUSH_RETRY_SECONDS = 1.0
"""Until a flush for which there was no descriptor is tried again."""

Waiter = Callable[[int], None]
"""Told how many bytes a partition has gained, or 0 when it changed in another way."""


class FollowerFetch(NamedTuple):
    """What a follower's fetch tells of it."""

    replica_id: int
    broker_epoch: int
    leader_epoch: int
    offset: int
    log_start: int
    followed_at: float = float("-inf")
    """When the response was made to which this fetch is the reply (see `Replica.followed_at`)."""


class Partition:
    """A replica of a partition, leading or following."""

    def __init__(self, log: Log, image: PartitionImage, min_insync_replicas: int, workers: Executor) -> None:
        self.log = log
        self.image = image
        self.leads = False
        """Whether this broker is the leader that `image` names."""
        self.min_insync_replicas = min_insync_replicas
        self._workers = workers
        self._flush: asyncio.Future[None] | None = None
        self._waiters: set[Waiter] = set()
        self._append_waiters: set[Waiter] = set()
        self._pending = OffsetWaiters()
        """For the high watermark."""
        self._unwritten = OffsetWaiters()
        """For this broker's own disk, where the topic asks for fsync and other replicas are not waited for."""
        self._deletions = OffsetWaiters()
        """For the log starts of the followers that live."""
        self._confirmations = OffsetWaiters()
        """For proof of being the leader: by the time since when an in-sync follower has to have followed."""
        self._alive: Callable[[], Iterable[int]] = tuple
        self._leadership: LeaderState | None = None
        """What is known of the followers; None for a lone replica, and while this one follows."""
        self._proposing: asyncio.Task[None] | None = None
        self.isr_updates: IsrUpdates | None = None
        self.topic_id = ZERO_UUID
        self.lag_seconds = LAG_SECONDS
        self.throttled_leader = False
        self.throttled_follower = False
        """Whether replication of it is bounded, at the leader and at this follower (see `replication_quota`)."""
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

    def is_older(self, image: PartitionImage) -> bool:
        """Whether an image is older than what this replica goes by."""
        known = self.image
        return (image.leader_epoch, image.state_version) < (known.leader_epoch, known.state_version)

    def lead(self, image: PartitionImage) -> bool:
        """Lead, by the state that `image` tells; whether that is news: so far it did not, or in an earlier epoch.

        A lone replica has all that there is. With others the high watermark stays until they tell how far they are.
        """
        new = not self.leads or image.leader_epoch > self.image.leader_epoch
        news = new or image.state_version > self.image.state_version or image.replicas != self.image.replicas
        self.image = image
        self.leads = True
        if len(image.replicas) == 1:
            self._leadership = None
            if new:
                self.log.high_watermark = self.log.log_end_offset
        elif new or self._leadership is None:
            self._begin_leadership(image)
        elif news:
            self._leadership.update(image)
        if news:
            self._on_new_state()
        return new

    def _begin_leadership(self, image: PartitionImage) -> None:
        end = self.log.log_end_offset
        # also if nothing is ever written in it: a follower may have records of an epoch that this log never saw
        self.log.leader_epochs.assign(image.leader_epoch, end)
        self._leadership = LeaderState(image, end, self._now(), self.lag_seconds)

    def _now(self) -> float:
        return self.log.clock.monotonic()

    def follow(self, image: PartitionImage) -> None:
        """Follow the leader of `image`, or wait for one. Who waits here is sent away."""
        self.image = image
        if self.leads:
            self._resign()

    def _resign(self) -> None:
        self.leads = False
        if self._leadership is not None:
            self._leadership.withdraw()
            self._leadership = None
        if self._proposing is not None:
            self._proposing.cancel()
        self._give_up(NotLeaderOrFollowerError())

    @property
    def closed(self) -> bool:
        """Whether it serves nobody any more."""
        return self._closed

    @property
    def failed(self) -> bool:
        """Whether the disk failed under it."""
        return self._failed

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
        self._resign()

    def _give_up(self, error: KafkaError) -> None:
        """Tell all who wait that it is in vain."""
        self._pending.fail(error)
        self._unwritten.fail(error)
        self._deletions.fail(error)
        self._confirmations.fail(error)
        _wake(self._waiters, 0)
        _wake(self._append_waiters, 0)

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
        if not self.leads:
            raise NotLeaderOrFollowerError
        if acks == ALL_REPLICAS and len(self.image.isr) < self._required:
            raise NotEnoughReplicasError(
                f"{self.topic_partition} has {len(self.image.isr)} in-sync replica(s), "
                f"min.insync.replicas is {self.min_insync_replicas}"
            )
        try:
            appended = self.log.append(data, leader_epoch=self.image.leader_epoch, origin_client=from_client)
        except DiskFailedError as error:
            self.fail(error)
            raise
        except DiskFullError as error:
            # others in sync may have room and can lead; the last one goes on, since retention makes room again
            if len(self.image.isr) > 1:
                self.fail(error)
            else:
                full_log.warning("%s takes no records: %s", self.topic_partition, error)
            raise
        except ResourcesExhaustedError as error:
            full_log.warning("%s takes no records: %s", self.topic_partition, error)
            raise
        self._on_appended(len(data))
        return appended

    @property
    def _required(self) -> int:
        """How many replicas have to be in sync for acks=all: of two replicas not three, as in Kafka."""
        return min(self.min_insync_replicas, len(self.image.replicas))

    @property
    def is_hw_behind_epoch_start(self) -> bool:
        """Whether the high watermark may lie below what consumers of the leader before this one have seen (KIP-207)."""
        return self._leadership is not None and self.log.high_watermark < self._leadership.start

    def _on_appended(self, nbytes: int) -> None:
        if self.log.unflushed_messages >= self.log.config.flush_messages:
            self._flush_soon()
        else:
            self._maybe_advance_high_watermark(nbytes)
        if self._append_waiters:
            _wake(self._append_waiters, nbytes)

    def when_committed(self, next_offset: int, acks: int = ALL_REPLICAS) -> asyncio.Future[None] | None:
        """None when everything before `next_offset` is replicated (and flushed), else what becomes done when it is.

        With acks=1 it is this broker's own log that counts.
        """
        if self.high_watermark >= next_offset:
            return None
        if acks == ALL_REPLICAS or self._leadership is None:
            return self._pending.add(next_offset)
        return None if self._local_end_offset >= next_offset else self._unwritten.add(next_offset)

    @property
    def needs_confirmation(self) -> bool:
        """Whether a response waits for proof that this broker still leads; followers are then answered at once."""
        return bool(self._confirmations)

    def confirm_leadership(self, seconds: float) -> asyncio.Future[None] | None:
        """Prove that this broker leads at this moment, before a producer gets an error that only the leader may give.

        A broker that was paused, or was made the leader while it was, does not know that another one leads by now and
        has appended what is missing here. The future completes when an in-sync follower has proved that it still
        follows, and fails with NotLeaderOrFollowerError after `seconds`, or when this broker resigns. None if no
        other replica is in sync: then nobody else can lead.
        """
        if self._leadership is None or len(self.image.isr) <= 1:
            return None
        confirmed = self._confirmations.add(self._now())
        asyncio.get_running_loop().call_later(seconds, _fail_with_not_leader, confirmed)
        _wake(self._append_waiters, 0)
        return confirmed

    def read(self, offset: int, max_bytes: int, *, committed_only: bool, at_least_one: bool) -> FileSlice:
        """Batches from `offset` on, as far as a consumer may read.

        Raises OffsetOutOfRangeError for an offset outside of the log, and KafkaStorageError where the disk fails; that
        takes the partition out of service.
        """
        bound = self.log.last_stable_offset if committed_only else self.high_watermark
        return self._read(offset, max_bytes, bound, at_least_one)

    def read_to_end(self, offset: int, max_bytes: int, *, at_least_one: bool) -> FileSlice:
        """Batches from `offset` on, as far as they are written: for a replica. Raises what `read` does."""
        return self._read(offset, max_bytes, self.log.log_end_offset, at_least_one)

    def _read(self, offset: int, max_bytes: int, bound: int, at_least_one: bool) -> FileSlice:
        if not self.log.log_start_offset <= offset <= self.log.log_end_offset:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition}: offset {offset} is outside "
                f"{self.log.log_start_offset} to {self.log.log_end_offset}"
            )
        try:
            return self.log.read(offset, max_bytes, max_offset=bound, at_least_one=at_least_one)
        except OSError as error:
            if error.errno not in SCARCE:
                self.fail(error)
            raise KafkaStorageError(f"{self.topic_partition} cannot be read: {error}") from error

    def watch(self, waiter: Waiter, *, appends: bool = False) -> None:
        """Tell `waiter` of what consumers may read, or of `appends`, until `unwatch`."""
        (self._append_waiters if appends else self._waiters).add(waiter)

    def unwatch(self, waiter: Waiter) -> None:
        """Tell it no more."""
        self._waiters.discard(waiter)
        self._append_waiters.discard(waiter)

    # Leading others

    def fetched(self, fetch: FollowerFetch) -> Replica:
        """A follower has everything before the offset that it asks for. Raises where it is none of this leader's."""
        leadership = self._leadership
        replica = None if leadership is None else leadership.replicas.get(fetch.replica_id)
        if leadership is None or replica is None:
            # with an epoch it is ahead of this leader, so that it comes again
            raise UnknownLeaderEpochError if fetch.leader_epoch >= 0 else NotLeaderOrFollowerError
        end = self.log.log_end_offset
        replica.fetched(fetch.offset, fetch.log_start, fetch.broker_epoch, end, self._now())
        replica.followed_at = max(replica.followed_at, fetch.followed_at)
        if replica.id in self.image.isr:
            self._confirmations.reach(replica.followed_at)
        self._let_join(leadership, replica)
        self._maybe_advance_high_watermark(0)
        self._deletions_reach()
        return replica

    def check_isr(self) -> None:
        """Send those out of the in-sync replicas who have fallen behind, and take in who was refused before."""
        leadership = self._leadership
        if leadership is None or self._closed:
            return
        isr = leadership.shrunk_isr(self.log.log_end_offset, self._now())
        if isr is not None:
            logger.info("%s: in-sync replicas shrink from %s to %s", self.topic_partition, leadership.image.isr, isr)
            self._propose(leadership, isr)
        self._let_all_join(leadership)
        self._maybe_advance_high_watermark(0)

    def _let_all_join(self, leadership: LeaderState) -> None:
        for replica in leadership.replicas.values():
            self._let_join(leadership, replica)

    def _let_join(self, leadership: LeaderState, replica: Replica) -> None:
        isr = leadership.expanded_isr(replica, self.high_watermark)
        if isr is not None:
            logger.info("%s: in-sync replicas grow from %s to %s", self.topic_partition, leadership.image.isr, isr)
            self._propose(leadership, isr)

    def _propose(self, leadership: LeaderState, isr: tuple[int, ...]) -> None:
        if self.isr_updates is not None:
            leadership.propose(isr)
            if self._proposing is not None:
                self._proposing.cancel()  # overtaken by a newer state
            asking = submit_until_settled(self.isr_updates, self.topic_partition, leadership, isr)
            self._proposing = asyncio.get_running_loop().create_task(self._await_answer(leadership, asking))

    async def _await_answer(self, leadership: LeaderState, asking: Awaitable[PartitionImage | None]) -> None:
        image = await asking
        if self._leadership is not leadership or self._closed:
            return
        if image is not None and image.leader == self.image.leader and not self.is_older(image):
            self.lead(image)
            leadership.withdraw()  # also where it brought no new state, since the ISR was so already
        self._maybe_advance_high_watermark(0)

    def _on_new_state(self) -> None:
        """The in-sync replicas may have changed: so may what is safe, and who can join."""
        if len(self.image.isr) < self._required and self._leadership is not None:
            self._pending.fail(NotEnoughReplicasAfterAppendError(f"{self.topic_partition}: {self.image.isr} are left"))
        self._maybe_advance_high_watermark(0)
        if len(self.image.isr) <= 1:
            self._confirmations.reach(float("inf"))  # the controller has answered, and nobody else can lead
        if self._leadership is not None:
            self._let_all_join(self._leadership)

    def lose_followers(self, brokers: Iterable[int]) -> None:
        """These brokers have left the cluster."""
        if self._leadership is not None:
            self._leadership.lose(brokers)
            self._maybe_advance_high_watermark(0)
            self._deletions_reach()

    def readers_of(self, offset: int) -> list[Replica]:
        """The followers in sync that have what lies at `offset`."""
        return [] if self._leadership is None else self._leadership.readers_of(offset)

    def low_watermark(self, alive: Iterable[int]) -> int:
        """Before it no living replica has anything."""
        start, leadership = self.log.log_start_offset, self._leadership
        return start if leadership is None else leadership.low_watermark(start, alive)

    def deleted(self, offset: int, alive: Callable[[], Iterable[int]]) -> asyncio.Future[None] | None:
        """None when no living replica has anything before `offset`, else what becomes done when that is so."""
        self._alive = alive
        return None if self.low_watermark(alive()) >= offset else self._deletions.add(offset)

    def _deletions_reach(self) -> None:
        if self._deletions:
            self._deletions.reach(self.low_watermark(self._alive()))

    # ControllerRequestHandler

    def append_from_leader(self, data: memoryview) -> None:
        """Append batches as they came from the leader. Raises what `Log.append_as_follower` does."""
        assert not self.leads, "a leader has nobody to copy from"
        self._check_open()
        try:
            self.log.append_as_follower(data)
        except DiskFailedError as error:
            self.fail(error)
            raise

    def keep_up(self, leader_high_watermark: int, leader_log_start: int) -> None:
        """Go by the leader's high watermark and log start, as far as the own log goes."""
        log = self.log
        high_watermark = min(leader_high_watermark, log.log_end_offset)
        if high_watermark > log.high_watermark:
            log.high_watermark = high_watermark
            _wake(self._waiters, 0)
        if leader_log_start > log.log_start_offset:
            log.delete_records_before(min(leader_log_start, log.high_watermark))

    def truncate_to(self, offset: int) -> None:
        """Give up what the leader does not have."""
        log = self.log
        level = logging.WARNING if offset < log.high_watermark else logging.INFO
        logger.log(level, "%s is cut at %d (high watermark %d)", self.topic_partition, offset, log.high_watermark)
        log.truncate_to(offset)

    def start_anew_at(self, offset: int) -> None:
        """Give up everything: the leader's log begins behind the end of this one."""
        logger.warning("%s starts anew at %d, where its leader's log begins", self.topic_partition, offset)
        self.log.truncate_fully_and_start_at(offset)
        self.log.high_watermark = offset

    @property
    def has_pending(self) -> bool:
        """Whether somebody waits for an append to be safe."""
        return bool(self._pending or self._unwritten)

    async def flush(self) -> None:
        """Wait until everything appended so far is on disk, or cannot be; who waited for that is told."""
        end = self.log.log_end_offset
        try:
            await asyncio.get_running_loop().run_in_executor(self._workers, self.log.flush, end)
        except KafkaStorageError as error:
            self.fail(error)
        else:
            self._maybe_advance_high_watermark(0)

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
        self._give_up(KafkaStorageError(f"{self.topic_partition} is out of service: {error}"))
        if self.on_disk_failure is not None and not (isinstance(error, OSError) and error.errno in SCARCE):
            self.on_disk_failure(self, error)

    def _flush_soon(self) -> None:
        if self._flush is not None:
            return
        end, position = self.log.log_end_offset, self.log.size
        self._flush = asyncio.get_running_loop().run_in_executor(self._workers, self.log.flush, end)
        self._flush.add_done_callback(lambda done: self._on_flushed(done, end, position))

    def _flush_again(self) -> None:
        if not self._closed:
            self._flush_soon()

    def _on_flushed(self, done: asyncio.Future[None], end: int, position: int) -> None:
        self._flush = None
        error = None if done.cancelled() else done.exception()
        if isinstance(error, ResourcesExhaustedError):
            full_log.warning("%s will be flushed again: %s", self.topic_partition, error)
            asyncio.get_running_loop().call_later(FLUSH_RETRY_SECONDS, self._flush_again)
            return
        if error is not None:
            self.fail(error)
            return
        if self._closed:
            return
        self._maybe_advance_high_watermark(max(1, self.log.size - position))
        if self.log.unflushed_messages >= self.log.config.flush_messages:
            self._flush_soon()

    @property
    def _local_end_offset(self) -> int:
        """How far this replica's log counts: what has to be flushed and is not does not."""
        log = self.log
        return log.log_end_offset if log.unflushed_messages < log.config.flush_messages else log.recovery_point

    def _maybe_advance_high_watermark(self, gained: int) -> None:
        """Move the high watermark as far as it may go, and tell who waits for it."""
        if not self.leads:
            return
        offset = self._local_end_offset
        if self._leadership is not None:
            self._unwritten.reach(offset)
            offset = self._leadership.high_watermark(offset, self.min_insync_replicas, self._now())
        if offset <= self.log.high_watermark:
            return
        self.log.high_watermark = offset
        self._pending.reach(offset)
        _wake(self._waiters, gained)


def _fail_with_not_leader(confirmed: asyncio.Future[None]) -> None:
    if not confirmed.done():
        confirmed.set_exception(NotLeaderOrFollowerError("no in-sync follower has confirmed that this broker leads"))
        confirmed.exception()  # the producer may have gone, and nobody waits


def _wake(waiters: set[Waiter], gained: int) -> None:
    for waiter in tuple(waiters):
        waiter(gained)
