"""An internal topic as the log of a coordinator: which partition a key lives in, appending to it, and reading it again.

What coordinators share: keys are spread over the topic's partitions by their hash, this broker coordinates those keys
whose partition it leads, and what was appended is what the next leader finds. Loop thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ottla.clock import Clock
from ottla.cluster.image.cluster_image import NO_LEADER, ClusterImage
from ottla.coordinator.runtime.loader import Shards, State
from ottla.coordinator.runtime.result import Record
from ottla.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaError,
    KafkaStorageError,
    MessageTooLargeError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    RecordListTooLargeError,
    UnknownServerError,
)
from ottla.model import TopicPartition
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.records.batch import records as records_of
from ottla.records.builder import BatchBuilder, record_size_upper_bound
from ottla.replication.partition import Partition

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


class CoordinatorLog:
    """One internal topic, as far as this broker leads it."""

    def __init__(self, topic: str, clock: Clock, image: Callable[[], ClusterImage], state: State) -> None:
        self._topic = topic
        self._clock = clock
        self._image = image
        self._reading: int | None = None
        self.shards = Shards(topic, state)

    def close(self) -> None:
        """This broker coordinates nothing any more."""
        self.shards.close()

    def index(self, key: str) -> int:
        """The number of a key's partition. NotCoordinatorError before the topic is there."""
        topic = self._image().topics.get(self._topic)
        if topic is None:
            raise NotCoordinatorError
        return partition_of(key, len(topic.partitions))

    def leader(self, key: str) -> int:
        """The broker that leads a key's partition, as far as this one knows."""
        known = self._image().partition(TopicPartition(self._topic, self.index(key)))
        return NO_LEADER if known is None else known.leader

    def kept_in(self, key: str) -> int:
        """Of which partition something is that is kept in memory.

        What is read is of the partition that is read: a leader may hear of its role before it hears of the topic.
        """
        return self.index(key) if self._reading is None else self._reading

    def partition(self, key: str) -> Partition:
        """The partition of a key. NotCoordinatorError where another broker leads it; others while it is being read."""
        return self.shards.partition(self.index(key))

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

    def read_batch(self, index: int, data: memoryview, replay: Callable[[bytes, bytes | None], None]) -> int:
        """Replay the records of one batch; how many. One that cannot be read must not cost all the others."""
        count = 0
        self._reading = index
        try:
            for record in records_of(data):
                if record.key is None:
                    continue
                try:
                    replay(record.key, record.value)
                    count += 1
                except KafkaError as error:
                    log.error("offset %d of %s is left out: %s", record.offset, self._topic, error)
        finally:
            self._reading = None
        return count


def told(error: KafkaError) -> KafkaError:
    """What a client is told when its coordinator could not write: to look for another one, or to try again."""
    if isinstance(error, CoordinatorLoadInProgressError):
        return error
    if isinstance(error, NotLeaderOrFollowerError | KafkaStorageError | NotCoordinatorError):
        return NotCoordinatorError()
    if isinstance(error, MessageTooLargeError | RecordListTooLargeError):
        return UnknownServerError(error.message)
    return CoordinatorNotAvailableError()


async def until_safe(safe: asyncio.Future[None], seconds: float | None = None) -> None:
    """Wait until an append is safe. Raises what a client is told where it fails, or takes too long."""
    try:
        async with asyncio.timeout(seconds):
            await asyncio.shield(safe)  # others may wait for the same
    except TimeoutError:
        raise CoordinatorNotAvailableError("the append was not replicated in time") from None
    except KafkaError as error:
        raise told(error) from error


def _batch(records: Sequence[Record], now_ms: int, producer: Producer | None) -> memoryview:
    room = sum(record_size_upper_bound(len(r.key), len(r.value or b"")) for r in records)
    builder = BatchBuilder(bytearray(room))
    for record in records:
        fits = builder.append(now_ms, record.key, record.value)
        assert fits, "the upper bound of a record's size is too low"
    if producer is None:
        return builder.close(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    return builder.close(producer.id, producer.epoch, transactional=True)
