"""An internal topic as the log of a coordinator: finds the partition of a key, appends to it, and replays it.

A key (for example a group id) belongs to the partition that its hash determines. A broker coordinates the keys of the
partitions that it leads. When another broker becomes the leader, it restores the keys' state by replaying the
partition.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ottla import errors
from ottla.clock import Clock
from ottla.cluster.image.cluster_image import NO_LEADER, ClusterImage
from ottla.coordinator.runtime.loader import CoordinatorShards, Shards
from ottla.coordinator.runtime.result import CoordinatorRecord
from ottla.futures import shielded
from ottla.model import ProducerIdAndEpoch, TopicPartition
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.records.builder import BatchBuilder, record_size_upper_bound
from ottla.records.decoder import records as records_of
from ottla.replication.partition import Partition

log = logging.getLogger("ottla.coordinator")


def partition_of(key: str, partitions: int) -> int:
    """Return the partition number of a key such as a group id: the absolute value of Java's String.hashCode, modulo the
    number of partitions.
    """
    value = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    # as in Kafka's Utils.abs, the lowest int, which has no positive counterpart, becomes 0
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


class CoordinatorLog:
    """The partitions of one internal topic that this broker leads. Not thread-safe: event loop only."""

    def __init__(self, topic: str, clock: Clock, image: Callable[[], ClusterImage], state: Shards) -> None:
        self._topic = topic
        self._clock = clock
        self._image = image
        self._loading: int | None = None
        self.shards = CoordinatorShards(topic, state)

    def index(self, key: str) -> int:
        """Return the number of a key's partition. Raises NotCoordinatorError if the topic does not exist yet."""
        topic = self._image().topics.get(self._topic)
        if topic is None:
            raise errors.NotCoordinatorError
        return partition_of(key, len(topic.partitions))

    def leader(self, key: str) -> int:
        """Return the id of the broker that leads a key's partition, according to this broker's cluster image; NO_LEADER
        if there is none. Raises NotCoordinatorError if the topic does not exist yet.
        """
        image = self._image().partition(TopicPartition(self._topic, self.index(key)))
        return NO_LEADER if image is None else image.leader

    def partition_for(self, key: str) -> int:
        """Return the number of the partition that has the state of a key.

        While a partition is being replayed, return its number without using the cluster image. The image may not have
        the topic yet, because a broker may become leader before it receives the topic.
        """
        return self.index(key) if self._loading is None else self._loading

    def partition(self, key: str) -> Partition:
        """Return the partition of a key. Raises NotCoordinatorError or CoordinatorLoadInProgressError."""
        return self.shards.partition(self.index(key))

    def append(
        self, key: str, records: Sequence[CoordinatorRecord], producer: ProducerIdAndEpoch | None = None
    ) -> asyncio.Future[None] | None:
        """Append records as one batch to the key's partition. With `producer`, the batch belongs to its transaction.

        Return None if they are committed at once, else a future that completes when they are. Raises the errors of
        `partition` and `Partition.append`.
        """
        partition = self.partition(key)
        appended = partition.append(_batch(records, self._clock.now_ms(), producer), from_client=False)
        return partition.when_committed(appended.last_offset + 1)

    def when_committed(self, key: str) -> asyncio.Future[None] | None:
        """Return None if everything in the partition of a key is committed, else a future that completes when it is."""
        partition = self.partition(key)
        return partition.when_committed(partition.log.log_end_offset)

    def replay_batch(self, index: int, data: memoryview, replay: Callable[[bytes, bytes | None], None]) -> int:
        """Replay the records of one batch, and return the number of replayed ones.

        Records without a key are skipped, and malformed ones are logged and skipped.
        """
        count = 0
        self._loading = index
        try:
            for record in records_of(data):
                if record.key is None:
                    continue
                try:
                    replay(record.key, record.value)
                    count += 1
                except errors.KafkaError as error:
                    tp = TopicPartition(self._topic, index)
                    log.error(
                        "Skipping malformed record at offset %d of %s, so the state in it is ignored: %s",
                        record.offset,
                        tp,
                        error,
                    )
        finally:
            self._loading = None
        return count


def to_client_error(error: errors.KafkaError) -> errors.KafkaError:
    """Translate the error of a failed append into the error that clients expect.

    A coordinator error makes them look up the coordinator again, or retry. If the records are too large, which a retry
    does not change, the result is UnknownServerError.
    """
    if isinstance(error, errors.CoordinatorLoadInProgressError):
        return error
    if isinstance(error, errors.NotLeaderOrFollowerError | errors.KafkaStorageError | errors.NotCoordinatorError):
        return errors.NotCoordinatorError()
    if isinstance(
        error, errors.MessageTooLargeError | errors.RecordListTooLargeError | errors.InvalidCommitOffsetSizeError
    ):
        return errors.UnknownServerError(error.message)
    return errors.CoordinatorNotAvailableError()


async def wait_committed(committed: asyncio.Future[None], seconds: float | None = None) -> None:
    """Wait until an append is committed.

    Raises the error of `to_client_error` if it fails, and CoordinatorNotAvailableError if it takes longer than
    `seconds`; None: no limit.
    """
    try:
        async with asyncio.timeout(seconds):
            await shielded(committed)  # other requests may wait for the same future
    except TimeoutError:
        raise errors.CoordinatorNotAvailableError("the append was not replicated in time") from None
    except errors.KafkaError as error:
        raise to_client_error(error) from error


def _batch(records: Sequence[CoordinatorRecord], now_ms: int, producer: ProducerIdAndEpoch | None) -> memoryview:
    size = sum(record_size_upper_bound(len(r.key), len(r.value or b"")) for r in records)
    builder = BatchBuilder(bytearray(size))
    for record in records:
        fits = builder.append(now_ms, record.key, record.value)
        assert fits, "the upper bound of a record's size is too low"
    if producer is None:
        return builder.close(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    return builder.close(producer.id, producer.epoch, transactional=True)
