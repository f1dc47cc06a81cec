"""The producer's batches, and the queues that contain them. Kafka's `ProducerBatch`."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.client.core.futures import ProduceRequestResult
from ottla.client.core.metadata import Cluster
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.records.appender import OpenBatch, PartitionAppender, TopicAppender
from ottla.records.batch import HEADER_BYTES, BatchHeader, read_header, write_header
from ottla.records.builder import BatchBuilder

Headers = Sequence[tuple[str, bytes | None]]

NO_SEQUENCE: Final = -1


class ProducerBatch:
    """Records of one partition that are sent together. Records can be appended until the batch is full or closed."""

    __slots__ = (
        "attempts",
        "base_sequence",
        "buffer",
        "created",
        "data",
        "held_bytes",
        "last_attempt",
        "last_error",
        "open",
        "outcome",
        "producer_epoch",
        "producer_id",
        "tp",
    )

    def __init__(self, tp: TopicPartition, builder: BatchBuilder, buffer: bytearray | None, created: float) -> None:
        self.tp: TopicPartition = tp
        self.buffer: bytearray | None = buffer
        """The buffer from the pool; None after its release, or for a part of a split batch."""
        self.held_bytes: int = 0
        """The bytes that the pool counts as used by this batch after `shrink`."""
        self.outcome: ProduceRequestResult = ProduceRequestResult(tp)
        self.open: OpenBatch = OpenBatch(builder, self.outcome)
        self.created: float = created
        self.data: memoryview | None = None
        """The encoded batch; None before `finish`, and after its memory was released."""
        self.attempts: int = 0
        self.last_attempt: float = 0.0
        self.last_error: KafkaError | None = None
        self.producer_id: int = -1
        self.producer_epoch: int = -1
        self.base_sequence: int = NO_SEQUENCE

    @property
    def count(self) -> int:
        """The number of records."""
        return self.open.builder.count

    @property
    def size(self) -> int:
        """The size of the encoded batch in bytes or, if it is not encoded, its size before compression."""
        return self.open.builder.estimated_size if self.data is None else self.data.nbytes

    @property
    def largest_record(self) -> int:
        """The size of the largest record in bytes."""
        return self.open.builder.largest

    @property
    def compression_rate(self) -> float:
        """The size on the wire divided by the size before compression."""
        return self.size / self.open.builder.estimated_size

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record in the batch."""
        return (self.base_sequence + self.count - 1) & 0x7FFFFFFF

    def finish(self, transactional: bool) -> None:
        """Encode the batch, unless that has been done. `transactional` sets the flag in its header."""
        if self.data is None:
            self.data = self.open.builder.close(
                self.producer_id, self.producer_epoch, self.base_sequence, transactional=transactional
            )

    def renumber(self) -> None:
        """Write the current producer id, epoch and sequence number into the encoded batch."""
        if self.data is not None:
            header: BatchHeader = read_header(self.data, 0)
            write_header(
                self.data,
                0,
                header._replace(
                    producer_id=self.producer_id,
                    producer_epoch=self.producer_epoch,
                    base_sequence=self.base_sequence,
                ),
            )


CLOSED: Final = OpenBatch(BatchBuilder(bytearray(61)), None)
"""A closed batch, which stands for "no open batch"."""
CLOSED.close()


class PartitionQueue(PartitionAppender):
    """The batches of one partition, the next one to send first. Only the last one may be open."""

    __slots__ = ("batches", "muted", "tp")

    def __init__(self, tp: TopicPartition) -> None:
        super().__init__(CLOSED)
        self.tp: TopicPartition = tp
        self.batches: deque[ProducerBatch] = deque()
        self.muted: bool = False
        """Whether batches must wait because one is in flight, so that their order is preserved."""

    def has_room(self, size: int) -> bool:
        """Return whether a record of `size` bytes (including a batch header) fits into the open batch."""
        builder = self.open.builder
        return not self.open.closed and builder.position + size - HEADER_BYTES <= builder.limit


class Ready(NamedTuple):
    """A serialized record, and the queue of its partition."""

    queue: PartitionQueue
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    size: int
    """The maximum size in bytes of a batch that contains only this record."""


class TopicQueues(TopicAppender):
    """The queues of a topic's partitions, and the sticky partition (KIP-794)."""

    __slots__ = ("available",)

    def __init__(self, topic: str, count: int) -> None:
        super().__init__(count, [PartitionQueue(TopicPartition(topic, i)) for i in range(count)])
        self.available: list[int] = []
        """The numbers of the partitions that have a leader; all partitions if none has one."""

    def update(self, cluster: Cluster, topic: str, version: int) -> None:
        """Update the partitions from the metadata."""
        partitions = cluster.partitions_of(topic)
        for number in range(len(self.queues), len(partitions)):
            self.queues.append(PartitionQueue(TopicPartition(topic, number)))
        self.count: int = len(partitions)
        self.available = [p.partition for p in partitions if p.leader in cluster.nodes] or list(range(self.count))
        self.version = version
