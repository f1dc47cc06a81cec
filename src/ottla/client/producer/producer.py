"""`KafkaProducer`: the synchronous API. Thread-safe; one producer serves all threads of a program.

send() appends the record to the open batch of its partition, in the caller's thread. The I/O thread sends whole
batches.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack

from ottla.client.core.io_thread import IoThread, wait_for
from ottla.client.core.synchronous import SynchronousClient, synchronous
from ottla.client.producer.batch import Ready, TopicQueues
from ottla.client.producer.calls import ProducerCalls, ProducerQueries
from ottla.client.producer.columnar import BatchFuture
from ottla.client.producer.core import (
    HURRIED_SECONDS,
    ProducerCore,
    wait_for_pending,
)
from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.config.producer import ProducerConfig
from ottla.errors import IllegalStateError, KafkaError
from ottla.model import ProducerRecord
from ottla.records.appender import DirectSender, RecordFuture

if TYPE_CHECKING:
    from ottla.client.options.producer import ProducerOptions

T = TypeVar("T")

FOR_EVER = None


class KafkaProducer(DirectSender, ProducerQueries, SynchronousClient[ProducerCalls]):
    """Sends records to Kafka.

        with KafkaProducer(bootstrap_servers="localhost:9092") as producer:
            producer.send("topic", b"value", key=b"key").get(timeout=10)

    Options are keywords (`linger_ms=20`), or one mapping with Kafka's names (`{"linger.ms": 20}`); see
    `ottla.config.producer.ProducerConfig`. Raises ConfigurationError for an invalid value, TypeError for an unknown
    keyword. `clock` is for tests: with `ottla.clock.ManualClock` the test controls lingering, backoff, expiry and the
    age of metadata.
    """

    def __init__(
        self,
        configs: Mapping[str, Any] | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self.config: ProducerConfig
        if configs is not None:
            self.config = ProducerConfig.from_kafka(configs, **options)
        else:
            self.config = ProducerConfig.from_keywords(**options)
        self._wake_pending = False
        self._core = core = ProducerCore(self.config, self._wake, clock)
        super().__init__(core.direct)
        self._asynchronous = ProducerCalls(core)
        self._io = IoThread(f"ottla-{core.client_id}")
        self._io.on_fork = self._forked
        self._refusal: str | None = None
        self._close_lock = threading.Lock()
        self._metadata = core.metadata
        core.direct.enabled = core.is_plain
        self._io.start()
        self._io.run(core.start())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, record: ProducerRecord, callback: Callable[..., Any] | None) -> RecordFuture:
        """Send a record that cannot take the fast path."""
        if self._io.forked:  # the next step might wait for a lock that no thread will release
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
        except BaseException as error:  # interceptors are notified of every failure, Ctrl+C included
            self._break_transaction(error)
            return core.failed(record, error, callback)
        return core.watch(future, record, callback)

    def _break_transaction(self, error: BaseException) -> None:
        """If `error` breaks the transaction (see `breaks_transaction`), let the transaction fail, because its commit
        would not include the record.
        """
        if self._core.breaks_transaction(error):
            self._io.call_soon(self._core.transactions.failed, error)

    def _prepare(self, record: ProducerRecord, deadline: float) -> Ready:
        if not isinstance(record.topic, str):
            raise TypeError(f"the topic must be a str, not {type(record.topic).__name__}")
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
        """Append a record to a batch. If a new batch is needed, wait until `deadline` for its memory."""
        accumulator = self._core.accumulator
        self._core.check_open()  # the transaction may have ended while this call waited for metadata
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
            # The I/O thread releases the memory: it cannot wait for that itself.
            left = 0.0 if self._io.is_current else max(0.0, deadline - time.monotonic())
            with self._core.metrics.waiting_for_memory():
                wait_for(granted, left)
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
        """Send many records at once: lists of bytes, str or None, or Arrow arrays of binary or string.

        Series of pandas or Polars are converted to such arrays (with pyarrow). `values` may also be `Columns` of
        `poll_batch`, whose keys and timestamps are then sent; `Columns` with headers raise ValueError.

        Without `partition`, the hash of the key chooses the partition of a row, and all rows without a key go to the
        same one, as do all rows if the partitioner ignores keys. The partitioners roundrobin and random, and those of
        the application, choose it for each row, which is slower. `timestamps_ms` is one timestamp for all, a list, or
        an Arrow array of int64 or timestamp[ms]. Serializers and interceptors are not used.

        Blocks for up to max.block.ms at a time while metadata or memory is missing. Raises the errors of send(),
        including those that send() sets on its future before a record is in a batch. If a record is too large, the
        records of earlier batches are still sent, except in a transaction, which then can only be aborted.
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

    flush: Final = synchronous(ProducerCalls.flush)
    init_transactions: Final = synchronous(ProducerCalls.init_transactions)

    def begin_transaction(self) -> None:
        """Begin a transaction.

        Raises IllegalStateError if one is open or ending, or if init_transactions() has not succeeded, and the error of
        a transaction that has failed and was not aborted, such as ProducerFencedError.
        """
        self._check_open()
        with self._core.metrics.timed("txn-begin"):
            self._core.transactions.begin()

    send_offsets_to_transaction: Final = synchronous(ProducerCalls.send_offsets_to_transaction)
    commit_transaction: Final = synchronous(ProducerCalls.commit_transaction)
    abort_transaction: Final = synchronous(ProducerCalls.abort_transaction)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Context manager: run a block in a transaction. It is committed at the end of the block, or aborted if the
        block raises.
        """
        self.begin_transaction()
        try:
            yield self
        except BaseException:
            with suppress(KafkaError):  # the exception of the block is more informative
                self.abort_transaction()
            raise
        self.commit_transaction()

    def partitions_for(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions. Raises KafkaTimeoutError if the metadata does not contain the
        topic within max.block.ms, and errors of the topic that are not retriable, such as a lack of authorization.
        """
        self._check_open()
        info = self._metadata.cluster.topics.get(topic)
        if info is None or not info.partitions:
            info = self._io.run(self._metadata.wait_for_topic(topic, self._core.max_block))
        return {p.partition for p in info.partitions}

    client_instance_id: Final = synchronous(ProducerCalls.client_instance_id)

    def close(self, timeout: float | None = FOR_EVER) -> None:
        """Send pending records within `timeout` seconds (None: no limit), and close. Records that are still pending
        then fail. An open transaction is aborted if possible. May be called repeatedly.

        In a callback in the I/O thread, it does not wait: pending records fail.
        """
        with self._close_lock:
            if self._refusal is not None:
                return
            self._block("the producer is closed")
        self._core.accumulator.closing = True
        if self._io.is_current:
            # In a callback, waiting for deliveries would wait for this thread itself.
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

    # Helpers

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._refusal is not None:
            coroutine.close()
        self._check_open()
        return self._io.run(coroutine)

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise IllegalStateError(self._refusal)

    def _block(self, why: str) -> None:
        self._core.direct.enabled = False
        self._refusal = why

    def _forked(self) -> None:
        self._block("the producer was created before a fork; create a new one in this process")
        self._close_lock = threading.Lock()

    def _wake(self) -> None:
        """Wake the sender. Further calls have no effect until it runs."""
        if not self._wake_pending:
            self._wake_pending = True
            self._io.call_soon(self._on_wake)

    def _on_wake(self) -> None:
        self._wake_pending = False
        self._core.sender.wake()


STOP_SECONDS = 10.0
"""Maximum time in seconds for which close() waits until an open transaction is aborted and the background tasks have
stopped. It is a safeguard: both should take less.
"""
