"""`KafkaConsumer`: the synchronous API. To be used by one thread at a time.

A poll that has fetched records decodes them in the caller's thread; the I/O thread only fetches ahead.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload
from uuid import UUID

from ottla.client.consumer.core import CommitCallback, ConsumerCore, Offsets, Records, check_max_records, topic_names
from ottla.client.consumer.group.membership import GroupMembershipOperation
from ottla.client.consumer.records import ConsumerRecord
from ottla.client.consumer.subscription import SubscriptionPattern
from ottla.client.core import telemetry
from ottla.client.core.io_thread import IoThread
from ottla.client.core.metadata import PartitionInfo
from ottla.config.consumer import ConsumerConfig
from ottla.errors import IllegalStateError
from ottla.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from ottla.records.columns import Columns

T = TypeVar("T")
Taken = TypeVar("Taken", bound=dict[Any, Any])

STOP_MARGIN_SECONDS = 10.0
"""close() has its own time limit; this only keeps a bug from blocking the exit of a program."""


class KafkaConsumer:
    """Reads records from Kafka.

        with KafkaConsumer("topic", bootstrap_servers="localhost:9092", group_id="g") as consumer:
            for record in consumer:
                print(record.offset, record.value)

    Positional arguments are topics. Options are keywords (`group_id="g"`), or one mapping with Kafka's names
    (`{"group.id": "g"}`); see `ottla.config.consumer.ConsumerConfig`. Raises ConfigurationError for an invalid value,
    TypeError for an unknown keyword.

    Calls that wait raise KafkaTimeoutError after `timeout_ms` (by default default.api.timeout.ms), and WakeupError
    after `wakeup()`. Names are those of kafka-python; Java's exist, too, in Python's spelling.
    """

    def __init__(self, *topics: str | Mapping[str, Any], **options: Any) -> None:
        mappings = [t for t in topics if isinstance(t, Mapping)]
        names = [t for t in topics if isinstance(t, str)]
        if mappings:
            self.config = ConsumerConfig.from_kafka(mappings[0], **options)
        else:
            self.config = ConsumerConfig.from_keywords(**options)
        self._core = core = ConsumerCore(self.config)
        self._io = IoThread(f"ottla-{core.client_id}")
        self._io.on_fork = self._forked
        self._refusal: str | None = None
        self._closing = False
        self._owner: int | None = None
        self._default_timeout = self.config.default_api_timeout_ms / 1000
        self._io.start()
        try:
            self._io.run(core.start())
            if names:
                self.subscribe(names)
        except BaseException:
            self.close(autocommit=False, timeout_ms=0)
            raise

    def __repr__(self) -> str:
        return f"<KafkaConsumer {self._core.client_id}>"

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
        """Subscribe to topics (or all that match `pattern` anywhere in the name), shared with the other members of the
        group.

        Without a group_id all partitions of the topics are assigned, as in kafka-python. Brokers evaluate a
        SubscriptionPattern against whole names (group.protocol=consumer only).

        The listener is called for assigned and revoked partitions (see ConsumerRebalanceListener). Replaces the
        previous subscription; without topics and pattern it is unsubscribe().
        """
        names = topic_names(topics)
        if not names and pattern is None:
            self.unsubscribe()
        else:
            self._do(lambda: self._core.subscribe(names, pattern, listener))

    def unsubscribe(self) -> None:
        """Leave the group and read nothing."""
        self._run(self._core.unsubscribe())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without group management; offsets can still be committed for a group."""
        assigned = list(partitions)
        if assigned:
            self._do(lambda: self._core.assign(assigned))
        else:
            self.unsubscribe()

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are assigned now."""
        return set(self._core.subscription.partitions)

    def subscription(self) -> set[str]:
        """Return the subscribed topics, or those that match the pattern now."""
        return set(self._core.subscription.topics)

    def enforce_rebalance(self, reason: str = "") -> None:
        """Rebalance the group in the next poll(). Ignored with group.protocol=consumer, where the broker decides."""
        self._do(lambda: self._core.membership.rejoin(reason or "rebalance enforced by user"))

    # Records

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> Records:
        """Return available records, at most `max_records` (max.poll.records); waits up to `timeout_ms` for the first.

        Also joins the group, calls the listener and commits. Raises errors that a retry does not fix:
        NoOffsetForPartitionError, OffsetOutOfRangeError, LogTruncationError, RecordDeserializationError,
        TopicAuthorizationFailedError, FencedInstanceIdError…, and IllegalStateError without a subscription.
        """
        check_max_records(max_records)
        at_most = max_records or self.config.max_poll_records
        self._enter()
        try:
            if self._core.iteration.has_remaining:
                self._do(self._core.end_iteration)
            return self._poll(timeout_ms / 1000, lambda: self._core.next_records(at_most, self._wake))
        finally:
            self._owner = None

    def _poll(self, timeout: float, next_records: Callable[[], Taken]) -> Taken:
        self._core.poll_metrics.begin()
        try:
            return self._poll_until(time.monotonic() + timeout, next_records)
        finally:
            self._core.poll_metrics.end()

    def _poll_until(self, deadline: float, next_records: Callable[[], Taken]) -> Taken:
        core = self._core
        if core.idle():
            core.membership.last_poll = time.monotonic()
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
        """Like poll(), but return fetched data as columns in Arrow's layout, without an object per record.

        Returns about 16 MiB of a partition at most, always in whole batches; the next call returns more. Deserializers
        and interceptors are not used. Partitions in `until` end at this offset.
        """
        ends = until or {}
        self._enter()
        try:
            if self._core.iteration.has_remaining:
                self._do(self._core.end_iteration)
            return self._poll(timeout_ms / 1000, lambda: self._core.next_columns(self._wake, headers, ends))
        finally:
            self._owner = None

    def wakeup(self) -> None:
        """Interrupt the call that waits, or the next one that would, with WakeupError. Thread-safe."""
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
            self._owner = None

    # Positions

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the next offset to read. KafkaTimeoutError if it cannot be determined in time."""
        self._check_open()
        tp = TopicPartition(*partition)
        state = self._core.subscription.state(tp)
        if state.position is not None:
            return state.position
        return self._wait(self._core.positions.position(tp, self._seconds(timeout_ms)))

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue at `offset` of a partition. An OffsetAndMetadata with a leader epoch is validated first."""
        at = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        self._do(lambda: self._core.seek(TopicPartition(*partition), at.offset, at.leader_epoch))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the earliest offset of partitions (default: all)."""
        self._reset(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue at the latest offset of partitions (default: all)."""
        self._reset(partitions, LATEST_TIMESTAMP)

    def _reset(self, partitions: Sequence[TopicPartition], timestamp: int) -> None:
        self._do(lambda: self._core.reset([TopicPartition(*tp) for tp in partitions], timestamp))

    def seek_to_time(self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None) -> None:
        """Continue at the first record at or after each time (ms since 1970), or at the latest offset."""
        by_partition = {TopicPartition(*tp): timestamp for tp, timestamp in timestamps.items()}
        self._wait(self._core.seek_to_time(by_partition, self._seconds(timeout_ms)))

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until resume()."""
        self._pause(partitions, paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        self._pause(partitions, paused=False)

    def _pause(self, partitions: Sequence[TopicPartition], *, paused: bool) -> None:
        self._do(lambda: self._core.pause([TopicPartition(*tp) for tp in partitions], paused))

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return {tp for tp, state in self._core.subscription.partitions.items() if state.paused}

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of a partition as of its last fetch; None before the first."""
        return self._core.subscription.state(TopicPartition(*partition)).high_watermark

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return the lag of a partition in records as of its last fetch; None before the first."""
        return self._core.lag(TopicPartition(*partition))

    # Commits

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None, timeout_ms: float | None = None
    ) -> None:
        """Commit positions (or these offsets: the next ones to read) for the group, and wait for the result.

        Calls the callbacks of earlier asynchronous commits first. Raises CommitFailedError if the group has rebalanced
        without this consumer, FencedInstanceIdError, KafkaTimeoutError.
        """
        self._wait(self._core.commit(offsets, self._seconds(timeout_ms)))

    commit_sync = commit

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit positions in the background, without retries; a later poll() calls `callback(offsets, error)`.

        The error is a RetriableCommitFailedError if another commit may succeed.
        """
        to_commit = self._core.consumed(offsets)
        self._do(lambda: self._core.commits.commit_async(to_commit, callback))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group metadata for a producer's send_offsets_to_transaction (KIP-447)."""
        return self._core.group_metadata()

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
        return self._wait(self._core.committed(partition, metadata, self._seconds(timeout_ms)))

    # Metadata

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the numbers of a topic's partitions; None if it does not exist."""
        infos = self._wait(self._core.topic_metadata.partitions_for(topic, self._default_timeout))
        return {p.partition for p in infos} or None

    def partitions_for(self, topic: str, timeout_ms: float | None = None) -> list[PartitionInfo]:
        """Return a topic's partitions with leaders and replicas, as Java's partitionsFor."""
        return list(self._wait(self._core.topic_metadata.partitions_for(topic, self._seconds(timeout_ms))))

    def topics(self) -> set[str]:
        """Return all topics that this client is authorized to describe."""
        return set(self.list_topics())

    def list_topics(self, timeout_ms: float | None = None) -> dict[str, list[PartitionInfo]]:
        """Return all topics that this client is authorized to describe, with their partitions."""
        infos = self._wait(self._core.topic_metadata.topics(self._seconds(timeout_ms)))
        return {topic: list(partitions) for topic, partitions in infos.items()}

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the earliest offset of each partition."""
        return self._ends(partitions, EARLIEST_TIMESTAMP, timeout_ms)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last readable record of each partition."""
        return self._ends(partitions, LATEST_TIMESTAMP, timeout_ms)

    def _ends(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        return self._wait(self._core.topic_metadata.positions(partitions, timestamp, self._seconds(timeout_ms)))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after each time (ms since 1970); None if there is none."""
        return self._wait(self._core.topic_metadata.for_times(timestamps, self._seconds(timeout_ms)))

    def client_instance_id(self, timeout_ms: float | None = None) -> UUID:
        """Return the id of this client in telemetry (KIP-714). KafkaTimeoutError if the cluster assigns none in
        time.
        """
        return self._wait(telemetry.require(self._core.telemetry).client_instance_id(self._seconds(timeout_ms)))

    def metrics(self, raw: bool = False) -> dict[Any, Any]:
        """Return the metrics: `{group: {name: value}}`, or with `raw` `{MetricName: KafkaMetric}` as in Java."""
        return self._core.metric_values(raw)

    def bootstrap_connected(self) -> bool:
        """Whether any broker has responded."""
        return bool(self._core.metadata.cluster.nodes)

    # Closing

    def close(
        self,
        autocommit: bool = True,
        timeout_ms: float | None = None,
        group_membership: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Commit (with auto commit), leave the group and close, within `timeout_ms`. May be called repeatedly.

        A dynamic member leaves at once, a static one stays for the session timeout, unless `group_membership` says
        otherwise (KIP-1092). Errors of the listener are raised at the end.
        """
        if self._refusal is not None or self._closing:
            return
        self._closing = True  # not closed yet: the listener may commit
        timeout = None if timeout_ms is None else timeout_ms / 1000
        limit = (self._default_timeout if timeout is None else timeout) + STOP_MARGIN_SECONDS
        try:
            self._io.run(self._core.stop(timeout, autocommit, group_membership), limit)
        finally:
            self._refusal = "the consumer is closed"
            self._io.stop()

    # Calls of the core

    def _seconds(self, timeout_ms: float | None) -> float:
        return self._default_timeout if timeout_ms is None else timeout_ms / 1000

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine that wakeup() interrupts."""
        return self._run(self._core.wakeup_trigger.interruptible(coroutine))

    def _do(self, change: Callable[[], Any]) -> None:
        """Run a short function in the event loop."""

        async def run() -> None:
            change()

        self._run(run())

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._refusal is not None:
            coroutine.close()
        self._check_open()
        return self._io.run(coroutine)

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise IllegalStateError(self._refusal)

    def _enter(self) -> None:
        """Reject a second thread: two concurrent polls would corrupt the positions."""
        self._check_open()
        me = threading.get_ident()
        if self._owner is not None and self._owner != me:
            raise IllegalStateError("the consumer is in use by another thread")
        self._owner = me

    def _forked(self) -> None:
        self._refusal = "the consumer was created before a fork; create a new one in this process"


__all__ = ["CommitCallback", "KafkaConsumer", "Offsets", "Records"]
