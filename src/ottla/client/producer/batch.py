"""A producer's batches, and the queues in which they wait. Kafka's `ProducerBatch`."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.client.core.futures import ProduceRequestResult, RecordFuture
from ottla.client.core.metadata import Cluster
from ottla.client.producer.partitioner import StickyPartition
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.records.appender import OpenBatch
from ottla.records.batch import HEADER_BYTES, BatchHeader, read_header, write_header
from ottla.records.builder import BatchBuilder

Headers = Sequence[tuple[str, bytes | None]]

NO_SEQUENCE: Final = -1


class ProducerBatch:
    """Records of one partition that travel together. Open until it is full or drained."""

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
        self.tp = tp
        self.buffer = buffer
        """The pool's; None when it has gone back, or never was."""
        self.held_bytes = 0
        """What the pool counts for this batch after its buffer has gone back."""
        self.outcome = ProduceRequestResult(tp)
        self.open = OpenBatch(builder, self.outcome, RecordFuture)
        self.created = created
        self.data: memoryview | None = None
        """The bytes to send, from the first drain on."""
        self.attempts = 0
        self.last_attempt = 0.0
        self.last_error: KafkaError | None = None
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = NO_SEQUENCE

    @property
    def count(self) -> int:
        """Records in it."""
        return self.open.builder.count

    @property
    def size(self) -> int:
        """Bytes on the wire; before it is finished, before compression."""
        return self.open.builder.estimated_size if self.data is None else self.data.nbytes

    @property
    def largest_record(self) -> int:
        """Bytes of the largest record."""
        return self.open.builder.largest

    @property
    def compression_rate(self) -> float:
        """Size on the wire by the size before compression."""
        return self.size / self.open.builder.estimated_size

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record."""
        return (self.base_sequence + self.count - 1) & 0x7FFFFFFF

    def finish(self, transactional: bool) -> None:
        """Make the bytes to send."""
        if self.data is None:
            self.data = self.open.builder.close(
                self.producer_id, self.producer_epoch, self.base_sequence, transactional=transactional
            )

    def renumber(self) -> None:
        """Write a new producer id, epoch and sequence into finished bytes."""
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


CLOSED: Final = OpenBatch(BatchBuilder(bytearray(61)), None, RecordFuture)
"""Stands where no batch is open."""
CLOSED.close()


class PartitionQueue:
    """The batches of one partition, the oldest first; the last one may be open."""

    __slots__ = ("batches", "muted", "open", "tp")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.batches: deque[ProducerBatch] = deque()
        self.open = CLOSED
        """Where records go; closed when there is no room."""
        self.muted = False
        """One batch is on its way and the next one must wait, for the order's sake."""

    def has_room(self, size: int) -> bool:
        """Whether a record of `size` bytes (a batch's header included) still fits into the open batch."""
        builder = self.open.builder
        return not self.open.closed and builder.position + size - HEADER_BYTES <= builder.limit


class Ready(NamedTuple):
    """A record that is serialized and knows its partition."""

    queue: PartitionQueue
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    size: int
    """The most that a batch of this record alone takes."""


class TopicQueues:
    """What the producer keeps per topic: its partitions' queues and the sticky partition."""

    __slots__ = ("available", "count", "queues", "sticky", "version")

    def __init__(self, topic: str, count: int, stick_bytes: int) -> None:
        self.count = count
        self.queues = [PartitionQueue(TopicPartition(topic, i)) for i in range(count)]
        self.sticky = StickyPartition(stick_bytes)
        self.available: list[int] = []
        """Partitions with a leader."""
        self.version = -1
        """The metadata's version that `count` and `available` come from."""

    def update(self, cluster: Cluster, topic: str, version: int) -> None:
        """Follow the metadata: more partitions, other leaders."""
        partitions = cluster.partitions_of(topic)
        for number in range(len(self.queues), len(partitions)):
            self.queues.append(PartitionQueue(TopicPartition(topic, number)))
        self.count = len(partitions)
        self.available = [p.partition for p in partitions if p.leader in cluster.nodes] or list(range(self.count))
        self.version = version
