"""`KafkaConsumer` for asyncio. It is exported as `ottla.aio.KafkaConsumer`.

It has the methods of the synchronous consumer, in the same order; those that wait are coroutines. Every call may be
cancelled without losing records: they are taken from the buffer only after the last await, and the next call continues
at the same position.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack
from uuid import UUID

from ottla.client.consumer.core import CommitCallback, ConsumerCore, Records, check_max_records, topic_names
from ottla.client.consumer.group.membership import GroupMembershipOperation
from ottla.client.consumer.queries import ConsumerQueries
from ottla.client.consumer.subscription import SubscriptionPattern
from ottla.client.core import telemetry
from ottla.client.core.metadata import PartitionInfo
from ottla.config.consumer import ConsumerConfig
from ottla.errors import IllegalStateError
from ottla.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from ottla.records.columns import Columns
from ottla.records.consumer_record import ConsumerRecord

if TYPE_CHECKING:
    from ottla.client.options.consumer import ConsumerOptions

T = TypeVar("T")
Taken = TypeVar("Taken", bound=dict[Any, Any])


class KafkaConsumer(ConsumerQueries):
    """Reads records from Kafka. Bound to one event loop. Use `start` and `stop`, or `async with`.

    Listeners, commit callbacks and interceptors are called in the event loop; the methods of a listener may be
    coroutines.
    """

    def __init__(self, *topics: str | Mapping[str, Any], **options: Unpack[ConsumerOptions]) -> None:
        mappings = [t for t in topics if isinstance(t, Mapping)]
        self._names = [t for t in topics if isinstance(t, str)]
        if mappings:
            self.config: ConsumerConfig = ConsumerConfig.from_kafka(mappings[0], **options)
        else:
            self.config = ConsumerConfig.from_keywords(**options)
        self._core = ConsumerCore(self.config)
        self._default_timeout = self.config.default_api_timeout_ms / 1000
        self._closing = self._closed = False

    async def start(self) -> None:
        """Start the client, and subscribe to the topics that were passed to the constructor."""
        await self._core.start()
        if self._names:
            self.subscribe(self._names)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Subscription

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: Any = None,
    ) -> None:
        """Subscribe to topics, or to all that match `pattern`; see the synchronous consumer's subscribe(). Replaces the
        previous subscription. Raises, for example, IllegalStateError if both or neither are passed, and after assign().
        """
        self._check_open()
        self._core.subscribe(topic_names(topics), pattern, listener)

    async def unsubscribe(self) -> None:
        """Leave the group (a static member stays in it), and clear the subscription or assignment."""
        self._check_open()
        await self._core.unsubscribe()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without group management; offsets can still be committed for a group."""
        self._check_open()
        self._core.assign(partitions)

    def enforce_rebalance(self, reason: str = "") -> None:
        """Rebalance the group in the next poll(). Ignored with group.protocol=consumer, where the broker decides."""
        self._check_open()
        self._core.membership.rejoin(reason or "rebalance enforced by user")

    # Records

    async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> Records:
        """Return available records, at most `max_records` (None: max.poll.records). Wait up to `timeout_ms` for the
        first one. Rebalances and automatic commits also happen in this call.
        """
        check_max_records(max_records)
        self._core.end_iteration()
        return await self._poll(timeout_ms / 1000, lambda: self._next_records(max_records))

    def _next_records(self, at_most: int | None = None) -> Records:
        return self._core.next_records(at_most or self.config.max_poll_records, self._core.fetcher.wake)

    async def _poll(self, timeout: float, next_records: Callable[[], Taken]) -> Taken:
        self._check_open()
        deadline = time.monotonic() + timeout
        core = self._core
        core.poll_metrics.begin()
        core.buffer.begin_poll()
        try:
            if core.idle():
                core.membership.last_poll = time.monotonic()
                records = next_records()
                if records:
                    return records
            while await core.prepare(max(0.0, deadline - time.monotonic())):
                records = next_records()
                if records or time.monotonic() >= deadline:
                    return records
            return next_records()
        finally:
            core.poll_metrics.end()

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> Records:
        """Do the same as `poll`; the name is aiokafka's. Raises ValueError if partitions are passed."""
        if partitions:
            raise ValueError("getmany() cannot select partitions; pause() the others instead")
        return await self.poll(timeout_ms, max_records)

    async def getone(self) -> ConsumerRecord:
        """Return the next record of the iteration. Raises StopAsyncIteration if there is none within
        consumer_timeout_ms, or if the consumer is closed. The name is aiokafka's.
        """
        return await anext(self)

    async def poll_batch(
        self, timeout_ms: float = 0, *, headers: bool = False, until: Mapping[TopicPartition, int] | None = None
    ) -> dict[TopicPartition, Columns]:
        """Poll, but return the records as columns in Arrow's layout instead of one object per record. The arguments are
        those of the synchronous consumer's poll_batch().
        """
        ends = until or {}
        self._core.end_iteration()
        return await self._poll(
            timeout_ms / 1000, lambda: self._core.next_columns(self._core.fetcher.wake, headers, ends)
        )

    def wakeup(self) -> None:
        """Let the poll() or other call that waits, except unsubscribe() and close(), raise WakeupError; if none waits,
        the next such call. Event loop only.
        """
        self._core.wakeup_trigger.wakeup()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        deadline = None
        while not self._closed:
            record = self._core.iteration.next()
            if record is not None:
                return record
            now = time.monotonic()
            deadline = deadline or now + self.config.consumer_timeout_ms / 1000
            if now > deadline:
                break
            try:
                records = await self._poll(min(1.0, deadline - now), self._next_records)
            except IllegalStateError:
                if self._closing:  # by another task
                    break
                raise
            self._core.iteration.begin(records)
        raise StopAsyncIteration

    # Positions

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record to read. Raises, for example, KafkaTimeoutError if it cannot be
        determined in time.
        """
        return await self._wait(self._core.positions.position(TopicPartition(*partition), self._seconds(timeout_ms)))

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue at `offset` of a partition. If it has a leader epoch, the position is validated first (KIP-320)."""
        self._check_open()
        at = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        self._core.seek(TopicPartition(*partition), at.offset, at.leader_epoch)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the earliest offset of partitions (default: all assigned ones)."""
        self._check_open()
        self._core.reset([TopicPartition(*tp) for tp in partitions], EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue at the latest offset of partitions (default: all assigned ones)."""
        self._check_open()
        self._core.reset([TopicPartition(*tp) for tp in partitions], LATEST_TIMESTAMP)

    async def seek_to_time(self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None) -> None:
        """Continue at the first record at or after each time (ms since 1970) or, if there is none, at the latest
        offset.
        """
        by_partition = {TopicPartition(*tp): timestamp for tp, timestamp in timestamps.items()}
        await self._wait(self._core.seek_to_time(by_partition, self._seconds(timeout_ms)))

    def pause(self, *partitions: TopicPartition) -> None:
        """Pause partitions: poll() returns none of their records until resume() is called, or the partitions are no
        longer assigned.
        """
        self._check_open()
        self._core.pause([TopicPartition(*tp) for tp in partitions], True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Resume paused partitions: poll() returns their records again."""
        self._check_open()
        self._core.pause([TopicPartition(*tp) for tp in partitions], False)

    # Commits

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None, timeout_ms: float | None = None
    ) -> None:
        """Commit `offsets` (None: all positions) for the group, and wait for the result. An offset is that of the next
        record to read.

        After a success, the callbacks of earlier asynchronous commits are called. Raises, for example,
        CommitFailedError if the group has rebalanced without this consumer.
        """
        await self._wait(self._core.commit(offsets, self._seconds(timeout_ms)))

    commit_sync = commit

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit `offsets` (None: all positions) in the background, without retries.

        A later poll(), commit() or close() calls `callback(offsets, error)` (None: default_offset_commit_callback, if
        that is set). The error is None after a success, and a RetriableCommitFailedError if another commit may succeed.
        """
        self._check_open()
        self._core.commits.commit_async(self._core.consumed(offsets), callback)

    async def committed(
        self,
        partition: TopicPartition | set[TopicPartition] | list[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Any:
        """Return the committed offset of a partition, or OffsetAndMetadata with `metadata`; None if there is none.

        For a set or list of partitions, return OffsetAndMetadata or None for each, as in Java.
        """
        return await self._wait(self._core.committed(partition, metadata, self._seconds(timeout_ms)))

    # Metadata

    async def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the numbers of a topic's partitions; None if it does not exist. With allow.auto.create.topics, the
        broker may create it.
        """
        infos = await self._wait(self._core.topic_metadata.partitions_for(topic, self._default_timeout))
        return {p.partition for p in infos} or None

    async def partitions_for(self, topic: str, timeout_ms: float | None = None) -> list[PartitionInfo]:
        """Return a topic's partitions with leaders and replicas; none if it does not exist. With
        allow.auto.create.topics, the broker may create it. Java's partitionsFor.
        """
        return list(await self._wait(self._core.topic_metadata.partitions_for(topic, self._seconds(timeout_ms))))

    async def topics(self) -> set[str]:
        """Return the names of all topics that this client is authorized to describe."""
        return set(await self.list_topics())

    async def list_topics(self, timeout_ms: float | None = None) -> dict[str, list[PartitionInfo]]:
        """Return all topics that this client is authorized to describe, with their partitions."""
        infos = await self._wait(self._core.topic_metadata.topics(self._seconds(timeout_ms)))
        return {topic: list(partitions) for topic, partitions in infos.items()}

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the earliest offset of each partition."""
        return await self._wait(
            self._core.topic_metadata.positions(partitions, EARLIEST_TIMESTAMP, self._seconds(timeout_ms))
        )

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end offset of each partition: the high watermark or, with read_committed, the last stable
        offset.
        """
        return await self._wait(
            self._core.topic_metadata.positions(partitions, LATEST_TIMESTAMP, self._seconds(timeout_ms))
        )

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the offset and timestamp of the first record at or after each time (ms since 1970); None for a
        partition without such a record.
        """
        return await self._wait(self._core.topic_metadata.for_times(timestamps, self._seconds(timeout_ms)))

    async def client_instance_id(self, timeout_ms: float | None = None) -> UUID:
        """Return the id of this client in telemetry (KIP-714).

        Raises KafkaTimeoutError if the cluster assigns none in time, UnsupportedVersionError if it does not support
        telemetry or has rejected the request, and IllegalStateError if enable.metrics.push is false.
        """
        return await self._wait(telemetry.require(self._core.telemetry).client_instance_id(self._seconds(timeout_ms)))

    # Closing

    async def close(
        self,
        autocommit: bool = True,
        timeout_ms: float | None = None,
        group_membership: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Commit (with enable.auto.commit, unless `autocommit` is false), leave the group and close, within
        `timeout_ms` (None: default.api.timeout.ms). May be called repeatedly.

        A dynamic member leaves at once, and a static one stays until its session timeout, unless `group_membership`
        says otherwise (KIP-1092). The first error of the listener is raised at the end.
        """
        if self._closing:
            return
        self._closing = True  # not closed yet: the listener may commit
        timeout = None if timeout_ms is None else timeout_ms / 1000
        try:
            await self._core.stop(timeout, autocommit, group_membership)
        finally:
            self._closed = True

    stop = close

    def _seconds(self, timeout_ms: float | None) -> float:
        return self._default_timeout if timeout_ms is None else timeout_ms / 1000

    async def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            coroutine.close()
        self._check_open()
        return await self._core.wakeup_trigger.interruptible(coroutine)

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateError("the consumer is closed")
