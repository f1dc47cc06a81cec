"""Producer id, epoch and sequence numbers, by which brokers detect duplicates. Kafka's `TransactionManager`.

Every batch has the producer id, the epoch and the sequence number of its first record; the numbers of a partition have
no gaps. A retried batch usually keeps its numbers. But if a batch is lost, brokers reject the batches after it because
of the gap. The epoch is then bumped, and the partition's pending batches are numbered from zero; a transaction with a
lost batch, however, must be aborted. Not thread-safe: event loop only.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from ottla import errors
from ottla.client.producer.batch import NO_SEQUENCE, ProducerBatch
from ottla.model import TopicPartition
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

log = logging.getLogger("ottla.client")

NO_PRODUCER_ID: Final = -1
MAX_EPOCH: Final = 0x7FFF
MAX_IN_FLIGHT: Final = 5
"""The maximum number of batches in flight per partition. A broker remembers that many batches of a producer, to detect
duplicates.
"""


class Sequences:
    """The sequence numbers of one partition."""

    __slots__ = ("epoch", "in_flight", "last_acked", "next", "producer_id", "unresolved")

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.next = 0
        self.last_acked = NO_SEQUENCE
        self.in_flight: list[ProducerBatch] = []
        """The numbered batches that have no result yet, in the order of their numbers."""
        self.unresolved = False
        """Whether a batch has failed and it is unknown whether it was written. New batches then wait until all others
        have results.
        """


class TransactionManager:
    """The producer id, the epoch and the sequence numbers of an idempotent producer."""

    def __init__(
        self, send: Callable[[InitProducerIdRequest], Awaitable[InitProducerIdResponse]], *, transactional: bool = False
    ) -> None:
        self.transactional = transactional
        """Whether the producer is transactional.

        Only the coordinator then bumps the epoch, so lost sequence numbers set `broken` until the transaction has
        ended.
        """
        self.broken: bool = False
        """Whether a gap in the numbers requires a new epoch from the coordinator."""
        self.producer_id: int = NO_PRODUCER_ID
        self.epoch: int = -1
        self._send = send
        self._partitions: dict[TopicPartition, Sequences] = {}

    @property
    def has_producer_id(self) -> bool:
        """Whether there is a producer id, so that batches can be numbered."""
        return self.producer_id != NO_PRODUCER_ID

    async def get_producer_id(self) -> None:
        """Request a producer id from any broker, for a producer that is only idempotent. Raises the broker's and the
        connection's errors.
        """
        response = await self._send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF))
        if response.error_code:
            raise errors.for_code(response.error_code)
        self.producer_id = response.producer_id
        self.epoch = response.producer_epoch
        log.debug("Received producer_id=%d with epoch=%d", self.producer_id, self.epoch)
        for sequences in self._partitions.values():
            if sequences.in_flight:
                self._restart_sequences(sequences)

    def restart(self, producer_id: int, epoch: int) -> None:
        """Use the producer id and epoch that the coordinator has returned. No batch may be in flight."""
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._partitions.clear()
        self.producer_id, self.epoch = producer_id, epoch
        self.broken = False

    def _sequences(self, tp: TopicPartition) -> Sequences:
        sequences = self._partitions.get(tp)
        if sequences is None:
            sequences = self._partitions[tp] = Sequences(self.producer_id, self.epoch)
        return sequences

    def may_send(self, batch: ProducerBatch) -> bool:
        """Return whether a batch may be sent now, considering the order of sequence numbers."""
        if not self.has_producer_id:
            return False
        sequences = self._sequences(batch.tp)
        if batch.base_sequence != NO_SEQUENCE:
            # A retry: only the first of those in flight, otherwise the broker would see a gap.
            return not sequences.in_flight or sequences.in_flight[0] is batch
        return not sequences.unresolved and len(sequences.in_flight) < MAX_IN_FLIGHT

    def number(self, batch: ProducerBatch) -> None:
        """Give a batch its sequence numbers, unless it has some: a retry, or a part of a split batch."""
        if batch.base_sequence != NO_SEQUENCE:
            return
        sequences = self._sequences(batch.tp)
        if not sequences.in_flight and (sequences.producer_id, sequences.epoch) != (self.producer_id, self.epoch):
            self._restart(sequences)
        batch.producer_id = sequences.producer_id
        batch.producer_epoch = sequences.epoch
        batch.base_sequence = sequences.next
        sequences.next = (sequences.next + batch.count) & 0x7FFFFFFF
        sequences.in_flight.append(batch)

    def acknowledged(self, batch: ProducerBatch) -> None:
        """Remove an acknowledged batch from those in flight, and record its last sequence number."""
        sequences = self._sequences(batch.tp)
        if batch in sequences.in_flight:
            sequences.in_flight.remove(batch)
        sequences.last_acked = batch.last_sequence
        self._resolve(batch.tp, sequences)

    def failed(self, batch: ProducerBatch, certain: bool) -> None:
        """Handle the failure of a batch. If `certain` is set, the broker has rejected it; otherwise it may have been
        written.
        """
        if batch.base_sequence == NO_SEQUENCE:
            return
        sequences = self._sequences(batch.tp)
        if batch in sequences.in_flight:
            sequences.in_flight.remove(batch)
        if certain:
            self._renumber(batch.tp, sequences)
        else:
            sequences.unresolved = True
            self._resolve(batch.tp, sequences)

    def split(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Handle the split of a rejected batch: its parts get its sequence numbers."""
        sequences = self._sequences(batch.tp)
        if batch not in sequences.in_flight:
            return
        place = sequences.in_flight.index(batch)
        sequences.in_flight[place : place + 1] = parts
        sequence = batch.base_sequence
        for part in parts:
            part.producer_id, part.producer_epoch = batch.producer_id, batch.producer_epoch
            part.base_sequence = sequence
            sequence = (sequence + part.count) & 0x7FFFFFFF

    def may_retry(self, batch: ProducerBatch, error: errors.KafkaError) -> bool:
        """Return whether a batch may be retried after an error that is not retriable otherwise, such as one about
        sequence numbers. If necessary, it gets new numbers first.
        """
        sequences = self._sequences(batch.tp)
        if isinstance(error, errors.OutOfOrderSequenceNumberError):
            # An earlier batch has failed and will be retried; if there is none, the broker has lost the producer's
            # state.
            if sequences.in_flight and sequences.in_flight[0] is not batch:
                return True
            self._renumber(batch.tp, sequences)
            return not self.transactional
        if self.transactional:
            return False
        if isinstance(error, (errors.UnknownProducerIdError, errors.InvalidProducerEpochError)):
            self._renumber(batch.tp, sequences)
            return True
        return False

    def _resolve(self, tp: TopicPartition, sequences: Sequences) -> None:
        """If the result of a batch is unknown, and no batch is in flight any more, renumber unless the last number
        has been acknowledged.
        """
        if not sequences.unresolved or sequences.in_flight:
            return
        sequences.unresolved = False
        if (sequences.last_acked + 1) & 0x7FFFFFFF != sequences.next:
            self._renumber(tp, sequences)

    def _renumber(self, tp: TopicPartition, sequences: Sequences) -> None:
        """Bump the epoch (or drop the producer id if its epochs are exhausted), and number the pending batches of this
        partition from zero (KIP-360). A transactional producer sets `broken` instead.
        """
        if self.transactional:
            self.broken = True
            return
        self._raise_epoch()
        self._restart_sequences(sequences)
        log.info(
            "%s: restarting the sequence numbers at 0 with %s, because a batch failed or the broker has lost the "
            "producer's state",
            tp,
            f"producer epoch {sequences.epoch}" if self.has_producer_id else "a new producer id",
        )

    def _restart_sequences(self, sequences: Sequences) -> None:
        """Number the pending batches of this partition from zero."""
        self._restart(sequences)
        for batch in sequences.in_flight:
            batch.producer_id, batch.producer_epoch = sequences.producer_id, sequences.epoch
            batch.base_sequence = sequences.next
            sequences.next = (sequences.next + batch.count) & 0x7FFFFFFF
            batch.renumber()

    def _restart(self, sequences: Sequences) -> None:
        sequences.producer_id = self.producer_id
        sequences.epoch = self.epoch
        sequences.next = 0
        sequences.last_acked = NO_SEQUENCE
        sequences.unresolved = False

    def _raise_epoch(self) -> None:
        if self.epoch >= MAX_EPOCH:
            # The epoch is exhausted: nothing is sent until the sender has a new producer id.
            self.producer_id = NO_PRODUCER_ID
            self.epoch = -1
        else:
            self.epoch += 1
