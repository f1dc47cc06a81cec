"""`KafkaProducer` for asyncio. It is exported as `ottla.aio.KafkaProducer`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from ottla.client.producer.batch import Headers, Ready, TopicQueues
from ottla.client.producer.calls import ProducerCalls
from ottla.client.producer.columnar import BatchFuture
from ottla.client.producer.core import HURRIED_SECONDS, ProducerCore, wait_for_pending
from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.config.producer import ProducerConfig
from ottla.errors import IllegalStateError, KafkaError
from ottla.futures import shielded
from ottla.model import ProducerRecord, RecordMetadata
from ottla.records.appender import RecordFuture

if TYPE_CHECKING:
    from ottla.client.options.producer import ProducerOptions


class KafkaProducer(ProducerCalls):
    """Sends records to Kafka. Bound to one event loop. Use `start` and `stop`, or `async with`.

    `clock` is for tests.
    """

    def __init__(
        self,
        configs: Mapping[str, Any] | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
        **options: Unpack[ProducerOptions],
    ) -> None:
        if configs is not None:
            self.config: ProducerConfig = ProducerConfig.from_kafka(configs, **options)
        else:
            self.config = ProducerConfig.from_keywords(**options)
        super().__init__(ProducerCore(self.config, self._wake, clock))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._ending: asyncio.Task[None] | None = None
        self._turns = _Turns()
        self._waiting = self._turns.locks
        self._append_directly = self._core.direct.append
        self._hurry = asyncio.Event()
        """Set when stop() was cancelled, so that it no longer waits for pending records."""

    async def start(self) -> None:
        """Start the background tasks. Must be called before records are sent."""
        self._loop = self._core.accumulator.loop = asyncio.get_running_loop()
        await self._core.start()
        self._core.direct.enabled = self._core.is_plain and not self._closed

    async def stop(self, timeout: float | None = None) -> None:
        """Send pending records within `timeout` seconds (None: no limit), and stop. Records that are still pending then
        fail. An open transaction is aborted if possible. May be called repeatedly.

        If stop() is cancelled, the producer stops in the background, without waiting for pending records.
        """
        if self._ending is None:
            self._closed = True
            self._core.direct.enabled = False
            self._core.accumulator.closing = True
            self._ending = asyncio.get_running_loop().create_task(self._end(timeout))
        try:
            await shielded(self._ending)
        except asyncio.CancelledError:
            self._hurry.set()
            raise

    async def _end(self, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        if timeout is None or timeout > 0:
            hurry = asyncio.ensure_future(self._hurry.wait())
            settled = asyncio.ensure_future(wait_for_pending(self._core, timeout))
            await asyncio.wait([hurry, settled], return_when=asyncio.FIRST_COMPLETED)
            hurry.cancel()
            settled.cancel()
            await asyncio.gather(hurry, settled, return_exceptions=True)
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        await self._core.stop(HURRIED_SECONDS if self._hurry.is_set() else left)

    close = stop

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _wake(self) -> None:
        self._core.sender.wake()

    async def send(
        self,
        topic: str | ProducerRecord,
        value: Any = None,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordFuture:
        """Append a record to a batch, and return its future. Awaiting the future returns the record's metadata.

        Waits up to max.block.ms for metadata and memory. Raises the same errors as the synchronous producer's send().
        """
        # The fast path, as in the synchronous producer; not past calls that wait for room or metadata.
        if headers is None and not self._waiting:
            appended = self._append_directly(topic, value, key, partition, timestamp_ms)
            if type(appended) is RecordFuture:
                return appended
            if appended is not None:
                partition = appended
        callback: Callable[..., Any] | None = None
        if isinstance(topic, ProducerRecord):
            record, callback = topic, value
        else:
            record = ProducerRecord(topic, value, key, headers, partition, timestamp_ms)
        core = self._core
        record = core.apply_interceptors(record)
        try:
            if self._closed or self._loop is None:
                missing = "the producer is not started; use `async with`, or `await producer.start()`"
                raise IllegalStateError("the producer is closed" if self._closed else missing)
            core.check_open()
        except KafkaError as error:
            core.notify_failure(record, error)
            raise
        try:
            future = await self._enqueue(record)
        except BaseException as error:  # interceptors are notified of every failure, cancellation included
            self._break_transaction(error)
            return core.failed(record, error, callback)
        return core.watch(future, record, callback)

    def _break_transaction(self, error: BaseException) -> None:
        """If `error` breaks the transaction (see `breaks_transaction`), let the transaction fail, because its commit
        would not include the record.
        """
        if self._core.breaks_transaction(error):
            self._core.transactions.failed(error)

    async def send_and_wait(self, topic: str, value: Any = None, key: Any = None, **more: Any) -> RecordMetadata:
        """Send a record, wait for its acknowledgement, and return its metadata."""
        return await (await self.send(topic, value, key, **more))

    async def _enqueue(self, record: ProducerRecord) -> RecordFuture:
        """Append a record to a batch: at once if possible, otherwise after earlier calls that wait for the same topic
        and partition.
        """
        core, place = self._core, (record.topic, record.partition)
        deadline = time.monotonic() + core.max_block
        ready: Ready | None = None
        if not self._turns.is_waiting(place):
            queues = core.queues(*place)
            if queues is not None:
                ready = core.prepare(record, queues)
                future = core.accumulator.append(ready)
                if future is not None:
                    return future
        async with self._turns.acquire(place):
            if ready is None:
                ready = core.prepare(record, await self._queues(*place, deadline))
            return await self._append(ready, deadline)

    async def _append(self, ready: Ready, deadline: float) -> RecordFuture:
        accumulator = self._core.accumulator
        self._core.check_open()  # the transaction may have ended while this call waited for metadata
        future = accumulator.append(ready)
        if future is not None:
            return future
        buffer = self._core.while_open(await self._allocate(accumulator.buffer_bytes(ready), deadline))
        return accumulator.append_to_new(ready, buffer)

    async def _allocate(self, size: int, deadline: float) -> bytearray:
        pool = self._core.accumulator.pool
        buffer = pool.try_allocate(size)
        if buffer is not None:
            return buffer
        granted = asyncio.Event()
        waiter = pool.wait(size, granted.set)
        if waiter is None:
            return pool.allocate(size)
        self._wake()
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                with self._core.metrics.waiting_for_memory():
                    await granted.wait()
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            pool.cancel_and_release(waiter)
            raise
        return pool.collect(waiter)

    async def send_batch(
        self, topic: str, values: Any, keys: Any = None, *, partition: int | None = None, timestamps_ms: Any = None
    ) -> BatchFuture:
        """Send many records at once, like the synchronous producer's send_batch. Awaiting the future returns the ranges
        of offsets.
        """
        self._core.check_open()
        columns = self._core.table(values, keys, timestamps_ms)
        try:
            async with self._turns.acquire((topic, partition)):
                deadline = time.monotonic() + self._core.max_block
                queues = await self._queues(topic, partition, deadline)
                steps = self._core.batch_steps(queues, columns, partition)
                size = next(steps)
                while True:
                    buffer = await self._allocate(size, time.monotonic() + self._core.max_block)
                    size = steps.send(self._core.while_open(buffer))
        except StopIteration as end:
            future: BatchFuture = end.value
            return future
        except KafkaError as error:
            self._break_transaction(error)
            raise

    async def _queues(self, topic: str, partition: int | None, deadline: float) -> TopicQueues:
        queues = self._core.queues(topic, partition)
        while queues is None:
            left = max(0.0, deadline - time.monotonic())
            with self._core.metrics.timed("metadata-wait"):
                await self._core.metadata.wait_for_topic(topic, left, partition or 0)
            queues = self._core.queues(topic, partition)
        return queues

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Context manager: run a block in a transaction. It is committed at the end of the block, or aborted if the
        block raises.
        """
        await self.begin_transaction()
        try:
            yield self
        except BaseException:
            with suppress(KafkaError):  # the exception of the block is more informative
                await self.abort_transaction()
            raise
        await self.commit_transaction()

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions. Raises KafkaTimeoutError if the metadata does not contain the
        topic within max.block.ms, and errors of the topic that are not retriable, such as a lack of authorization.
        """
        info = await self._core.metadata.wait_for_topic(topic, self._core.max_block)
        return {p.partition for p in info.partitions}


class _Turns:
    """Keeps calls that wait for the same topic and partition in order.

    Otherwise a later call that sees new metadata, or room in a batch, would overtake an earlier one that is about to
    continue. The partition is None if the call does not specify it.
    """

    def __init__(self) -> None:
        self.locks: dict[tuple[str, int | None], tuple[asyncio.Lock, int]] = {}
        """The topics and partitions that calls wait for or append to. Each has a lock and the number of these calls."""

    def is_waiting(self, place: tuple[str, int | None]) -> bool:
        """Return whether a call is waiting for this topic and partition, or is about to append to them."""
        return place in self.locks

    @asynccontextmanager
    async def acquire(self, place: tuple[str, int | None]) -> AsyncIterator[None]:
        """Context manager: wait until earlier calls for the same topic and partition are done."""
        lock, users = self.locks.get(place) or (asyncio.Lock(), 0)
        self.locks[place] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            users = self.locks[place][1] - 1
            if users:
                self.locks[place] = (lock, users)
            else:
                del self.locks[place]
