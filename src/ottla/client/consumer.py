"""`KafkaConsumer`: the blocking face. For one thread at a time.

A poll that finds records ready takes and decodes them in the caller's thread; the I/O thread only fetches ahead.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Coroutine, Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.client.consumer_core import CommitCallback, ConsumerCore, Offsets, Records
from ottla.client.io_thread import IoThread
from ottla.client.records import ConsumerRecord
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

STOP_MARGIN_SECONDS = 10.0
"""Closing waits for nothing beyond its time limit; this only keeps a bug from hanging a program's end."""


class KafkaConsumer:
    """Reads records from Kafka.

        with KafkaConsumer("topic", bootstrap_servers="localhost:9092", group_id="g") as consumer:
            for record in consumer:
                print(record.offset, record.value)

    Topics come first. Options as keywords (`group_id="g"`) or as one mapping with Kafka's names (`{"group.id": "g"}`);
    see `ottla.config.consumer.ConsumerConfig` for all of them. Raises ConfigurationError for a value that is not
    allowed, TypeError for an unknown keyword.
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
        self._owner: int | None = None
        self._default_timeout = self.config.default_api_timeout_ms / 1000
        self._iterated: Generator[ConsumerRecord, None, None] | None = None
        self._rest: Records = {}
        self._io.start()
        self._io.run(core.start())
        if names:
            self.subscribe(names)

    def __repr__(self) -> str:
        return f"<KafkaConsumer {self._core.client_id}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What to read

    def subscribe(self, topics: Iterable[str] = (), pattern: str | None = None, listener: Any = None) -> None:
        """Read topics (all that match `pattern`, anywhere in the name), shared with the other members of the group.

        Without a group_id all partitions of the topics are read, as in kafka-python.

        The listener hears of partitions that come and go (see ConsumerRebalanceListener). Replaces what was asked for
        before; no topics and no pattern mean unsubscribe().
        """
        if isinstance(topics, str):
            raise TypeError("topics must be a list of names")
        names = list(topics)
        if names and pattern is not None:
            raise IllegalStateError("topics and pattern exclude each other")
        if not names and pattern is None:
            self.unsubscribe()
            return

        async def change() -> None:
            if pattern is not None:
                self._core.subscription.subscribe_pattern(pattern)
            else:
                self._core.subscription.subscribe(names)
            self._core.membership.listener = listener
            self._core.follow_subscription()

        self._run(change())

    def unsubscribe(self) -> None:
        """Leave the group and read nothing."""

        async def change() -> None:
            if self._core.in_group:
                await self._core.membership.leave()
            self._core.unsubscribe()

        self._run(change())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; no group decides, offsets can still be committed for one."""
        wanted = [TopicPartition(*tp) for tp in partitions]

        async def change() -> None:
            self._core.subscription.assign_manually(wanted)
            self._core.follow_subscription()

        self._run(change())

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read at present."""
        return set(self._core.subscription.partitions)

    def subscription(self) -> set[str]:
        """The topics that were subscribed to, or match the pattern at present."""
        return set(self._core.subscription.topics)

    # Reading

    def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> Records:
        """Records that are there, at most `max_records` (max.poll.records); waits up to `timeout_ms` for the first.

        Also does the group's work: joins, calls the listener, commits. Raises what goes wrong for good:
        NoOffsetForPartitionError, OffsetOutOfRangeError, SerializationError, TopicAuthorizationFailedError…
        """
        self._enter()
        try:
            if self._iterated is not None:
                self._end_iteration()
            at_most = self.config.max_poll_records if max_records is None else max_records
            return self._poll(timeout_ms / 1000, at_most)
        finally:
            self._owner = None

    def _poll(self, timeout: float, at_most: int) -> Records:
        core = self._core
        deadline = time.monotonic() + timeout
        if core.idle():
            core.membership.last_poll = time.monotonic()
            records = core.take(at_most, self._wake)
            if records:
                return records
        while self._io.run(core.prepare(max(0.0, deadline - time.monotonic()))):
            records = core.take(at_most, self._wake)
            if records or time.monotonic() >= deadline:
                return records
        return {}

    def _wake(self) -> None:
        self._io.call_soon(self._core.fetcher.wake)

    def poll_batch(
        self, timeout_ms: float = 0, *, headers: bool = False, until: Mapping[TopicPartition, int] | None = None
    ) -> dict[TopicPartition, Columns]:
        """Like poll(), but whole fetches as columns in Arrow's layout, without an object per record.

        Deserializers are not used. `until` has offsets at which partitions end: records from there on are left out.
        """
        self._enter()
        try:
            core = self._core
            deadline = time.monotonic() + timeout_ms / 1000
            if core.idle():
                core.membership.last_poll = time.monotonic()
                columns = core.take_columns(self._wake, headers, until or {})
                if columns:
                    return columns
            while self._io.run(core.prepare(max(0.0, deadline - time.monotonic()))):
                columns = core.take_columns(self._wake, headers, until or {})
                if columns or time.monotonic() >= deadline:
                    return columns
            return {}
        finally:
            self._owner = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        if self._iterated is None:
            self._iterated = self._iterate()
        try:
            return next(self._iterated)
        except BaseException:
            self._iterated = None
            raise

    def _iterate(self) -> Generator[ConsumerRecord, None, None]:
        """Records one by one; a position moves when its record is handed out, so that commits are never ahead."""
        wait = self.config.consumer_timeout_ms / 1000
        while True:
            deadline = time.monotonic() + wait
            records: Records = {}
            while not records:
                if time.monotonic() > deadline:
                    return
                self._enter()
                try:
                    records = self._poll(min(1.0, wait if math.isfinite(wait) else 1.0), self.config.max_poll_records)
                finally:
                    self._owner = None
            states = self._core.subscription.partitions
            self._rest = records
            behind = {tp: states[tp].position for tp in records if tp in states}
            for tp, rows in records.items():
                states[tp].position = rows[0].offset
            for tp, rows in list(records.items()):
                state = states[tp]
                generation = state.generation
                for record in rows:
                    if state.generation != generation:
                        break
                    state.position = record.offset + 1
                    yield record
                if state.generation == generation:
                    state.position = behind[tp]
                del records[tp]

    def _end_iteration(self) -> None:
        """poll() amid an iteration: what was not handed out yet is fetched again."""
        self._iterated = None
        rest, self._rest = self._rest, {}
        for tp in rest:
            state = self._core.subscription.partitions.get(tp)
            if state is not None and state.position is not None:
                self.seek(tp, state.position)

    # Positions

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """The next offset to be returned. KafkaTimeoutError when it cannot be found out in time."""
        return self._run(self._core.position(TopicPartition(*partition), self._seconds(timeout_ms)))

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on reading a partition at `offset`."""
        wanted = offset.offset if isinstance(offset, OffsetAndMetadata) else offset

        async def change() -> None:
            self._core.seek(TopicPartition(*partition), wanted)

        self._run(change())

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on reading at the first record (of all partitions when none is named)."""
        self._reset(partitions, EARLIEST_TIMESTAMP)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on reading behind the last record (of all partitions when none is named)."""
        self._reset(partitions, LATEST_TIMESTAMP)

    def _reset(self, partitions: Sequence[TopicPartition], timestamp: int) -> None:
        async def change() -> None:
            self._core.reset([TopicPartition(*tp) for tp in partitions], timestamp)

        self._run(change())

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no more records of these partitions until resume()."""
        self._pause(partitions, paused=True)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        self._pause(partitions, paused=False)

    def _pause(self, partitions: Sequence[TopicPartition], *, paused: bool) -> None:
        async def change() -> None:
            self._core.pause([TopicPartition(*tp) for tp in partitions], paused)

        self._run(change())

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return {tp for tp, state in self._core.subscription.partitions.items() if state.paused}

    def highwater(self, partition: TopicPartition) -> int | None:
        """The end of a partition as of its last fetch; None before the first one."""
        return self._core.subscription.state(TopicPartition(*partition)).high_watermark

    # Committing

    def commit(self, offsets: Offsets | None = None, timeout_ms: float | None = None) -> None:
        """Store positions (or the given offsets: the next ones to read) for the group, and wait for it.

        Raises CommitFailedError when the group has gone on without this consumer, KafkaTimeoutError.
        """
        self._core.require_group()
        wanted = self._core.consumed() if offsets is None else _offsets(offsets)
        deadline = time.monotonic() + self._seconds(timeout_ms)
        self._run(self._core.group_offsets.commit(wanted, deadline))

    commit_sync = commit

    def commit_async(self, offsets: Offsets | None = None, callback: CommitCallback | None = None) -> None:
        """Store positions in the background; `callback(offsets, error)` is called in a later poll()."""
        self._core.require_group()
        wanted = self._core.consumed() if offsets is None else _offsets(offsets)

        async def begin() -> None:
            self._core.commit_async(wanted, callback)

        self._run(begin())

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The consumer's place in its group, for a producer's send_offsets_to_transaction (KIP-447)."""
        return self._core.group_metadata()

    def committed(
        self, partition: TopicPartition, metadata: bool = False, timeout_ms: float | None = None
    ) -> int | OffsetAndMetadata | None:
        """The group's stored offset of a partition, with its metadata on request; None when there is none."""
        self._core.require_group()
        tp = TopicPartition(*partition)
        deadline = time.monotonic() + self._seconds(timeout_ms)
        found = self._run(self._core.group_offsets.committed([tp], deadline)).get(tp)
        return found if metadata or found is None else found.offset

    # Asking

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The numbers of a topic's partitions; None when it does not exist."""
        found = self._run(self._core.partitions_for(topic, self._default_timeout))
        return {p.partition for p in found} or None

    def topics(self) -> set[str]:
        """All topics that this client may see."""
        return self._run(self._core.topics(self._default_timeout))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return self._ends(partitions, EARLIEST_TIMESTAMP, timeout_ms)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last readable record of each partition."""
        return self._ends(partitions, LATEST_TIMESTAMP, timeout_ms)

    def _ends(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        wanted = [TopicPartition(*tp) for tp in partitions]
        return self._run(self._core.offsets.positions(wanted, timestamp, self._seconds(timeout_ms)))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (milliseconds since 1970); None where no record is that late."""
        wanted = {TopicPartition(*tp): timestamp for tp, timestamp in timestamps.items()}
        return self._run(self._core.offsets_for_times(wanted, self._seconds(timeout_ms)))

    def bootstrap_connected(self) -> bool:
        """Whether the cluster has been reached."""
        return bool(self._core.metadata.cluster.nodes)

    # The end

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Commit (with auto commit), leave the group and end, within `timeout_ms`. Twice does no harm."""
        if self._refusal is not None:
            return
        self._refusal = "the consumer is closed"
        timeout = None if timeout_ms is None else timeout_ms / 1000
        limit = (self._default_timeout if timeout is None else timeout) + STOP_MARGIN_SECONDS
        try:
            self._io.run(self._core.stop(timeout, autocommit), limit)
        finally:
            self._io.stop()

    # Small things

    def _seconds(self, timeout_ms: float | None) -> float:
        return self._default_timeout if timeout_ms is None else timeout_ms / 1000

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._refusal is not None:
            coroutine.close()
            raise IllegalStateError(self._refusal)
        return self._io.run(coroutine)

    def _enter(self) -> None:
        """Let one thread in: two that poll at once would tear the positions apart."""
        if self._refusal is not None:
            raise IllegalStateError(self._refusal)
        me = threading.get_ident()
        if self._owner is not None and self._owner != me:
            raise IllegalStateError("the consumer is in use by another thread")
        self._owner = me

    def _forked(self) -> None:
        self._refusal = "the consumer was made before a fork; make a new one in this process"


def _offsets(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        TopicPartition(*tp): offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        for tp, offset in offsets.items()
    }
