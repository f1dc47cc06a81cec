"""The coordinator at work: append what was decided, take it over, then reply.

Groups live in the partitions of `__consumer_offsets` by the hash of their id. State in memory is what the records in
the log say: a decision's records are appended first, then replayed into memory, and answers go out when the append is
safe. A partition that this broker begins to lead is read from its beginning, and forgotten when another one leads it.
Loop thread.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import logging
from collections.abc import Callable, Collection, Sequence

from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker import BrokerConfig
from ottla.coordinator.group.classic import records
from ottla.coordinator.group.classic.records import Committed
from ottla.coordinator.group.common.group import NEVER, Group
from ottla.coordinator.group.group_coordinator import GroupCoordinator
from ottla.coordinator.group.offsets import Offsets
from ottla.coordinator.group.pending_offsets import Key, Open
from ottla.coordinator.runtime.coordinator_log import CoordinatorLog, Producer, told, until_safe
from ottla.coordinator.runtime.loader import ShardedMap
from ottla.coordinator.runtime.result import CoordinatorResult, Record
from ottla.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidCommitOffsetSizeError,
    KafkaError,
    MessageTooLargeError,
    code_of,
)
from ottla.model import CONSUMER_OFFSETS, TopicPartition
from ottla.protocol.message import Response
from ottla.records.batch import BatchHeader
from ottla.records.batch import records as records_of
from ottla.storage.producer_state import COMMIT, read_marker

log = logging.getLogger("ottla.coordinator")

Batch = memoryview
MIN_TICK_SECONDS = 0.001
"""Kafka's timers have the same step. Sessions that end shortly after one another all end in time, so that who waits for
the end of a session finds the group empty."""


class GroupRuntime:
    """Groups and offsets of this broker, with their log and their timers."""

    def __init__(self, config: BrokerConfig, clock: Clock, image: Callable[[], ClusterImage]) -> None:
        self._clock = clock
        self._image = image
        self._log = CoordinatorLog(CONSUMER_OFFSETS, clock, image, self)
        self.shards = self._log.shards
        """Told which partitions this broker leads."""
        self._sees_all_topics = config.zookeeper_connect is None
        """In a cluster a topic may be there that this broker has not heard of yet, so its offsets must stay."""
        self._append_seconds = config.offsets_commit_timeout_ms / 1000
        self._expire_seconds = config.offsets_retention_check_interval_ms / 1000
        self._due: list[tuple[float, str]] = []
        self._scheduled: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._closed = False
        by_id: ShardedMap[str, Group] = ShardedMap(self._log.kept_in)
        by_group: ShardedMap[str, dict[TopicPartition, Committed]] = ShardedMap(self._log.kept_in)
        self._by_id, self._by_group = by_id, by_group
        self.groups = GroupCoordinator(config, clock, image, by_id=by_id)
        self.offsets = Offsets(config, clock, self.groups, by_group)

    async def start(self) -> None:
        """Wait until everything is read that is led by now, and begin to watch the time."""
        await self.shards.all_loaded()
        self._expiry = asyncio.get_running_loop().call_later(self._expire_seconds, self._expire)

    def close(self) -> None:
        """Stop the timers; members that wait for a rebalance are told to look for the coordinator again."""
        self._closed = True
        self._log.close()
        for timer in (self._timer, self._expiry):
            if timer is not None:
                timer.cancel()
        for group in self.groups.by_id.values():
            self._reply(self.groups.send_away(group), None)

    def check(self, group_id: str) -> None:
        """Raise the error of a broker that is not this group's coordinator."""
        self._log.partition(group_id)

    def partition_of(self, group_id: str) -> TopicPartition:
        """Where a group's offsets lie."""
        return TopicPartition(CONSUMER_OFFSETS, self._log.index(group_id))

    def token(self) -> asyncio.Future[Response]:
        """A place for an answer that may come later."""
        return asyncio.get_running_loop().create_future()

    def carry_out(self, group_id: str, effects: CoordinatorResult) -> None:
        """Append, replay, reply. A failed append turns the replies into its error."""
        try:
            safe = self._append(group_id, effects.records)
        except KafkaError as error:
            log.warning("group %s: %s", group_id, error)
            self._reply(effects, told(error))
        else:
            if effects.converted is not None:
                self.groups.by_id[group_id] = effects.converted
            if safe is None:
                self._reply(effects, None)
            else:
                self._reply_when(safe, effects)
        self._reschedule(group_id)

    async def append(self, group_id: str, new: Sequence[Record]) -> None:
        """Append and replay records; returns when they are safe."""
        try:
            safe = self._append(group_id, new)
        except InvalidCommitOffsetSizeError:
            raise
        except KafkaError as error:
            raise told(error) from error
        if safe is not None:
            await until_safe(safe, self._append_seconds)

    async def append_pending(self, group_id: str, new: Sequence[Record], producer: Producer) -> None:
        """Append offsets that count once the producer's transaction commits; returns when they are safe."""
        try:
            safe = self._log.append(group_id, new, producer)
        except MessageTooLargeError:
            raise InvalidCommitOffsetSizeError from None
        except KafkaError as error:
            raise told(error) from error
        transaction = Open(self._log.index(group_id), producer.id)
        for record in new:
            self._hold(transaction, record.key, record.value)
        if safe is not None:
            await until_safe(safe, self._append_seconds)

    def transaction_ended(self, partition: TopicPartition, producer_id: int, commit: bool) -> None:
        """A transaction has its marker in a partition of `__consumer_offsets`: its offsets count now, or never."""
        if not self.shards.is_loaded(partition.partition):
            return  # who reads the partition meets the marker, in its place
        ended = self._end(Open(partition.partition, producer_id), commit)
        for key in ended:
            self._reschedule(key.group_id)
        self._forget_unknown({key.tp.topic for key in ended})  # deleted while the transaction was open

    def _forget_unknown(self, topics: set[str]) -> None:
        """Forget offsets of those of the topics that are no more."""
        if self._sees_all_topics:
            self.topics_deleted(frozenset(topics - self._image().topics.keys()))

    def topics_deleted(self, topics: frozenset[str]) -> None:
        """Forget offsets of topics that are no more."""
        for group_id, gone in list(self.offsets.forget_topics(topics)):
            try:
                self._append(group_id, gone)
            except CoordinatorLoadInProgressError:
                continue  # they expire
            except KafkaError as error:
                log.error("group %s: offsets of deleted topics stay: %s", group_id, error)

    def _append(self, group_id: str, new: Sequence[Record]) -> asyncio.Future[None] | None:
        if not new:
            return None
        try:
            safe = self._log.append(group_id, new)
        except MessageTooLargeError:
            raise InvalidCommitOffsetSizeError from None
        for record in new:
            self._replay(record.key, record.value, live=True)
        return safe

    def _reply_when(self, safe: asyncio.Future[None], effects: CoordinatorResult) -> None:
        """Answer when an append is safe, or has failed, or takes too long."""
        late = asyncio.get_running_loop().call_later(
            self._append_seconds, self._reply, effects, CoordinatorNotAvailableError()
        )

        def settle(done: asyncio.Future[None]) -> None:
            late.cancel()
            self._reply(effects, _failure(done))

        safe.add_done_callback(settle)

    def _reply(self, effects: CoordinatorResult, error: KafkaError | None) -> None:
        for token, response in effects.replies:
            assert isinstance(token, asyncio.Future)
            if token.done():
                continue  # the client has gone
            token.set_result(response if error is None else type(response)(error_code=code_of(error)))  # type: ignore[call-arg]

    # The partitions that come and go

    def read(self, index: int, header: BatchHeader, data: Batch) -> int:
        """Take a batch of a partition over that is being read."""
        transaction = Open(index, header.producer_id)
        if header.is_control:
            self._end(transaction, _commits(data))
            return 1
        if header.is_transactional:
            return self._log.read_batch(index, data, functools.partial(self._hold, transaction))
        return self._log.read_batch(index, data, functools.partial(self._replay, live=False))

    def loaded(self, index: int) -> None:
        """A partition is in memory: its groups have their time from now."""
        for group in self._by_id.of(index):
            self._reschedule(group.id)
        # deleted just before the broker died
        self._forget_unknown({tp.topic for offsets in self._by_group.of(index) for tp in offsets})

    def unload(self, index: int) -> None:
        """Another broker coordinates the groups of a partition; who waits is told so."""
        for group in self._by_id.drop(index).values():
            self._reply(self.groups.send_away(group), None)
            self._scheduled.pop(group.id, None)
        self._by_group.drop(index)
        self.offsets.pending.drop(index)

    def _end(self, transaction: Open, commit: bool) -> Collection[Key]:
        """Take over, or drop, the offsets of a transaction; whose they are."""
        pending = self.offsets.pending
        ended = pending.commit(transaction) if commit else pending.end(transaction)
        for key, committed in ended.items() if commit else ():
            self.offsets.keep(key.group_id, key.tp, committed)
        return ended.keys()

    def _replay(self, key: bytes, value: bytes | None, *, live: bool) -> None:
        """Take a record over: an offset, or something about a group."""
        group_id, tp = records.read_key(key) or (None, None)
        if group_id is not None and tp is not None:
            self.offsets.replay(group_id, tp, None if value is None else records.read_offset(value))
        else:
            self.groups.replay(key, value, live=live)

    def _hold(self, transaction: Open, key: bytes, value: bytes | None) -> None:
        """Keep an offset aside whose transaction is open."""
        group_id, tp = records.read_key(key) or (None, None)
        if group_id is not None and tp is not None:
            committed = None if value is None else records.read_offset(value)
            self.offsets.pending.add(transaction, Key(group_id, tp), committed)

    def _reschedule(self, group_id: str) -> None:
        group = self.groups.by_id.get(group_id)
        due = NEVER if group is None else group.next_deadline()
        if due < self._scheduled.get(group_id, NEVER):
            self._scheduled[group_id] = due
            heapq.heappush(self._due, (due, group_id))
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._due and not self._closed:
            wait = max(MIN_TICK_SECONDS, self._due[0][0] - self._clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait, self._tick)

    def _tick(self) -> None:
        now = self._clock.monotonic()
        while self._due and self._due[0][0] <= now:
            due, group_id = heapq.heappop(self._due)
            if self._scheduled.get(group_id) != due:
                continue  # an earlier time was scheduled since
            del self._scheduled[group_id]
            group = self.groups.by_id.get(group_id)
            if group is not None:
                self._guarded(group_id, lambda group=group: self.groups.tick(group))  # type: ignore[misc]
        self._set_timer()

    def _guarded(self, group_id: str, decide: Callable[[], CoordinatorResult]) -> None:
        """Carry a decision out; one group's trouble must not stop the clock of all others."""
        try:
            self.carry_out(group_id, decide())
        except Exception:
            # a bug: the others go on
            log.exception("group %s", group_id)

    def _expire(self) -> None:
        for index in self.shards.indexes:
            for group in self._by_id.of(index):
                self._guarded(group.id, lambda group=group: self.offsets.expire(group))  # type: ignore[misc]
        self._expiry = asyncio.get_running_loop().call_later(self._expire_seconds, self._expire)


def _commits(control: Batch) -> bool:
    """Whether a control batch says that its producer's transaction is committed."""
    markers = [read_marker(record) for record in records_of(control)]
    return any(marker is not None and marker.type == COMMIT for marker in markers)


def _failure(done: asyncio.Future[None]) -> KafkaError | None:
    error = CoordinatorNotAvailableError() if done.cancelled() else done.exception()
    if error is None:
        return None
    return told(error) if isinstance(error, KafkaError) else CoordinatorNotAvailableError()
