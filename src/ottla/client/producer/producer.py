"""`KafkaProducer`: the blocking face. Thread-safe; one serves all threads of a program.

send() puts the record straight into the open batch of its partition, in the caller's thread; the I/O thread sends
whole batches. So a record costs a hash, a lock and a copy of its bytes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from ottla.client.core import telemetry
from ottla.client.core.futures import RecordFuture
from ottla.client.core.io_thread import IoThread
from ottla.client.producer.batch import Headers, Ready, TopicQueues
from ottla.client.producer.columnar import BatchFuture
from ottla.client.producer.core import (
    HURRIED_SECONDS,
    ProducerCore,
    ProducerRecord,
    wait_for_pending,
)
from ottla.client.producer.transactions import as_group_metadata
from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.config.producer import ProducerConfig
from ottla.errors import IllegalStateError, KafkaError, KafkaTimeoutError
from ottla.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.records.appender import NOW
from ottla.records.murmur2 import murmur2

FOR_EVER = None
CLIENT_ID_SECONDS = 30.0


class KafkaProducer:
    """Sends records to Kafka.

        with KafkaProducer(bootstrap_servers="localhost:9092") as producer:
            producer.send("topic", b"value", key=b"key").get(timeout=10)

    Options as keywords (`linger_ms=20`) or as one mapping with Kafka's names (`{"linger.ms": 20}`); see
    `ottla.config.producer.ProducerConfig` for all of them. Raises ConfigurationError for a value that is not allowed,
    TypeError for an unknown keyword. `clock` is for tests: with `ottla.clock.ManualClock` lingering, back-off, expiry
    and the age of metadata pass when the test says so.
    """

    def __init__(
        self, configs: Mapping[str, Any] | None = None, *, clock: Clock = SYSTEM_CLOCK, **options: Any
    ) -> None:
        if configs is not None:
            self.config = ProducerConfig.from_kafka(configs, **options)
        else:
            self.config = ProducerConfig.from_keywords(**options)
        self._wake_pending = False
        self._core = core = ProducerCore(self.config, self._wake, clock)
        self._io = IoThread(f"ottla-{core.client_id}")
        self._io.on_fork = self._forked
        self._refusal: str | None = None
        self._close_lock = threading.Lock()
        self._topics = core.accumulator.topics
        self._metadata = core.metadata
        self._plain = core.is_plain
        self._io.start()
        self._io.run(core.start())

    def __repr__(self) -> str:
        return f"<KafkaProducer {self._core.client_id}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordFuture:
        """Send a record; the future tells where it lies. `send(ProducerRecord(…), callback)` works as in Java.

        `timestamp_ms` (since 1970) and `partition` are chosen when None. Blocks for at most max.block.ms while topic
        or memory is waited for. Raises KafkaTimeoutError, BufferExhaustedError, SerializationError, IllegalStateError
        (closed); an error that a broker could have answered as well (record too large, no permission…) comes in the
        future and to the callback.
        """
        # The usual record of bytes whose topic is known, without a detour; anything else below.
        if self._plain and type(value) is bytes and type(topic) is str and headers is None:
            queues = self._topics.get(topic)
            if queues is not None and queues.version == self._metadata.version:
                if partition is None:
                    if type(key) is bytes:
                        number = (murmur2(key) & 0x7FFFFFFF) % queues.count
                    else:
                        number = -1 if key is not None else self._core.sticky(queues, len(value))
                else:
                    number = partition if partition < queues.count and (key is None or type(key) is bytes) else -1
                if number >= 0 and (timestamp_ms is None or timestamp_ms >= 0):
                    timestamp = NOW if timestamp_ms is None else timestamp_ms
                    future: RecordFuture | None = queues.queues[number].open.append(timestamp, key, value, None)
                    if future is not None:
                        return future
                    partition = number
        if isinstance(topic, ProducerRecord):
            return self._send(topic, value)
        return self._send(ProducerRecord(topic, value, key, headers, partition, timestamp_ms), None)

    def _send(self, record: ProducerRecord, callback: Callable[..., Any] | None) -> RecordFuture:
        """The whole way of a record."""
        if self._io.forked:  # whatever comes next may take a lock that nobody will give back
            self._check_open()
        core = self._core
        record = core.apply_interceptors(record)
        try:
            self._check_open()
            core.check_open()
        except KafkaError as error:
            core.notify_failure(record, error)
            raise
        try:
            deadline = time.monotonic() + core.max_block
            ready = self._prepare(record, deadline)
            future = self._append_within(ready, deadline)
        except BaseException as error:  # interceptors hear of every failure, Ctrl+C as well
            self._break_transaction(error)
            return core.failed(record, error, callback)
        return core.watch(future, callback)

    def _break_transaction(self, error: BaseException) -> None:
        """Before whatever comes next: a commit does not know of records that were in no batch."""
        if self._core.breaks_transaction(error):
            self._io.call_soon(self._core.transactions.failed, error)

    def _prepare(self, record: ProducerRecord, deadline: float) -> Ready:
        if not isinstance(record.topic, str):
            raise TypeError(f"the topic must be a text, not a {type(record.topic).__name__}")
        return self._core.prepare(record, self._queues(record.topic, record.partition, deadline))

    def _queues(self, topic: str, partition: int | None, deadline: float) -> TopicQueues:
        queues = self._core.queues(topic, partition)
        while queues is None:
            left = max(0.0, deadline - time.monotonic())
            with self._core.metrics.timed("metadata-wait"):
                self._io.run(self._metadata.wait_for_topic(topic, left, partition or 0))
            queues = self._core.queues(topic, partition)
        return queues

    def _append_within(self, ready: Ready, deadline: float) -> RecordFuture:
        """Append, with a new batch if need be, for which memory may have to come free."""
        accumulator = self._core.accumulator
        self._core.check_open()  # a transaction may have ended while the topic was waited for
        future = accumulator.append(ready)
        if future is not None:
            return future
        buffer = self._core.while_open(self._allocate(accumulator.buffer_bytes(ready), deadline))
        return accumulator.append_to_new(ready, buffer)

    def _allocate(self, size: int, deadline: float) -> bytearray:
        pool = self._core.accumulator.pool
        buffer = pool.try_allocate(size)
        if buffer is not None:
            return buffer
        granted = threading.Event()
        waiter = pool.wait(size, granted.set)
        if waiter is None:
            return pool.allocate(size)
        self._wake()
        try:
            # The I/O thread frees the memory: it cannot wait for that itself.
            left = 0.0 if self._io.is_current else max(0.0, deadline - time.monotonic())
            with self._core.metrics.waiting_for_memory():
                granted.wait(left)
        except BaseException:
            pool.cancel_and_release(waiter)
            raise
        return pool.collect(waiter)

    def send_batch(
        self,
        topic: str,
        values: Any,
        keys: Any = None,
        *,
        partition: int | None = None,
        timestamps_ms: Any = None,
    ) -> BatchFuture:
        """Send many records at once: lists of bytes, text or None, or Arrow arrays of binary or string.

        Series of pandas or Polars become such arrays (with pyarrow).

        Each key goes where send() would send it; rows without a key go together. `timestamps_ms` is one time for all, a
        list, or an Arrow array of int64 or timestamp[ms]. Serializers and interceptors are not used. Blocks for at most
        max.block.ms at a time while topic or memory is waited for. Raises as send() does; where a record is too large,
        those before it are sent.
        """
        self._check_open()
        self._core.check_open()
        columns = self._core.table(values, keys, timestamps_ms)
        try:
            queues = self._queues(topic, partition, time.monotonic() + self._core.max_block)
            steps = self._core.batch_steps(queues, columns, partition)
            size = next(steps)
            while True:
                buffer = self._allocate(size, time.monotonic() + self._core.max_block)
                size = steps.send(self._core.while_open(buffer))
        except StopIteration as end:
            future: BatchFuture = end.value
            return future
        except KafkaError as error:
            self._break_transaction(error)
            raise

    def flush(self, timeout: float | None = FOR_EVER) -> None:
        """Send everything that waits, and wait until each record is acknowledged or has failed.

        KafkaTimeoutError after `timeout` seconds.
        """
        self._check_open()
        with self._core.metrics.timed("flush"):
            settled = self._io.run(wait_for_pending(self._core, timeout))
        if not settled:
            raise KafkaTimeoutError(f"records are still waiting after {timeout:g} s")

    def init_transactions(self) -> None:
        """Take the transactional id over, before the first transaction; an earlier producer with it is fenced.

        Raises KafkaTimeoutError after max.block.ms, and the coordinator's error.
        """
        self._check_open()
        with self._core.metrics.timed("txn-init"):
            self._io.run(self._core.transactions.init())

    def begin_transaction(self) -> None:
        """Open a transaction. IllegalStateError where one is open, ProducerFencedError where the id is another's."""
        self._check_open()
        with self._core.metrics.timed("txn-begin"):
            self._core.transactions.begin()

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: ConsumerGroupMetadata | str
    ) -> None:
        """Commit a group's offsets with the transaction (KIP-447); `consumer.group_metadata()` tells the group."""
        self._check_open()
        with self._core.metrics.timed("txn-send-offsets"):
            self._io.run(self._core.transactions.send_offsets(offsets, as_group_metadata(group_metadata)))

    def commit_transaction(self) -> None:
        """Wait for all records and commit. The error of a record that failed is raised: then it has to be aborted.

        After KafkaTimeoutError it can be tried again.
        """
        self._check_open()
        with self._core.metrics.timed("txn-commit"):
            self._io.run(self._core.transactions.end(commit=True))

    def abort_transaction(self) -> None:
        """Drop what was not sent yet, and have everything else of the transaction taken back."""
        self._check_open()
        with self._core.metrics.timed("txn-abort"):
            self._io.run(self._core.transactions.end(commit=False))

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """A block whose records (and offsets) become visible together at its end; none of them if it raises."""
        self.begin_transaction()
        try:
            yield self
        except BaseException:
            with suppress(KafkaError):  # what the block raised tells more
                self.abort_transaction()
            raise
        self.commit_transaction()

    def partitions_for(self, topic: str) -> set[int]:
        """The numbers of a topic's partitions. KafkaTimeoutError when it is not known within max.block.ms."""
        self._check_open()
        info = self._metadata.cluster.topics.get(topic)
        if info is None or not info.partitions:
            info = self._io.run(self._metadata.wait_for_topic(topic, self._core.max_block))
        return {p.partition for p in info.partitions}

    def metrics(self, raw: bool = False) -> dict[Any, Any]:
        """What is measured: `{group: {name: value}}`, or with `raw` `{MetricName: KafkaMetric}` as in Java."""
        return self._core.metrics.values(raw)

    def client_instance_id(self, timeout: float = CLIENT_ID_SECONDS) -> UUID:
        """The id under which the cluster knows this client's metrics (KIP-714). KafkaTimeoutError after `timeout` s."""
        self._check_open()
        return self._io.run(telemetry.require(self._core.telemetry).client_instance_id(timeout))

    def bootstrap_connected(self) -> bool:
        """Whether the cluster has been reached."""
        return bool(self._metadata.cluster.nodes)

    def close(self, timeout: float | None = FOR_EVER) -> None:
        """Deliver what waits, for at most `timeout` seconds, and end; what is left then fails. Twice does no harm."""
        with self._close_lock:
            if self._refusal is not None:
                return
            self._block("the producer is closed")
        self._core.accumulator.closing = True
        if self._io.is_current:
            # From a callback: waiting for deliveries would wait for ourselves.
            self._io.loop.create_task(self._stop_from_callback())
            return
        deadline = None if timeout is None else time.monotonic() + timeout
        left: float | None = HURRIED_SECONDS
        try:
            if timeout is None or timeout > 0:
                self._io.run(wait_for_pending(self._core, timeout))
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
        finally:
            try:
                self._io.run(self._core.stop(left), STOP_SECONDS)
            finally:
                self._io.stop()

    async def _stop_from_callback(self) -> None:
        await self._core.stop()
        self._io.stop()

    # Small things

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise IllegalStateError(self._refusal)

    def _block(self, why: str) -> None:
        self._plain = False
        self._refusal = why

    def _forked(self) -> None:
        self._block("the producer was made before a fork; make a new one in this process")
        self._close_lock = threading.Lock()

    def _wake(self) -> None:
        """Have the sender look; one call is enough until it does."""
        if not self._wake_pending:
            self._wake_pending = True
            self._io.call_soon(self._on_wake)

    def _on_wake(self) -> None:
        self._wake_pending = False
        self._core.sender.wake()


STOP_SECONDS = 10.0
"""Stopping waits for nothing outside; this only keeps a bug from hanging a program's end."""
