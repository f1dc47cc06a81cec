"""The asyncio face of the producer: the core itself, on the loop that runs it. `ottla.aio` shows it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from ottla.client.core import telemetry
from ottla.client.core.futures import RecordFuture
from ottla.client.producer.batch import Headers, Ready, TopicQueues
from ottla.client.producer.columnar import BatchFuture
from ottla.client.producer.core import HURRIED_SECONDS, ProducerCore, ProducerRecord, wait_for_pending
from ottla.client.producer.transactions import as_group_metadata
from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.config.producer import ProducerConfig
from ottla.errors import IllegalStateError, KafkaError, KafkaTimeoutError
from ottla.model import ConsumerGroupMetadata, OffsetAndMetadata, RecordMetadata, TopicPartition


class KafkaProducer:
    """Sends records to Kafka; belongs to one event loop. `start` and `stop`, or `async with`.

    `clock` is for tests, as with the blocking producer.
    """

    def __init__(
        self, configs: Mapping[str, Any] | None = None, *, clock: Clock = SYSTEM_CLOCK, **options: Any
    ) -> None:
        if configs is not None:
            self.config = ProducerConfig.from_kafka(configs, **options)
        else:
            self.config = ProducerConfig.from_keywords(**options)
        self._core = ProducerCore(self.config, self._wake, clock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._ending: asyncio.Task[None] | None = None
        self._turns = _Turns()
        self._hurry = asyncio.Event()
        """Set when nobody waits for deliveries at the end any more."""

    async def start(self) -> None:
        """Begin to work."""
        self._loop = asyncio.get_running_loop()
        await self._core.start()

    async def stop(self, timeout: float | None = None) -> None:
        """Deliver what waits, for at most `timeout` seconds, and end; what is left then fails. Twice does no harm.

        Cancelled, it waits for no more deliveries, but ends all the same (in the background).
        """
        if self._ending is None:
            self._closed = True
            self._core.accumulator.closing = True
            self._ending = asyncio.get_running_loop().create_task(self._end(timeout))
        try:
            await asyncio.shield(self._ending)
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
        """Put a record into a batch; await the future to learn where it lies.

        Waits for at most max.block.ms for topic and memory. Raises what the blocking producer's send() raises.
        """
        callback: Callable[..., Any] | None = None
        if isinstance(topic, ProducerRecord):
            record, callback = topic, value
        else:
            record = ProducerRecord(topic, value, key, headers, partition, timestamp_ms)
        core = self._core
        record = core.apply_interceptors(record)
        try:
            if self._closed or self._loop is None:
                raise IllegalStateError("the producer is closed" if self._closed else "the producer is not started")
            core.check_open()
        except KafkaError as error:
            core.notify_failure(record, error)
            raise
        try:
            future = await self._enqueue(record)
        except BaseException as error:  # interceptors hear of every failure, a cancelled task as well
            self._break_transaction(error)
            return core.failed(record, error, callback)
        return core.watch(future, callback)

    def _break_transaction(self, error: BaseException) -> None:
        """A commit does not know of records that were in no batch."""
        if self._core.breaks_transaction(error):
            self._core.transactions.failed(error)

    async def send_and_wait(self, topic: str, value: Any = None, key: Any = None, **more: Any) -> RecordMetadata:
        """Send a record and wait for its acknowledgement."""
        return await (await self.send(topic, value, key, **more))

    async def _enqueue(self, record: ProducerRecord) -> RecordFuture:
        """Put a record into a batch: at once if possible, and else after the calls that wait for the same already."""
        core, place = self._core, (record.topic, record.partition)
        deadline = time.monotonic() + core.max_block
        ready: Ready | None = None
        if not self._turns.is_taken(place):
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
        self._core.check_open()  # a transaction may have ended while the topic was waited for
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
        """Send many records at once, as the blocking producer's send_batch."""
        self._core.check_open()
        columns = self._core.table(values, keys, timestamps_ms)
        try:
            async with self._turns.acquire((topic, partition)):
                deadline = time.monotonic() + self._core.max_block
                steps = self._core.batch_steps(await self._queues(topic, partition, deadline), columns, partition)
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

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything that waits, and wait for every outcome. KafkaTimeoutError after `timeout` seconds."""
        with self._core.metrics.timed("flush"):
            settled = await wait_for_pending(self._core, timeout)
        if not settled:
            raise KafkaTimeoutError(f"records are still waiting after {timeout:g} s")

    async def init_transactions(self) -> None:
        """As the blocking producer's."""
        with self._core.metrics.timed("txn-init"):
            await self._core.transactions.init()

    async def begin_transaction(self) -> None:
        """As the blocking producer's."""
        with self._core.metrics.timed("txn-begin"):
            self._core.transactions.begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: ConsumerGroupMetadata | str
    ) -> None:
        """As the blocking producer's."""
        with self._core.metrics.timed("txn-send-offsets"):
            await self._core.transactions.send_offsets(offsets, as_group_metadata(group_metadata))

    async def commit_transaction(self) -> None:
        """As the blocking producer's."""
        with self._core.metrics.timed("txn-commit"):
            await self._core.transactions.end(commit=True)

    async def abort_transaction(self) -> None:
        """As the blocking producer's."""
        with self._core.metrics.timed("txn-abort"):
            await self._core.transactions.end(commit=False)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """A block whose records (and offsets) become visible together at its end; none of them if it raises."""
        await self.begin_transaction()
        try:
            yield self
        except BaseException:
            with suppress(KafkaError):  # what the block raised tells more
                await self.abort_transaction()
            raise
        await self.commit_transaction()

    async def partitions_for(self, topic: str) -> set[int]:
        """The numbers of a topic's partitions."""
        info = await self._core.metadata.wait_for_topic(topic, self._core.max_block)
        return {p.partition for p in info.partitions}

    async def client_instance_id(self, timeout: float = 30.0) -> UUID:
        """The id under which the cluster knows this client's metrics (KIP-714). KafkaTimeoutError after `timeout` s."""
        return await telemetry.require(self._core.telemetry).client_instance_id(timeout)

    def metrics(self, raw: bool = False) -> dict[Any, Any]:
        """What is measured: `{group: {name: value}}`, or with `raw` `{MetricName: KafkaMetric}` as in Java."""
        return self._core.metrics.values(raw)


class _Turns:
    """Lets calls that wait for the same place go on in the order in which they came.

    A place is a topic with the partition that was asked for, or None. Without this a call that came later, and found
    the topic known or room in a batch, would overtake one that is about to go on.
    """

    def __init__(self) -> None:
        self._locks: dict[tuple[str, int | None], tuple[asyncio.Lock, int]] = {}

    def is_taken(self, place: tuple[str, int | None]) -> bool:
        """Whether a call waits for this place."""
        return place in self._locks

    @asynccontextmanager
    async def acquire(self, place: tuple[str, int | None]) -> AsyncIterator[None]:
        """Wait for the calls before."""
        lock, users = self._locks.get(place) or (asyncio.Lock(), 0)
        self._locks[place] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            users = self._locks[place][1] - 1
            if users:
                self._locks[place] = (lock, users)
            else:
                del self._locks[place]
