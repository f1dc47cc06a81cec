"""The topic `_schemas`: it is created if it is missing, read from its beginning, and written with acks=all.

A task reads it all the time, so that the changes of other registries are seen. Every append waits until this task has
applied it: a response is only sent for what every registry will read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from ottla.aio import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic, TopicPartition
from ottla.errors import KafkaError, TopicAlreadyExistsError
from ottla_registry.errors import store_failed, store_timed_out
from ottla_registry.store.records import Record
from ottla_registry.store.state import RegistryState

log = logging.getLogger("ottla.schema_registry")

POLL_MS: Final = 500
RETRY_SECONDS: Final = 1.0


class SchemasTopic:
    """The records of the registry. Not thread-safe: event loop only.

    Args:
        state: what the records are applied to.
        configs: configs of the clients by Kafka's names, such as bootstrap.servers.
        topic: the name of the topic.
        replication_factor: of the topic, if it is created. Fewer brokers get fewer replicas.
        timeout_ms: the longest time that an append, or reading to the end, takes.
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
        limits = {"max.block.ms": timeout_ms, "delivery.timeout.ms": timeout_ms, "request.timeout.ms": timeout_ms}
        self._admin = KafkaAdminClient(dict(configs))
        self._producer = KafkaProducer({**configs, **limits, "acks": "all", "linger.ms": 0})
        self._consumer = KafkaConsumer(
            {**configs, "enable.auto.commit": False, "auto.offset.reset": "earliest", "fetch.max.wait.ms": POLL_MS}
        )
        self._applied = 0
        self._progress = asyncio.Condition()
        self._exits = AsyncExitStack()

    async def start(self) -> None:
        """Create the topic if it is missing, and read it to its end. Raises KafkaError."""
        async with AsyncExitStack() as exits:
            await exits.enter_async_context(self._admin)
            await self._ensure_topic()
            await exits.enter_async_context(self._producer)
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
        """Wait until everything that the topic has now is applied. Raises RestError after a timeout."""
        try:
            ends = await self._admin.list_offsets({self._partition: -1}, timeout_ms=self._timeout_ms)
        except KafkaError as error:
            raise store_failed(str(error)) from error
        await self._wait_for(ends[self._partition].offset)

    async def append(self, records: Sequence[Record]) -> None:
        """Write records in order, and wait until they are applied. Raises RestError if that fails or takes too long."""
        try:
            futures = [
                await self._producer.send(self._partition.topic, value, key, partition=0) for key, value in records
            ]
            offsets = [(await future).offset for future in futures]
        except KafkaError as error:
            log.error("Cannot write to %s: %s", self._partition.topic, error)
            raise store_failed(str(error)) from error
        await self._wait_for(max(offsets) + 1)

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
                        self._state.apply(record.key, record.value)
                applied = await self._consumer.position(self._partition, self._timeout_ms)
            except KafkaError as error:
                log.warning("Cannot read %s, retrying: %s", self._partition.topic, error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            async with self._progress:
                self._applied = applied
                self._progress.notify_all()

    async def _ensure_topic(self) -> None:
        topic = self._partition.topic
        if topic in await self._admin.list_topics():
            return
        brokers = len((await self._admin.describe_cluster()).nodes)
        new = NewTopic(topic, 1, min(self._replication_factor, brokers), None, {"cleanup.policy": "compact"})
        try:
            await self._admin.create_topics([new], wait_for_metadata=True)
        except TopicAlreadyExistsError:
            log.info("Topic %s was created by another registry", topic)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
