"""An internal topic as the log of a coordinator: which partition a key lives in, appending to it, and reading it again.

What coordinators share: keys are spread over the topic's partitions by their hash, this broker coordinates those keys
whose partition it leads, and what was appended is what a restart finds. Loop thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ottla.clock import Clock
from ottla.cluster.metadata import ClusterImage
from ottla.coordinator.effects import Record
from ottla.errors import KafkaError, NotCoordinatorError
from ottla.model import TopicPartition
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.records.batch import records as records_of
from ottla.records.builder import BatchBuilder, record_size_upper_bound
from ottla.replication.partition import Partition
from ottla.replication.partitions import Partitions

log = logging.getLogger("ottla.coordinator")


class Producer(NamedTuple):
    """In whose transaction records are written."""

    id: int
    epoch: int


def partition_of(key: str, partitions: int) -> int:
    """The partition that a group or a transactional id lives in: Java's String.hashCode, made positive, modulo."""
    value = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    # Kafka's Utils.abs: the lowest int has no positive twin and becomes 0
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


class StateLog:
    """One internal topic, as far as this broker leads it."""

    def __init__(self, topic: str, clock: Clock, partitions: Partitions, image: Callable[[], ClusterImage]) -> None:
        self._topic = topic
        self._clock = clock
        self._partitions = partitions
        self._image = image
        self._closed = False

    def close(self) -> None:
        """This broker coordinates nothing any more."""
        self._closed = True

    def index(self, key: str) -> int:
        """The number of a key's partition. NotCoordinatorError before the topic is there."""
        topic = self._image().topics.get(self._topic)
        if topic is None:
            raise NotCoordinatorError
        return partition_of(key, len(topic.partitions))

    def partition(self, key: str) -> Partition:
        """The partition of a key. NotCoordinatorError where another broker leads it."""
        if self._closed:
            raise NotCoordinatorError
        partition = self._partitions.get(TopicPartition(self._topic, self.index(key)))
        if partition is None:
            raise NotCoordinatorError
        return partition

    def append(
        self, key: str, records: Sequence[Record], producer: Producer | None = None
    ) -> asyncio.Future[None] | None:
        """Append records as one batch, in a producer's transaction where one is given.

        None when they are safe at once, else what becomes done when they are.
        """
        partition = self.partition(key)
        appended = partition.append(_batch(records, self._clock.now_ms(), producer), from_client=False)
        return partition.safe(appended.last_offset + 1)

    def safe(self, key: str) -> asyncio.Future[None] | None:
        """None when everything appended so far for a key is safe, else what becomes done when it is."""
        partition = self.partition(key)
        return partition.safe(partition.log.log_end_offset)

    def led(self) -> Iterator[Partition]:
        """The partitions of the topic that this broker leads."""
        return (p for p in self._partitions if p.topic_partition.topic == self._topic)

    def read_batch(self, data: memoryview, replay: Callable[[bytes, bytes | None], None]) -> int:
        """Replay the records of one batch; how many. One that cannot be read must not cost the broker its start."""
        count = 0
        for record in records_of(data):
            if record.key is None:
                continue
            try:
                replay(record.key, record.value)
                count += 1
            except KafkaError as error:
                log.error("offset %d of %s is left out: %s", record.offset, self._topic, error)
        return count


def _batch(records: Sequence[Record], now_ms: int, producer: Producer | None) -> memoryview:
    room = sum(record_size_upper_bound(len(r.key), len(r.value or b"")) for r in records)
    builder = BatchBuilder(bytearray(room))
    for record in records:
        fits = builder.append(now_ms, record.key, record.value)
        assert fits, "the upper bound of a record's size is too low"
    if producer is None:
        return builder.close(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    return builder.close(producer.id, producer.epoch, transactional=True)
