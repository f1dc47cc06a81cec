"""Appending to and reading `__remote_log_metadata`, whose partitions this or another broker leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from ottla import errors
from ottla.clock import Clock
from ottla.cluster.image.cluster_image import NO_LEADER, ClusterImage
from ottla.cluster.interbroker.client import RequestSender
from ottla.futures import shielded
from ottla.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, REMOTE_LOG_METADATA, TopicPartition
from ottla.page_cache import when_cached
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.records.builder import BatchBuilder, record_size_upper_bound
from ottla.replication.partition import ALL_REPLICAS, Partition
from ottla.replication.partitions import Partitions

PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
LIST_OFFSETS_VERSION: Final = 7
READ_BYTES: Final = 1024 * 1024
POLL_MS: Final = 500
PURPOSE: Final = "remote-log-metadata"
CONSUMER: Final = -1


class RemoteLogMetadataTopic:
    """Appends to the topic and reads it, on this broker or by requests to the broker that leads a partition.

    Not thread-safe: event loop only.
    """

    def __init__(
        self,
        partitions: Partitions,
        image: Callable[[], ClusterImage],
        sender: RequestSender,
        clock: Clock,
        timeout_seconds: float,
    ) -> None:
        self._partitions = partitions
        self._image = image
        self._sender = sender
        self._clock = clock
        self._timeout = timeout_seconds

    @property
    def partition_count(self) -> int:
        """The number of partitions; 0 if the topic does not exist yet."""
        topic = self._image().topics.get(REMOTE_LOG_METADATA)
        return 0 if topic is None else len(topic.partitions)

    def leader(self, number: int) -> int:
        """Return the id of a partition's leader; NO_LEADER if there is none."""
        partition = self._image().partition(TopicPartition(REMOTE_LOG_METADATA, number))
        return NO_LEADER if partition is None else partition.leader

    def led(self, number: int) -> Partition | None:
        """Return the partition if this broker leads it, else None."""
        return self._partitions.get_leader(TopicPartition(REMOTE_LOG_METADATA, number))

    async def append(self, number: int, value: bytes) -> int:
        """Append a record, wait until all in-sync replicas have it, and return its offset. Raises KafkaError; the
        record may have been appended nevertheless.
        """
        builder = BatchBuilder(bytearray(record_size_upper_bound(0, len(value))))
        fits = builder.append(self._clock.now_ms(), None, value)
        assert fits, "the upper bound of a record's size is too low"
        batch = builder.close(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        partition = self.led(number)
        if partition is None:
            return await self._produce(number, batch)
        appended = partition.append(batch, from_client=False)
        committed = partition.when_committed(appended.last_offset + 1)
        if committed is not None:
            try:
                async with asyncio.timeout(self._timeout):
                    await shielded(committed)
            except TimeoutError:
                raise errors.RequestTimedOutError(f"{partition.topic_partition}: not replicated in time") from None
        return appended.base_offset

    async def _produce(self, number: int, batch: memoryview) -> int:
        topic = TopicProduceData(
            name=REMOTE_LOG_METADATA, partition_data=[PartitionProduceData(index=number, records=batch)]
        )
        request = ProduceRequest(acks=ALL_REPLICAS, timeout_ms=int(self._timeout * 1000), topic_data=[topic])
        leader = self._known_leader(number)
        response = await self._sender.send(
            leader, request, PRODUCE_VERSION, timeout=self._timeout, purpose=f"{PURPOSE}-append"
        )
        result = response.responses[0].partition_responses[0]
        if result.error_code:
            raise errors.for_code(result.error_code)(result.error_message or "")
        return result.base_offset

    def _known_leader(self, number: int) -> int:
        leader = self.leader(number)
        if leader == NO_LEADER:
            raise errors.LeaderNotAvailableError(f"{REMOTE_LOG_METADATA}-{number} has no leader")
        return leader

    async def read(self, partition: Partition, offset: int) -> memoryview:
        """Return batches of a partition that this broker leads, from the one with `offset` on and below the high
        watermark, at most READ_BYTES unless the first is larger. If `offset` was deleted, begin at the log start.
        """
        log = partition.log
        offset = max(offset, log.log_start_offset)
        high_watermark = log.high_watermark

        def read() -> bytes:
            with log.read(offset, READ_BYTES, max_offset=high_watermark) as batches:
                return batches.read()

        return memoryview(await when_cached(read)) if offset < high_watermark else memoryview(b"")

    async def fetch(self, leader: int, offsets: Mapping[int, int]) -> dict[int, memoryview | errors.KafkaError]:
        """Return batches of partitions that another broker leads, or their errors, by number.

        If there are no records, the leader waits up to POLL_MS. Raises KafkaError if the whole request fails.
        """
        partitions = [
            FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=READ_BYTES)
            for number, offset in offsets.items()
        ]
        request = FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=POLL_MS,
            min_bytes=1,
            max_bytes=4 * READ_BYTES,
            topics=[FetchTopic(topic=REMOTE_LOG_METADATA, partitions=partitions)],
        )
        timeout = self._timeout + POLL_MS / 1000
        response = await self._sender.send(leader, request, FETCH_VERSION, timeout=timeout, purpose=PURPOSE)
        if response.error_code:
            raise errors.for_code(response.error_code)
        slices: dict[int, memoryview | errors.KafkaError] = {}
        for topic in response.responses:
            for data in topic.partitions:
                if data.error_code:
                    slices[data.partition_index] = errors.for_code(data.error_code)()
                else:
                    assert data.records is None or isinstance(data.records, memoryview), (
                        "received records are in memory"
                    )
                    slices[data.partition_index] = memoryview(b"") if data.records is None else data.records
        return slices

    async def start_offset(self, number: int) -> int:
        """Return the log start offset of a partition that another broker leads. Raises KafkaError."""
        return await self._list_offset(number, EARLIEST_TIMESTAMP)

    async def end_offset(self, number: int) -> int:
        """Return the high watermark of a partition that another broker leads. Raises KafkaError, also while it may be
        lower than that of the previous leader.
        """
        return await self._list_offset(number, LATEST_TIMESTAMP)

    async def _list_offset(self, number: int, timestamp: int) -> int:
        item = ListOffsetsPartition(partition_index=number, timestamp=timestamp)
        topics = [ListOffsetsTopic(name=REMOTE_LOG_METADATA, partitions=[item])]
        request = ListOffsetsRequest(replica_id=CONSUMER, topics=topics)
        leader = self._known_leader(number)
        response = await self._sender.send(
            leader, request, LIST_OFFSETS_VERSION, timeout=self._timeout, purpose=PURPOSE
        )
        result = response.topics[0].partitions[0]
        if result.error_code:
            raise errors.for_code(result.error_code)
        return result.offset
