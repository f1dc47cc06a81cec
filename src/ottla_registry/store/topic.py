"""The topic `_schemas`, which is created if it is missing, read from its beginning, and written in transactions.

A task reads the topic continuously, and so sees the changes of other registries. Every append waits until this task
has applied the appended records, so that it succeeds only for records that every registry will read.

Several registries may write. They have the same transactional id, so the last one to write fences the others. As long
as a registry is not fenced, no other one has written since it took over the id, so it decides about a change with the
whole topic in view. Confluent's registries elect a leader that writes, and forward requests to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from ottla import IsolationLevel
from ottla.aio import ConsumerRecord, KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic, TopicPartition
from ottla.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    MessageTooLargeError,
    ProducerFencedError,
    TopicAlreadyExistsError,
)
from ottla_registry.errors import RestError, record_too_large, store_failed, store_timed_out
from ottla_registry.store.records import Record
from ottla_registry.store.state import RegistryState

log = logging.getLogger("ottla.schema_registry")

POLL_MS: Final = 500
RETRY_SECONDS: Final = 1.0


class SchemasTopic:
    """Reads and writes the records of the registry. Not thread-safe: event loop only.

    Args:
        state: the state that records are applied to.
        configs: configs of the clients by Kafka's names, such as bootstrap.servers.
        topic: the name of the topic.
        replication_factor: the replication factor if the topic is created. If it is higher than the number of brokers,
            that number is used instead.
        timeout_ms: time limit in milliseconds of writes, of offset requests, and of waiting until records are applied.
    """

    def __init__(
        self,
        state: RegistryState,
        configs: Mapping[str, Any],
        topic: str = "_schemas",
        replication_factor: int = 3,
        timeout_ms: int = 10_000,
    ) -> None:
        self._state = state
        self._partition = TopicPartition(topic, 0)
        self._replication_factor = replication_factor
        self._timeout_ms = timeout_ms
        limits = ("max.block.ms", "delivery.timeout.ms", "request.timeout.ms", "transaction.timeout.ms")
        transactional = {"transactional.id": f"schema-registry-{topic}", "linger.ms": 0}
        self._producer_configs = {**configs, **dict.fromkeys(limits, timeout_ms), **transactional}
        reading = {"enable.auto.commit": False, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        self._admin = KafkaAdminClient(dict(configs))
        self._producer: KafkaProducer | None = None
        """The producer of transactions; None if the next write has to create it."""
        self._consumer = KafkaConsumer({**configs, **reading, "fetch.max.wait.ms": POLL_MS})
        self._applied = 0
        self._progress = asyncio.Condition()
        self._exits = AsyncExitStack()

    async def start(self) -> None:
        """Create the topic if it is missing, and read it. Raises KafkaError or RestError if that fails or times out."""
        async with AsyncExitStack() as exits:
            await exits.enter_async_context(self._admin)
            await self._ensure_topic()
            exits.push_async_callback(self._drop_producer)
            await exits.enter_async_context(self._consumer)
            self._consumer.assign([self._partition])
            reader = asyncio.create_task(self._read(), name="schema-registry-reader")
            exits.push_async_callback(_cancel, reader)
            await self.read_to_end()
            self._exits = exits.pop_all()

    async def stop(self) -> None:
        """Stop reading, and close the clients."""
        await self._exits.aclose()

    async def read_to_end(self) -> None:
        """Wait until all records before the current last stable offset of the topic are applied.

        Raises RestError if the end offset cannot be read, or after a timeout.
        """
        try:
            ends = await self._admin.list_offsets(
                {self._partition: -1}, self._timeout_ms, IsolationLevel.READ_COMMITTED
            )
        except KafkaError as error:
            raise store_failed(str(error)) from error
        await self._wait_for(ends[self._partition].offset)

    async def cluster_id(self) -> str:
        """Return the id of the cluster; empty if it has none. Raises RestError if the request fails."""
        try:
            return (await self._admin.describe_cluster()).cluster_id or ""
        except KafkaError as error:
            raise store_failed(str(error)) from error

    async def append(self, records: Sequence[Record]) -> bool:
        """Write records in order in one transaction, and wait until they are applied.

        Return False if nothing was written, because another registry may have written since this one read the topic to
        its end. The caller then has to read and decide again. Raises RestError if the append fails or times out; the
        records may have been written nevertheless.
        """
        if self._producer is None:
            await self._fence_others()
            return False
        try:
            async with self._producer.transaction():
                futures = [
                    await self._producer.send(self._partition.topic, value, key, partition=0) for key, value in records
                ]
            offsets = [(await future).offset for future in futures]
        except (ProducerFencedError, InvalidProducerEpochError, InvalidTxnStateError):  # it was aborted, in each case
            log.info(
                "A write to topic %s was aborted, because another registry may have written meanwhile; reading the "
                "topic to its end",
                self._partition.topic,
            )
            await self._fence_others()
            return False
        except MessageTooLargeError as error:  # with its metadata and rules
            await self._drop_producer()
            raise record_too_large(str(error)) from None
        except KafkaError as error:
            await self._drop_producer()
            raise self._write_failed(error) from error
        await self._wait_for(max(offsets) + 1)
        return True

    async def _fence_others(self) -> None:
        """Take over the transactional id from other registries. Raises RestError if that fails."""
        await self._drop_producer()
        producer = KafkaProducer(dict(self._producer_configs))
        try:
            await producer.start()
            await producer.init_transactions()
        except KafkaError as error:
            await producer.stop(timeout=0)
            raise self._write_failed(error) from error
        self._producer = producer

    async def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.stop(timeout=0)

    def _write_failed(self, error: KafkaError) -> RestError:
        log.error(
            "A write to topic %s failed, or its outcome is unknown; the client receives error 50001: %s",
            self._partition.topic,
            error,
        )
        return store_failed(str(error))

    async def _wait_for(self, offset: int) -> None:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000), self._progress:
                await self._progress.wait_for(lambda: self._applied >= offset)
        except TimeoutError:
            raise store_timed_out() from None

    async def _read(self) -> None:
        while True:
            try:
                batches = await self._consumer.poll(POLL_MS)
                for records in batches.values():
                    for record in records:
                        self._apply(record)
                applied = await self._consumer.position(self._partition, self._timeout_ms)
            except KafkaError as error:
                log.warning("Cannot read topic %s; retrying in %g s: %s", self._partition.topic, RETRY_SECONDS, error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            async with self._progress:
                self._applied = applied
                self._progress.notify_all()

    def _apply(self, record: ConsumerRecord) -> None:
        try:
            self._state.apply(record.key, record.value)
        except Exception:  # a bug must be logged, not end the reading of the topic
            log.exception(
                "Unexpected error; ignoring the record at offset %d of topic %s", record.offset, self._partition.topic
            )

    async def _ensure_topic(self) -> None:
        topic = self._partition.topic
        if topic in await self._admin.list_topics():
            return
        brokers = len((await self._admin.describe_cluster()).nodes)
        new = NewTopic(topic, 1, min(self._replication_factor, brokers), None, {"cleanup.policy": "compact"})
        try:
            await self._admin.create_topics([new], wait_for_metadata=True)
        except TopicAlreadyExistsError:
            log.info("Topic %s already exists; using it", topic)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
