"""The core of the synchronous and the asynchronous producer: its parts, and the general path of a record.

If `ProducerCore.is_plain` is true, records of bytes without headers usually take a faster path if they fit into an open
batch: `records.appender.DirectAppender`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from array import array
from collections.abc import Callable, Container, Generator, Sequence
from typing import Any, Final, TypeGuard

from ottla.backoff import ExponentialBackoff
from ottla.client.core.client_metrics import metrics_of
from ottla.client.core.connections import Connections
from ottla.client.core.futures import failed_future
from ottla.client.core.interceptors import close_all
from ottla.client.core.metadata import Cluster, Metadata, metadata_of
from ottla.client.core.telemetry import Telemetry, telemetry_of
from ottla.client.producer import columnar
from ottla.client.producer import partitioner as partitioning
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.batch import Headers, Ready, TopicQueues
from ottla.client.producer.interceptors import ProducerInterceptors, unsent_metadata
from ottla.client.producer.metrics import ProducerMetrics
from ottla.client.producer.partitioner import PartitionRequest, RoundRobin, UserPartitioner
from ottla.client.producer.sender import Sender
from ottla.client.producer.transaction_manager import TransactionManager
from ottla.client.producer.transactions import Transactions
from ottla.client.serializers import Converter, checked_headers, find, to_bytes
from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.config.producer import ProducerConfig
from ottla.errors import BufferExhaustedError, IllegalStateError, KafkaError, KafkaTimeoutError, MessageTooLargeError
from ottla.metrics.metrics import Metrics
from ottla.model import ProducerRecord, RecordMetadata, TopicPartition
from ottla.net.client.channel_metrics import ChannelMetrics
from ottla.records.appender import NOW, DirectAppender, RecordFuture
from ottla.records.builder import record_size_upper_bound
from ottla.records.compression import CODEC_IDS
from ottla.records.murmur2 import all_rows

log = logging.getLogger("ottla.client")

_numbers = itertools.count(1)


class ProducerCore:
    """The parts and the logic of a producer, without the public API. `wake` is called when the sender has work, by any
    thread.
    """

    def __init__(self, config: ProducerConfig, wake: Callable[[], None], clock: Clock = SYSTEM_CLOCK) -> None:
        self.config = config
        self.clock = clock
        self.client_id: str = config.client_id or f"producer-{config.transactional_id or next(_numbers)}"
        registry = metrics_of(config, "producer", self.client_id, clock)
        try:
            self._create_parts(config, wake, clock, registry)
        except BaseException:
            registry.close()  # a reporter may have a thread
            raise

    def _create_parts(self, config: ProducerConfig, wake: Callable[[], None], clock: Clock, registry: Metrics) -> None:
        self.metrics: ProducerMetrics = ProducerMetrics(registry)
        self.max_block: float = config.longest_block_ms / 1000
        configs = {**config.originals, "client.id": self.client_id}
        self.interceptors: ProducerInterceptors = ProducerInterceptors(config.interceptor_classes, configs)
        self.key_serializer: Converter | None = find(config.key_serializer, "key_serializer", configs)
        self.value_serializer: Converter | None = find(config.value_serializer, "value_serializer", configs)
        channels = ChannelMetrics(registry, "producer")
        self.connections: Connections = Connections(
            config, self.client_id, lambda: self.metadata.cluster.nodes, channels
        )
        self.metadata: Metadata = metadata_of(
            config,
            self.connections,
            allow_auto_create=config.allow_auto_create_topics,
            topic_idle_ms=config.metadata_max_idle_ms,
            clock=clock,
        )
        self.accumulator: Accumulator = Accumulator(
            batch_bytes=max(config.batch_size, 1),
            memory_bytes=config.buffer_memory,
            codec=CODEC_IDS[config.compression_type],
            level=config.codec_level,
            linger=config.linger_ms / 1000,
            backoff=ExponentialBackoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000),
            wake=wake,
            clock=clock.monotonic,
        )
        self.metrics.watch_memory(self.accumulator.pool)
        self.metrics.watch_requests(
            lambda: self.connections.requests_in_flight, lambda: clock.monotonic() - self.metadata.updated_at
        )
        transactional = config.transactional_id is not None
        numbers = None
        if config.enable_idempotence:
            numbers = TransactionManager(self.connections.send_any, transactional=transactional)
        self.sender: Sender = Sender(
            config, self.accumulator, self.connections, self.metadata, numbers, self.metrics, clock
        )
        self._transactions: Transactions | None = None
        if numbers is not None and transactional:
            self._transactions = self.sender.scope = Transactions(
                config,
                self.connections,
                self.metadata,
                numbers,
                drained=lambda: wait_for_pending(self, None),
                give_up=self.sender.abort_batches,
                wake=self.sender.wake,
            )
        self.telemetry: Telemetry | None = telemetry_of(
            config.enable_metrics_push,
            self.connections,
            self.metadata,
            registry,
            transactional_id=config.transactional_id,
        )
        self._round_robin = RoundRobin()
        chooser: Any = config.chosen_partitioner
        self._partitioner: Any = chooser if isinstance(chooser, str) else UserPartitioner(chooser, configs)
        self._ignores_keys: bool = self._partitioner == "sticky" or config.partitioner_ignore_keys
        self.direct: DirectAppender = DirectAppender(self.accumulator.topics, self._choose_sticky)
        """The fast path for records. The producer enables it while it is open, if `is_plain` is true."""
        self.metadata.listeners.append(self._metadata_updated)

    @property
    def is_plain(self) -> bool:
        """Whether the fast path may be used, because there is nothing to do but append bytes: there is no serializer,
        interceptor, transactional id or test clock, and the partitioner is the default one and uses the keys.
        """
        return (
            not self.interceptors
            and self.key_serializer is None
            and self.value_serializer is None
            and self._partitioner == "default"
            and not self.config.partitioner_ignore_keys
            and self._transactions is None
            and self.clock is SYSTEM_CLOCK
        )

    @property
    def transactions(self) -> Transactions:
        """The producer's transactions. Raises IllegalStateError without a transactional.id."""
        if self._transactions is None:
            raise IllegalStateError("transactions require the config transactional.id")
        return self._transactions

    def check_open(self) -> None:
        """Raise an error if the producer is transactional and has no open transaction."""
        if self._transactions is not None:
            self._transactions.check_open()

    def while_open(self, buffer: bytearray) -> bytearray:
        """Return the buffer. If the transaction has ended or failed while the caller waited for memory, release the
        buffer and raise an error.
        """
        try:
            self.check_open()
        except BaseException:
            self.accumulator.pool.release(buffer)
            raise
        return buffer

    def _metadata_updated(self, _: Cluster) -> None:
        self.direct.version = self.metadata.version

    # Event loop

    async def start(self) -> None:
        """Start the background tasks. Connections are opened when they are needed."""
        self.metadata.start()
        self.sender.start()

    async def stop(self, seconds: float | None = None) -> None:
        """Stop. Pending records fail. An open transaction is aborted if that is possible within `seconds` and within
        `transactions.CLOSE_SECONDS`.
        """
        if self._transactions is not None:
            await self._transactions.close(seconds)
        await self.sender.close(IllegalStateError("the producer was closed before the record was delivered"))
        if self.telemetry is not None:
            await self.telemetry.close()
        await self.metadata.close()
        await self.connections.close()
        await asyncio.sleep(0)  # lets batches in flight release their memory
        self.metrics.metrics.close()
        close_all(self.interceptors, self.key_serializer, self.value_serializer, self._partitioner)

    # The path of a record

    def apply_interceptors(self, record: ProducerRecord) -> ProducerRecord:
        """Pass a record through the interceptors, and return the result."""
        return self.interceptors.on_send(record) if self.interceptors else record

    def queues(self, topic: str, partition: int | None) -> TopicQueues | None:
        """Return the queues of a topic; None if the metadata has no partition of it, or `partition` is too high."""
        # In this order: if the event loop replaces both in between, the version is too old, and the next call updates.
        version, cluster = self.metadata.version, self.metadata.cluster
        info = cluster.topics.get(topic)
        if info is None or not info.partitions or (partition is not None and partition >= len(info.partitions)):
            return None
        topic_queues = self.accumulator.topic(topic)
        if topic_queues.version != version:
            with self.accumulator.lock:
                topic_queues.update(cluster, topic, version)
        return topic_queues

    def table(self, values: Any, keys: Any, timestamps_ms: Any) -> columnar.Table:
        """Create the columns of a send_batch call. The default timestamp is the current time."""
        has_injected_clock = timestamps_ms is None and self.clock is not SYSTEM_CLOCK
        return columnar.table(values, keys, self.clock.now_ms() if has_injected_clock else timestamps_ms)

    def batch_steps(
        self, queues: TopicQueues, rows_table: columnar.Table, partition: int | None
    ) -> Generator[int, bytearray, columnar.BatchFuture]:
        """Append columns to batches. Yields the size of each buffer that it needs, and is sent the buffer. Returns the
        future of the records.
        """
        parts = []
        for number, rows in self._rows_of_partitions(rows_table, queues, partition).items():
            queue = queues.queues[number]
            parts += yield from columnar.append_table(
                self.accumulator, rows_table, queue, rows, self._check_size, self.config.max_request_size
            )
        return columnar.BatchFuture(parts)

    def _rows_of_partitions(
        self, rows_table: columnar.Table, queues: TopicQueues, partition: int | None
    ) -> dict[int, array[int]]:
        """Return the row numbers by partition: all for the requested one or, without one, as the partitioner chooses.
        Raises ValueError for a negative partition.
        """
        chooser = self._partitioner
        if partition is not None:
            if partition < 0:
                raise ValueError(f"partition {partition} is not valid")
            return {partition: all_rows(rows_table.rows)}
        if chooser in ("default", "sticky"):
            return columnar.rows_by_key(rows_table, queues, self.sticky, ignore_keys=self._ignores_keys)
        topic, partitions, cluster = queues.queues[0].tp.topic, list(range(queues.count)), self.metadata.cluster

        def choose(key: bytes | None, value: bytes | None, chosen_before: Container[int]) -> int:
            if not isinstance(chooser, UserPartitioner):
                return self._next_partition(topic, queues)
            request = PartitionRequest(topic, key, key, value, value, partitions, queues.available, cluster)
            chosen = chooser.partition(request)
            return chosen if chosen in chosen_before else chooser.partition_for_new_batch(request, chosen)

        return columnar.rows_by_choice(rows_table, choose)

    def prepare(self, record: ProducerRecord, queues: TopicQueues) -> Ready:
        """Serialize a record, choose its partition, and check its size. Raises SerializationError or
        MessageTooLargeError, for example.
        """
        topic = record.topic
        headers = checked_headers(record.headers) if record.headers else []
        key, value = record.key, record.value
        if self.key_serializer is not None:
            key = self.key_serializer(topic, key, headers)
        if self.value_serializer is not None:
            value = self.value_serializer(topic, value, headers)
        key, value = to_bytes(key, "key"), to_bytes(value, "value")
        if headers:  # serializers may have added headers
            headers = checked_headers(headers)
        size = record_size_upper_bound(len(key or b""), len(value or b""), headers)
        self._check_size(size)
        partition = record.partition
        if partition is None:
            partition = self._partition(record, key, value, size, queues)
        elif partition < 0:
            raise ValueError(f"partition {partition} is not valid")
        timestamp = self._now() if record.timestamp_ms is None else record.timestamp_ms
        if record.timestamp_ms is not None and timestamp < 0:
            raise ValueError(f"timestamp {timestamp} is not valid")
        return Ready(queues.queues[partition], timestamp, key, value, headers or None, size)

    def _now(self) -> int:
        return NOW if self.clock is SYSTEM_CLOCK else self.clock.now_ms()

    def _check_size(self, size: int) -> None:
        for limit, option in (
            (self.config.max_request_size, "max.request.size"),
            (self.config.buffer_memory, "buffer.memory"),
        ):
            if size > limit:
                raise MessageTooLargeError(f"the record takes {size} bytes, {option} is {limit}")

    def _partition(
        self, record: ProducerRecord, key: bytes | None, value: bytes | None, size: int, queues: TopicQueues
    ) -> int:
        chooser = self._partitioner
        if isinstance(chooser, UserPartitioner):
            partitions, cluster = range(queues.count), self.metadata.cluster
            request = PartitionRequest(
                record.topic, record.key, key, record.value, value, list(partitions), queues.available, cluster
            )
            chosen = chooser.partition(request)
            has_room = queues.queues[chosen].has_room(size)
            return chosen if has_room else chooser.partition_for_new_batch(request, chosen)
        if chooser in ("roundrobin", "random"):
            return self._next_partition(record.topic, queues)
        if key is not None and not self._ignores_keys:
            return partitioning.partition_for_key(key, queues.count)
        return self.sticky(queues, size)

    def _next_partition(self, topic: str, queues: TopicQueues) -> int:
        """Return the partition that roundrobin or random chooses."""
        if self._partitioner == "roundrobin":
            return self._round_robin.partition(topic, queues.available)
        return random.choice(queues.available)

    def sticky(self, queues: TopicQueues, size: int) -> int:
        """Return the sticky partition of a topic, for `size` bytes of records."""
        return self.direct.sticky(queues, size)

    def _choose_sticky(self, queues: TopicQueues) -> None:
        """Choose the sticky partition for the next batch.size bytes of records."""

        def queued(partition: int) -> int:
            return len(queues.queues[partition].batches)

        if not self.config.partitioner_adaptive_partitioning_enable:
            queues.sticky_partition = partitioning.choose_partition(queues.available, None)
        else:
            queues.sticky_partition = partitioning.choose_partition(self._responsive(queues), queued)
        queues.sticky_left = self.accumulator.batch_bytes

    def _responsive(self, queues: TopicQueues) -> Sequence[int]:
        """Return the partitions for whose leader no batch has been waiting for longer than
        partitioner.availability.timeout.ms. Return `queues.available` if there is none, or if the timeout is 0.
        """
        limit = self.config.partitioner_availability_timeout_ms / 1000
        if not limit:
            return queues.available
        leader, stalled = self.metadata.cluster.leader, self.accumulator.stalled_for
        responsive = [n for n in queues.available if stalled(leader(queues.queues[n].tp)) <= limit]
        return responsive or queues.available

    def watch(self, future: RecordFuture, record: ProducerRecord, callback: Callable[..., Any] | None) -> RecordFuture:
        """Let interceptors and the caller's callback get the result of a record. Return the future."""
        if self.interceptors:
            self._notify_interceptors(future, record.headers)
        if callback is not None:
            future.report_to(callback)
        return future

    def _notify_interceptors(self, future: RecordFuture, headers: Headers | None) -> None:
        tp = future.outcome.tp

        def acknowledged(metadata: RecordMetadata | None, error: BaseException | None) -> None:
            self.interceptors.on_acknowledgement(metadata or unsent_metadata(tp.topic, tp.partition), error, headers)

        future.report_to(acknowledged)

    def notify_failure(self, record: ProducerRecord, error: BaseException) -> None:
        """Count a record that failed before it was in a batch, and notify the interceptors."""
        self.metrics.record_failure(None, 1)
        if isinstance(error, BufferExhaustedError):
            self.metrics.exhausted.record()
        self.interceptors.on_send_error(record, error)

    def breaks_transaction(self, error: BaseException) -> TypeGuard[KafkaError]:
        """Return whether the transaction fails because a record could not be put into a batch (KAFKA-9279).

        It does for errors that a broker can return, and for timeouts, but not for errors of a serializer.
        """
        is_lost = isinstance(error, KafkaTimeoutError) or (isinstance(error, KafkaError) and error.code is not None)
        return self._transactions is not None and is_lost

    def failed(self, record: ProducerRecord, error: BaseException, callback: Callable[..., Any] | None) -> RecordFuture:
        """Handle a record that failed before it was in a batch. Return its future.

        Errors that a broker can return (those with an error code) are set on the future; others are raised.
        """
        self.notify_failure(record, error)
        if not isinstance(error, KafkaError) or error.code is None:
            raise error
        future = failed_future(
            TopicPartition(record.topic, -1 if record.partition is None else record.partition), error
        )
        if callback is not None:
            future.report_to(callback)
        return future


HURRIED_SECONDS: Final = 0.5
"""Time in seconds for aborting an open transaction if close() was interrupted or cancelled."""


async def wait_for_pending(core: ProducerCore, timeout: float | None) -> bool:
    """Send all pending records, and wait until each is acknowledged or has failed. Return False if some are
    still pending after `timeout` seconds (None: no limit).
    """
    accumulator = core.accumulator
    accumulator.flushing += 1
    core.sender.wake()
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout):
            for batch in accumulator.pending():
                done = loop.create_future()
                batch.outcome.when_done(lambda done=done: done.done() or done.set_result(None))  # type: ignore[misc]
                await done
    except TimeoutError:
        return False
    finally:
        accumulator.flushing -= 1
    return True
