"""Batches of idempotent producers that this broker rejected with a retriable error and expects again.

A producer keeps several batches in flight. If the first is rejected for a passing reason (no leader, too few in-sync
replicas) and the reason is gone when the second arrives, the second is out of order. librdkafka takes
OUT_OF_ORDER_SEQUENCE_NUMBER as a reason to bump its epoch and to send everything again, also what is in the log
although the response was an error: duplicates. Apache Kafka 3.9 has this fault. Here the batches behind get the error
of the first until that one is in the log, so that the producer sends all of them again in their order.

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
"""The maximum number of producers and partitions that are remembered; the oldest are forgotten first."""
EXPIRY_SECONDS: Final = 300.0
"""Time for which a rejected batch holds back those behind it: librdkafka's default of message.timeout.ms. After that, a
producer that gave the batch up without a new epoch gets OUT_OF_ORDER_SEQUENCE_NUMBER.
"""


class Rejection(NamedTuple):
    """One rejected batch."""

    sequence: int
    error: type[KafkaError]
    expires_at: float


class RejectedBatches:
    """The rejections of all partitions of this broker, also of those that it does not lead or know yet."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rejections: dict[tuple[TopicPartition, int], tuple[int, list[Rejection]]] = {}
        """The producer's epoch and its rejected batches in the order of arrival, by partition and producer id."""

    def __bool__(self) -> bool:
        return bool(self._rejections)

    def add(self, tp: TopicPartition, header: BatchHeader, error: KafkaError) -> None:
        """Remember that a batch was answered with `error`; errors that are not retriable are ignored.

        So is CORRUPT_MESSAGE, as the producer id and sequence of such a batch cannot be relied on.
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
        """Raise the error of a rejected batch that has to come before this one.

        Batches that are in the log by now are forgotten: the response that rejected them was wrong, or they came again.
        """
        key = tp, header.producer_id
        if key not in self._rejections:
            return
        epoch, rejections = self._rejections[key]
        if header.producer_epoch < epoch:
            return  # fenced: the log will raise the error
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
    """Return whether a sequence comes after another one; sequences start again at 0 after 2^31-1."""
    return 0 < (sequence - other) & MAX_SEQUENCE <= MAX_SEQUENCE // 2
