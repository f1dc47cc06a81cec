"""Copies the records of a flow with their partition, timestamp, key, value and headers (`MirrorSourceTask`).

Exactly once: a transaction at the target contains the records and the source offsets up to which records were copied.
A second process with the same flow uses the same transactional id. So it fences the first one before it reads the
committed offsets. At least once, if exactly.once.source.support is disabled or preparing, or if it is preferred and the
target has no transactions: the offsets are written after the records are acknowledged.

After a failure, the session closes its clients. The next session starts at the offsets that are stored at the target.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any, Final, NamedTuple, Self

from ottla.aio import KafkaConsumer, KafkaProducer, TopicPartition
from ottla.client.producer.columnar import BatchFuture
from ottla.errors import UnsupportedVersionError, WakeupError
from ottla.mirror.clusters import Cluster
from ottla.mirror.flow_config import Flow, MirrorProperties
from ottla.mirror.source_offsets import next_offsets, offset_key, offset_value
from ottla.mirror.topics import TopicMirror
from ottla.records.appender import RecordFuture
from ottla.records.columns import BinaryColumn, Columns, HeadersColumn

log = logging.getLogger("ottla.mirror")

TRANSACTION_SECONDS: Final = 0.5
"""Time in seconds after which a transaction is committed even if there are more records."""
TRANSACTION_BYTES: Final = 16 * 1024 * 1024
"""Bytes of keys, values and headers after which a transaction is committed, so that memory is bounded."""

ROWS_PER_TURN: Final = 500
"""Number of records sent one by one before other tasks, such as the producer's sender, get a turn."""
CLOSE_SECONDS: Final = 5.0
"""Maximum time in seconds that a session waits at its end for records in flight, which may never be sent after a
failure.
"""


class CopiedRecords(NamedTuple):
    """Copied records of a source partition that have consecutive offsets at both clusters."""

    partition: TopicPartition
    upstream: int
    downstream: int
    records: int


class CopyProgress:
    """The progress of a flow since its start: copied records, bytes of keys, values and headers, and the lag."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self.lag: int | None = None
        """The lag of the consumer in records, over the partitions where it is known; None until it is known for one."""


class _Sent(NamedTuple):
    """Records that were sent, with their offsets at the source."""

    partition: TopicPartition
    columns: Columns
    future: BatchFuture | list[RecordFuture]

    def copied(self) -> Iterator[CopiedRecords]:
        """Yield ranges with consecutive offsets at both clusters. Raises the error of a record that failed."""
        row = 0
        for downstream, count in self._ranges():
            for first, end in pairwise(_run_bounds(self.columns.offsets, row, row + count)):
                yield CopiedRecords(self.partition, self.columns.offsets[first], downstream + first - row, end - first)
            row += count

    def _ranges(self) -> list[tuple[int, int]]:
        if isinstance(self.future, BatchFuture):
            return [(sent.base_offset, sent.records) for sent in self.future.get(0)]
        return [(future.get(0).offset, 1) for future in self.future]


class Copier:
    """One session of copying, with a consumer of the source and a producer of the target. `stop` or an error ends it.

    Call `start` first. `async with` closes the clients at the end.
    """

    def __init__(
        self,
        flow: Flow,
        properties: MirrorProperties,
        topics: TopicMirror,
        target: Cluster,
        on_copied: Callable[[list[CopiedRecords]], Awaitable[None]],
        progress: CopyProgress,
    ) -> None:
        self._flow = flow
        self._topics = topics
        self._target = target
        self._on_copied = on_copied
        self._progress = progress
        self._offsets_topic = offsets_topic(flow)
        self._transactional = flow.config.exactly_once_source_support in ("preferred", "enabled")
        self._consumer = KafkaConsumer(_consumer_configs(flow, properties))
        self._producer_configs = properties.client_configs("producer", flow.name.target, flow.name)
        self._producer: KafkaProducer
        self._next: dict[TopicPartition, int] = {}
        """The next offset to copy of each partition from which records were copied."""
        self._assigned: frozenset[TopicPartition] = frozenset()
        self._stopping = False
        self._clients = AsyncExitStack()

    async def start(self) -> None:
        """Start the clients, and read the offsets up to which records were copied."""
        async with AsyncExitStack() as clients:
            self._producer = await self._start_producer(clients)
            # After the initialization no transaction of an earlier process is open, and none can be committed.
            self._next = await self._read_offsets()
            await clients.enter_async_context(self._consumer)
            self._clients = clients.pop_all()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._clients.aclose()

    async def _start_producer(self, clients: AsyncExitStack) -> KafkaProducer:
        if self._transactional:
            configs = {**self._producer_configs, "transactional.id": transactional_id(self._flow)}
            try:
                return await self._start_transactional(configs, clients)
            except UnsupportedVersionError as error:
                if self._flow.config.exactly_once_source_support == "enabled":
                    raise
                log.warning(
                    "%s: the target does not support transactions; copying with at-least-once delivery: %s",
                    self._flow.name,
                    error,
                )
                self._transactional = False
        return await _started(KafkaProducer(self._producer_configs), clients)

    async def _start_transactional(self, configs: dict[str, Any], clients: AsyncExitStack) -> KafkaProducer:
        async with AsyncExitStack() as starting:
            producer = await _started(KafkaProducer(configs), starting)
            await producer.init_transactions()
            await clients.enter_async_context(starting.pop_all())
        return producer

    async def _read_offsets(self) -> dict[TopicPartition, int]:
        async with self._target.reader(self._offsets_topic) as reader:
            records = [(record.key, record.value) async for record in reader.read_to_end()]
        return next_offsets(self._flow.name.source, records)

    def stop(self) -> None:
        """End `run` after the records that are being copied."""
        self._stopping = True
        self._consumer.wakeup()

    async def run(self) -> None:
        """Copy until `stop`."""
        while not self._stopping:
            await self.copy_next()

    async def copy_next(self) -> None:
        """Wait for records for up to consumer.poll.timeout.ms. Copy them, and those fetched while they are sent."""
        self._assign()
        polled = await self._poll(self._flow.config.consumer_poll_timeout_ms)
        if not polled:
            self._update_lag()
            return
        if self._transactional:
            await self._producer.begin_transaction()
        sent = await self._send_available(polled)
        if self._transactional:
            await self._send_offsets(sent)
            await self._producer.commit_transaction()
            copied = [records for part in sent for records in part.copied()]
        else:
            await self._producer.flush()
            copied = [records for part in sent for records in part.copied()]
            await self._send_offsets(sent)
        await self._completed(sent, copied)

    def _assign(self) -> None:
        partitions = self._topics.partitions
        if partitions == self._assigned:
            return
        added = partitions - self._assigned
        self._consumer.assign(partitions)
        for partition in added & self._next.keys():
            self._consumer.seek(partition, self._next[partition])
        self._assigned = partitions

    async def _poll(self, timeout_ms: float) -> dict[TopicPartition, Columns]:
        try:
            return await self._consumer.poll_batch(timeout_ms, headers=True)
        except WakeupError:
            return {}

    async def _send_available(self, polled: dict[TopicPartition, Columns]) -> list[_Sent]:
        """Send these records, and those that are fetched in the meantime, until there are no more, a limit of a
        transaction is reached, or the copier is stopped.
        """
        deadline = time.monotonic() + TRANSACTION_SECONDS
        sent: list[_Sent] = []
        size = 0
        while polled:
            for partition, columns in polled.items():
                sent.append(_Sent(partition, columns, await self._send(partition, columns)))
                size += columns.nbytes
            if self._stopping or size >= TRANSACTION_BYTES or time.monotonic() >= deadline:
                break
            polled = await self._poll(0)
        return sent

    async def _send(self, partition: TopicPartition, columns: Columns) -> BatchFuture | list[RecordFuture]:
        topic = self._topics.remote_topic(partition.topic)
        if _is_plain(columns):
            return await self._producer.send_batch(topic, columns, partition=partition.partition)
        rows = zip(
            _rows(columns.values, columns.rows),
            _rows(columns.keys, columns.rows),
            _headers(columns.headers, columns.rows),
            columns.timestamps[: columns.rows],
            strict=True,
        )
        futures = []
        for value, key, headers, timestamp in rows:
            at = timestamp if timestamp >= 0 else None
            futures.append(await self._producer.send(topic, value, key, headers, partition.partition, at))
            if len(futures) % ROWS_PER_TURN == 0:
                await asyncio.sleep(0)  # a send that finds room does not let the event loop go on
        return futures

    async def _send_offsets(self, sent: list[_Sent]) -> None:
        """Write the offset of the last record of each partition to the topic of copied offsets."""
        last = {part.partition: part.columns.offsets[part.columns.rows - 1] for part in sent}
        futures = [
            await self._producer.send(
                self._offsets_topic, offset_value(offset), offset_key(self._flow.name.source, partition)
            )
            for partition, offset in last.items()
        ]
        if not self._transactional:
            for future in futures:
                await future

    async def _completed(self, sent: list[_Sent], copied: list[CopiedRecords]) -> None:
        for part in sent:
            self._next[part.partition] = part.columns.offsets[part.columns.rows - 1] + 1
            self._progress.records += part.columns.rows
            self._progress.bytes += part.columns.nbytes
        self._update_lag()
        await self._on_copied(copied)

    def _update_lag(self) -> None:
        lags = [self._consumer.current_lag(partition) for partition in self._assigned]
        if any(lag is not None for lag in lags):
            self._progress.lag = sum(lag or 0 for lag in lags)


async def _started(producer: KafkaProducer, clients: AsyncExitStack) -> KafkaProducer:
    clients.push_async_callback(producer.stop, CLOSE_SECONDS)
    await producer.start()
    return producer


def offsets_topic(flow: Flow) -> str:
    """Return the name of the target's topic that stores the offsets up to which a flow was copied."""
    return flow.config.offset_storage_topic or f"mm2-offsets.{flow.name.source}.internal"


def transactional_id(flow: Flow) -> str:
    """Return the transactional id of Kafka Connect's first task of this flow, so that the copier fences that task."""
    return f"{flow.name.source}-mm2-MirrorSourceConnector-0"


def _consumer_configs(flow: Flow, properties: MirrorProperties) -> dict[str, Any]:
    """Return the configs of the consumer of the source. Unlike MirrorMaker 2, it skips aborted records by default."""
    own = properties.client_configs("consumer", flow.name.source, flow.name)
    defaults = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    return {**defaults, **own, "group.id": None, "enable.auto.commit": False}


def _run_bounds(offsets: memoryview, first: int, end: int) -> list[int]:
    """Return the rows at which runs of consecutive offsets begin, and `end`."""
    if offsets[end - 1] - offsets[first] == end - 1 - first:
        return [first, end]
    gaps = [row for row in range(first + 1, end) if offsets[row] != offsets[row - 1] + 1]
    return [first, *gaps, end]


def _is_plain(columns: Columns) -> bool:
    """Return whether no record has headers, and all have timestamps (messages of Kafka 0.9 and earlier have none)."""
    headers = columns.headers
    return (headers is None or not headers.offsets[columns.rows]) and min(columns.timestamps[: columns.rows]) >= 0


def _rows(column: BinaryColumn, rows: int) -> list[bytes | None]:
    if column.null_count:
        return [column.get(row) for row in range(rows)]
    data, bounds = bytes(column.data), column.offsets[column.first : column.first + rows + 1].tolist()
    return [data[start:end] for start, end in pairwise(bounds)]


def _headers(column: HeadersColumn | None, rows: int) -> list[list[tuple[str, bytes | None]]]:
    """Return the headers of each row."""
    if column is None:
        return [[] for _ in range(rows)]
    bounds = column.offsets[: rows + 1].tolist()
    keys = [(key or b"").decode("utf-8", "replace") for key in _rows(column.keys, bounds[-1])]
    headers = list(zip(keys, _rows(column.values, bounds[-1]), strict=True))
    return [headers[start:end] for start, end in pairwise(bounds)]
