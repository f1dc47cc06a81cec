"""Batches of idempotent producers that this broker has rejected with a retriable error, so that they will be sent
again.

A producer has several batches in flight. If the first one is rejected for a temporary reason (no leader, too few
in-sync replicas) that no longer exists when the second one arrives, the second one is out of order. After
OUT_OF_ORDER_SEQUENCE_NUMBER, librdkafka bumps its epoch and sends all batches again, including those that are in the
log although their response was an error. This creates duplicates; Apache Kafka 3.9 has this fault. Here, later batches
get the error of the first one until the first one is in the log, so that the producer sends all of them again in order.

Not thread-safe: event loop only.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.clock import Clock
from ottla.errors import CorruptMessageError, KafkaError
from ottla.model import TopicPartition
from ottla.records.batch import NO_SEQUENCE, BatchHeader
from ottla.storage.producer_state import BATCHES_KEPT, MAX_SEQUENCE, ProducerStates

MAX_PRODUCERS: Final = 10_000
"""Maximum number of pairs of producer and partition that are kept; the oldest are dropped first."""
EXPIRY_SECONDS: Final = 300.0
"""Time in seconds for which later batches get the error of a rejected batch: librdkafka's default of
message.timeout.ms. After it, a producer that has given up the batch without bumping its epoch gets
OUT_OF_ORDER_SEQUENCE_NUMBER.
"""


class Rejection(NamedTuple):
    """A rejected batch: its base sequence, its error, and when it is forgotten (seconds of the clock's `monotonic`)."""

    sequence: int
    error: type[KafkaError]
    expires_at: float


class RejectedBatches:
    """The rejected batches of all partitions, including those that this broker does not lead or know yet."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rejections: dict[tuple[TopicPartition, int], tuple[int, list[Rejection]]] = {}
        """By partition and producer id: the producer's epoch, and its rejected batches in the order of arrival."""

    def __bool__(self) -> bool:
        return bool(self._rejections)

    def add(self, tp: TopicPartition, header: BatchHeader, error: KafkaError) -> None:
        """Record that a batch was rejected with `error`.

        Batches without a producer id or sequence, or of an earlier producer epoch, are ignored. So are errors that are
        not retriable, and CORRUPT_MESSAGE, because the producer id and sequence of such a batch may be wrong.
        """
        if not header.has_producer_id or header.base_sequence == NO_SEQUENCE:
            return
        if not error.retriable or isinstance(error, CorruptMessageError):
            return
        key = tp, header.producer_id
        epoch, rejections = self._rejections.pop(key, (header.producer_epoch, []))
        if epoch < header.producer_epoch:
            epoch, rejections = header.producer_epoch, []
        if epoch == header.producer_epoch:
            rejections = [r for r in rejections if r.sequence != header.base_sequence][: BATCHES_KEPT - 1]
            expires_at = self._clock.monotonic() + EXPIRY_SECONDS
            rejections.append(Rejection(header.base_sequence, type(error), expires_at))
        self._rejections[key] = epoch, rejections
        if len(self._rejections) > MAX_PRODUCERS:
            del self._rejections[next(iter(self._rejections))]

    def check(self, tp: TopicPartition, header: BatchHeader, producers: ProducerStates) -> None:
        """Raise the error of a rejected batch that has to be appended before this one, if there is any.

        Rejected batches that have expired, or are of an earlier producer epoch, are dropped. So are those that are in
        the log by now: they were sent again, or were appended in spite of the error.
        """
        key = tp, header.producer_id
        if key not in self._rejections:
            return
        epoch, rejections = self._rejections[key]
        if header.producer_epoch < epoch:
            return  # the producer is fenced: the log will raise the error
        now = self._clock.monotonic()
        pending = [
            r
            for r in rejections
            if epoch == header.producer_epoch
            and now < r.expires_at
            and not producers.has_appended(header.producer_id, epoch, r.sequence)
        ]
        if not pending:
            del self._rejections[key]
            return
        self._rejections[key] = epoch, pending
        for rejection in pending:
            if is_behind(header.base_sequence, rejection.sequence):
                raise rejection.error(
                    f"{tp}: producer_id={header.producer_id} sent base_sequence={header.base_sequence}, but "
                    f"base_sequence={rejection.sequence} was rejected and has to be appended first"
                )


def is_behind(sequence: int, other: int) -> bool:
    """Return whether `sequence` comes after `other`. Sequences continue with 0 after 2^31-1."""
    return 0 < (sequence - other) & MAX_SEQUENCE <= MAX_SEQUENCE // 2
