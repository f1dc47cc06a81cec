"""`KafkaConsumer`: the synchronous API. It may be used by one thread at a time.

poll() decodes the records in the caller's thread; the I/O thread only fetches them ahead of time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, Unpack, overload

from ottla.client.consumer.async_consumer import KafkaConsumer as AsyncKafkaConsumer
from ottla.client.consumer.core import CommitCallback, Offsets, Records, check_max_records, topic_names
from ottla.client.consumer.group.membership import GroupMembershipOperation
from ottla.client.consumer.queries import ConsumerQueries
from ottla.client.consumer.subscription import SubscriptionPattern
from ottla.client.core.io_thread import IoThread
from ottla.client.core.synchronous import SingleThreadClient, in_io_thread, synchronous
from ottla.model import (
    OffsetAndMetadata,
    TopicPartition,
)
from ottla.records.columns import Columns
from ottla.records.consumer_record import ConsumerRecord

if TYPE_CHECKING:
    from ottla.client.options.consumer import ConsumerOptions
    from ottla.config.consumer import ConsumerConfig

T = TypeVar("T")
Taken = TypeVar("Taken", bound=dict[Any, Any])

STOP_MARGIN_SECONDS = 10.0
"""Maximum time in seconds for which the work of close() may exceed its time limit, so that a bug cannot block the exit
of a program.
"""

SOON_SECONDS = 0.002
"""Maximum time in seconds for which poll() waits for a response in the caller's thread before it continues waiting in
the event loop.
"""


class KafkaConsumer(ConsumerQueries, SingleThreadClient[AsyncKafkaConsumer]):
    """Reads records from Kafka.

        with KafkaConsumer("topic", bootstrap_servers="localhost:9092", group_id="g") as consumer:
            for record in consumer:
                print(record.offset, record.value)

    Positional arguments are topics. Options are keywords (`group_id="g"`), or one mapping with Kafka's names
    (`{"group.id": "g"}`); see `ottla.config.consumer.ConsumerConfig`. Raises ConfigurationError for an invalid value,
    TypeError for an unknown keyword.

    Methods with `timeout_ms`, except polls and close(), raise KafkaTimeoutError after it (by default
    default.api.timeout.ms). Calls that wait, except unsubscribe() and close(), raise WakeupError after `wakeup()`.
    While one thread is in a call, calls from other threads raise IllegalStateError (in Java,
    ConcurrentModificationException), except `wakeup()` and the methods that only read state. Methods have the names of
    kafka-python; Java's names also exist, in Python's spelling.
    """

    def __init__(self, *topics: str | Mapping[str, Any], **options: Unpack[ConsumerOptions]) -> None:
        self._asynchronous = AsyncKafkaConsumer(*topics, **options)
        self.config: ConsumerConfig = self._asynchronous.config
        self._core = self._asynchronous._core
        super().__init__("consumer", IoThread(f"ottla-{self._core.client_id}"))
        self._closing = False
        self._io.start()
        try:
            self._io.run(self._asynchronous.start())
        except BaseException:
            self.close(autocommit=False, timeout_ms=0)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Subscription

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: Any = None,
    ) -> None:
        """Subscribe to topics, or to all topics whose name contains a match of `pattern`. The members of the group
        share the partitions.

        Without a group_id all partitions of the topics are assigned, as in kafka-python, and the listener is not
        called. Internal topics match a pattern only with exclude.internal.topics=false. Brokers, however, evaluate a
        SubscriptionPattern, against whole names (group.protocol=consumer only).

        The listener is called for assigned and revoked partitions (see ConsumerRebalanceListener). Replaces the
        previous subscription. Without topics and pattern, the consumer is unsubscribed.
        """
        names = topic_names(topics)
        if not names and pattern is None:
            self.unsubscribe()
        else:
            self._do(lambda: self._core.subscribe(names, pattern, listener))

    unsubscribe: Final = synchronous(AsyncKafkaConsumer.unsubscribe)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without group management; offsets can still be committed for a group. Without
        partitions, the consumer is unsubscribed.
        """
        assigned = list(partitions)
        if assigned:
            self._do(lambda: self._core.assign(assigned))
        else:
            self.unsubscribe()

    enforce_rebalance: Final = in_io_thread(AsyncKafkaConsumer.enforce_rebalance)

    # Records

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> Records:
        """Return available records, at most `max_records` (None: max.poll.records). Waits up to `timeout_ms` for the
        first one.

        Also joins the group, calls the listener and commits (with enable.auto.commit). Raises errors that a retry does
        not fix, such as NoOffsetForPartitionError, OffsetOutOfRangeError, LogTruncationError, CorruptBatchError,
        RecordDeserializationError, TopicAuthorizationFailedError and FencedInstanceIdError, and IllegalStateError
        without a subscription or assignment.
        """
        check_max_records(max_records)
        at_most = max_records or self.config.max_poll_records
        self._enter()
        try:
            if self._core.iteration.has_remaining:
                self._do(self._core.end_iteration)
            return self._poll(timeout_ms / 1000, lambda: self._core.next_records(at_most, self._wake))
        finally:
            self._use.release()

    def _poll(self, timeout: float, next_records: Callable[[], Taken]) -> Taken:
        self._core.poll_metrics.begin()
        self._core.buffer.begin_poll()
        try:
            return self._poll_until(time.monotonic() + timeout, next_records)
        finally:
            self._core.poll_metrics.end()

    def _poll_until(self, deadline: float, next_records: Callable[[], Taken]) -> Taken:
        core = self._core
        if core.idle():
            core.membership.last_poll = time.monotonic()
            core.poll_trigger.expect()
            records = next_records()
            if records:
                return records
            # While data flows, the next response is near. A call in the event loop would take 0.1 ms of CPU.
            soon = min(SOON_SECONDS, deadline - time.monotonic())
            if soon > 0 and core.poll_trigger.arrives_within(soon) and core.idle():
                records = next_records()
                if records:
                    return records
        while self._io.run(core.prepare(max(0.0, deadline - time.monotonic()))):
            records = next_records()
            if records or time.monotonic() >= deadline:
                return records
        return next_records()

    def _wake(self) -> None:
        self._io.call_soon(self._core.fetcher.wake)

    def poll_batch(
        self, timeout_ms: float = 0, *, headers: bool = False, until: Mapping[TopicPartition, int] | None = None
    ) -> dict[TopicPartition, Columns]:
        """Poll, but return the records as columns in Arrow's layout instead of one object per record.

        Returns about 16 MiB of a partition at most; the next call returns more. Deserializers are not used, and
        interceptors do not get the records. `headers`: whether the columns include the headers of the records. `until`:
        end offsets of partitions; only records before them are returned. Repeated calls advance the position to the end
        offset, or further if the fetched data has no records after it.
        """
        ends = until or {}
        self._enter()
        try:
            if self._core.iteration.has_remaining:
                self._do(self._core.end_iteration)
            return self._poll(timeout_ms / 1000, lambda: self._core.next_columns(self._wake, headers, ends))
        finally:
            self._use.release()

    def wakeup(self) -> None:
        """Let the poll() or other call that waits, except unsubscribe() and close(), raise WakeupError; if none waits,
        the next such call. Thread-safe.
        """
        if self._refusal is None:
            self._io.call_soon(self._core.wakeup_trigger.wakeup)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        deadline = None
        while True:
            record = self._core.iteration.next()
            if record is not None:
                return record
            now = time.monotonic()
            deadline = deadline or now + self.config.consumer_timeout_ms / 1000
            if now > deadline:
                raise StopIteration
            self._core.iteration.begin(self._next_records(min(1.0, deadline - now)))

    def _next_records(self, timeout: float) -> Records:
        self._enter()
        try:
            return self._poll(timeout, lambda: self._core.next_records(self.config.max_poll_records, self._wake))
        finally:
            self._use.release()

    # Positions

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record to read. Raises, for example, KafkaTimeoutError if it cannot be
        determined in time.
        """
        self._check_open()
        at = self._core.subscription.state(TopicPartition(*partition)).position
        return at if at is not None else self._run(self._asynchronous.position(partition, timeout_ms))

    seek: Final = in_io_thread(AsyncKafkaConsumer.seek)
    seek_to_beginning: Final = in_io_thread(AsyncKafkaConsumer.seek_to_beginning)
    seek_to_end: Final = in_io_thread(AsyncKafkaConsumer.seek_to_end)
    seek_to_time: Final = synchronous(AsyncKafkaConsumer.seek_to_time)
    pause: Final = in_io_thread(AsyncKafkaConsumer.pause)
    resume: Final = in_io_thread(AsyncKafkaConsumer.resume)

    # Commits

    commit: Final = synchronous(AsyncKafkaConsumer.commit)
    commit_sync = commit

    commit_async: Final = in_io_thread(AsyncKafkaConsumer.commit_async)

    @overload
    def committed(
        self, partition: TopicPartition, metadata: Literal[False] = False, timeout_ms: float | None = None
    ) -> int | None: ...
    @overload
    def committed(
        self, partition: TopicPartition, metadata: Literal[True], timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None: ...
    @overload
    def committed(
        self,
        partition: set[TopicPartition] | list[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...
    def committed(
        self,
        partition: TopicPartition | set[TopicPartition] | list[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Any:
        """Return the committed offset of a partition, or OffsetAndMetadata with `metadata`; None if there is none.

        For a set or list of partitions, return OffsetAndMetadata or None for each, as in Java.
        """
        return self._run(self._asynchronous.committed(partition, metadata, timeout_ms))

    # Metadata

    partitions_for_topic: Final = synchronous(AsyncKafkaConsumer.partitions_for_topic)
    partitions_for: Final = synchronous(AsyncKafkaConsumer.partitions_for)
    topics: Final = synchronous(AsyncKafkaConsumer.topics)
    list_topics: Final = synchronous(AsyncKafkaConsumer.list_topics)
    beginning_offsets: Final = synchronous(AsyncKafkaConsumer.beginning_offsets)
    end_offsets: Final = synchronous(AsyncKafkaConsumer.end_offsets)
    offsets_for_times: Final = synchronous(AsyncKafkaConsumer.offsets_for_times)
    client_instance_id: Final = synchronous(AsyncKafkaConsumer.client_instance_id)

    # Closing

    def close(
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
        if self._refusal is not None or self._closing:
            return
        self._enter()
        try:
            self._close(autocommit, timeout_ms, group_membership)
        finally:
            self._use.release()

    def _close(self, autocommit: bool, timeout_ms: float | None, group_membership: GroupMembershipOperation) -> None:
        self._closing = True  # not closed yet: the listener may commit
        timeout = None if timeout_ms is None else timeout_ms / 1000
        limit = (self.config.default_api_timeout_ms / 1000 if timeout is None else timeout) + STOP_MARGIN_SECONDS
        try:
            self._io.run(self._core.stop(timeout, autocommit, group_membership), limit)
        finally:
            self._refusal = "the consumer is closed"
            self._io.stop()

    # Calls of the core

    def _do(self, change: Callable[[], Any]) -> None:
        """Run a short function in the event loop."""

        async def run() -> None:
            change()

        self._run(run())


__all__ = ["CommitCallback", "KafkaConsumer", "Offsets", "Records"]
