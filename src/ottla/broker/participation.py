"""Whether a partition takes part in a producer's transaction: asked before the first write to it (KIP-890).

A batch of a transaction that the coordinator does not know of would never get a marker, and read_committed would wait
for it for ever. Producers of the newer transactions have the partition taken in by the broker with their first write;
for older ones it is only looked up. Either way `check` comes in the same step of the loop as the append, so that no
marker can come in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ottla.broker.services import Services
from ottla.coordinator.state_log import Producer
from ottla.coordinator.transaction import EPOCH_PER_TRANSACTION
from ottla.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    NotCoordinatorError,
    ProducerFencedError,
    TransactionAbortableError,
)
from ottla.model import TopicPartition
from ottla.replication.partition import Partition

FENCED_SINCE = 2
"""Version of most transactional APIs that knows PRODUCER_FENCED (KIP-588)."""


@contextmanager
def in_known_terms(version: int, fenced_since: int = FENCED_SINCE) -> Iterator[None]:
    """Tell clients that do not know PRODUCER_FENCED of it as INVALID_PRODUCER_EPOCH."""
    try:
        yield
    except ProducerFencedError as error:
        raise error if version >= fenced_since else InvalidProducerEpochError(error.message) from None


class Rules(NamedTuple):
    """What the version of a request says about its client."""

    joins: bool
    """Partitions join the transaction with their first write."""
    abortable: bool
    """The client knows TRANSACTION_ABORTABLE."""
    come_again: type[KafkaError]
    """What makes a client without `joins` repeat the request a little later."""


class Writer(NamedTuple):
    """Who writes, in which transaction."""

    transactional_id: str
    producer: Producer


async def join(services: Services, writer: Writer, partitions: Iterable[TopicPartition], rules: Rules) -> None:
    """Take the partitions into the transaction, for clients that have the broker do so."""
    new = [tp for tp in partitions if rules.joins and not _is_open(services.partitions.get(tp), writer.producer)]
    if not new:
        return
    try:
        await _add(services, writer, new)
    except KafkaError as error:
        raise _told(error, rules) from None


async def _add(services: Services, writer: Writer, new: list[TopicPartition]) -> None:
    """Add partitions; where the last transaction is about to be complete, wait for that instead of the client."""
    runtime = services.transactions
    try:
        await runtime.add_partitions(*writer, new, EPOCH_PER_TRANSACTION)
    except ConcurrentTransactionsError:
        await runtime.finished(writer.transactional_id, services.config.add_partitions_to_txn_retry_backoff_max_ms)
        await runtime.add_partitions(*writer, new, EPOCH_PER_TRANSACTION)


def check(services: Services, writer: Writer, partition: Partition, rules: Rules, sequence: int) -> None:
    """Raise unless the partition is in the writer's open transaction."""
    producers, (producer_id, epoch) = partition.log.producers, writer.producer
    if _is_open(partition, writer.producer):
        return
    if not (rules.joins or services.config.transaction_partition_verification_enable):
        return
    try:
        missing = services.transactions.missing(*writer, [partition.topic_partition])
    except ConcurrentTransactionsError as error:
        # It will be repeated, and what follows it in the meantime must not be taken for the beginning
        producers.expect(producer_id, epoch, sequence)
        raise _told(error, rules) from None
    except KafkaError as error:
        raise _told(error, rules) from None
    if missing:
        raise _told(TransactionAbortableError(), rules)
    producers.expect(producer_id, epoch, 0 if rules.joins else sequence)


def _is_open(partition: Partition | None, producer: Producer) -> bool:
    return partition is not None and partition.log.producers.has_open_transaction(*producer)


def _told(error: KafkaError, rules: Rules) -> KafkaError:
    """The error as this client understands it."""
    if isinstance(error, ProducerFencedError):
        return InvalidProducerEpochError(error.message)
    if isinstance(error, TransactionAbortableError) and not rules.abortable:
        return InvalidTxnStateError("Partition was not added to the transaction")
    passing = (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError)
    if isinstance(error, passing) or (isinstance(error, ConcurrentTransactionsError) and not rules.joins):
        return rules.come_again(f"the transaction cannot be verified now: {error.name}")
    return error
