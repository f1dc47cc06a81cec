"""Transaction verification: a partition must be in the producer's transaction before its first batch is appended
(KIP-890).

A batch of a transaction that the coordinator does not know would never get a marker, and readers of committed records
would wait for it forever. For producers of the newer protocol the broker adds the partition with their first write; for
older ones it only verifies, unless transaction.partition.verification.enable is false. Either way `ensure_verified`
runs in the same step of the event loop as the append, so that no marker can come in between.

If another broker coordinates the transaction, it adds or verifies the partition first. Its response is valid as long as
no marker was written to the partition since the request: a guard in the log's producer state detects such a marker, as
in Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ottla import errors
from ottla.broker.broker_context import BrokerContext
from ottla.coordinator.transaction.transaction import EPOCH_PER_TRANSACTION
from ottla.model import ProducerIdAndEpoch, TopicPartition
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla.coordinator.transaction.add_partitions import Results
    from ottla.storage.producer_state import VerificationGuard

PASSING = (
    errors.CoordinatorLoadInProgressError,
    errors.CoordinatorNotAvailableError,
    errors.NotCoordinatorError,
    # the coordinator on another broker was unreachable, or received several partitions and rejected one
    errors.BrokerConnectionError,
    errors.BrokerNotAvailableError,
    errors.NetworkError,
    errors.RequestTimedOutError,
    errors.OperationNotAttemptedError,
)
"""Temporary errors of the verification, which do not concern the transaction itself."""
FENCED_SINCE = 2
"""The first version of most transactional APIs that may return PRODUCER_FENCED (KIP-588)."""


@contextmanager
def known_errors_only(version: int, fenced_since: int = FENCED_SINCE) -> Iterator[None]:
    """Raise INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED for clients that do not know the latter."""
    try:
        yield
    except errors.ProducerFencedError as error:
        raise error if version >= fenced_since else errors.InvalidProducerEpochError(error.message) from None


class ClientCapabilities(NamedTuple):
    """Abilities of a client that follow from the version of its request."""

    joins: bool
    """Whether the broker adds partitions to the transaction with the first write."""
    abortable: bool
    """Whether the client knows the error TRANSACTION_ABORTABLE."""
    retriable_error: type[errors.KafkaError]
    """The error after which the client retries the request."""


class TransactionalWriter(NamedTuple):
    """A transactional producer: its transactional id, producer id and epoch."""

    transactional_id: str
    producer: ProducerIdAndEpoch


@dataclass(slots=True)
class VerificationResult:
    """The results of adding or verifying partitions before the append. Partitions that did not need this, and those
    that this broker has added as the coordinator, are in neither field.
    """

    partition_errors: dict[TopicPartition, errors.KafkaError] = field(default_factory=dict)
    guards: dict[TopicPartition, VerificationGuard] = field(default_factory=dict)
    """The guards of partitions that another broker has added or verified."""


def is_remote(broker: BrokerContext, transactional_id: str) -> bool:
    """Return whether this broker does not coordinate the transactional id. False on a standalone broker."""
    if broker.add_partitions is None:
        return False  # a standalone broker
    try:
        return broker.transactions.coordinator(transactional_id) != broker.broker_id
    except errors.NotCoordinatorError:
        return True


async def add_or_verify(
    broker: BrokerContext,
    writer: TransactionalWriter,
    written: Mapping[TopicPartition, int],
    rules: ClientCapabilities,
    admission: VerificationResult,
) -> None:
    """Add the partitions to the transaction, or let the coordinator on another broker add or verify them.

    Partitions that are in the open transaction already are left out. For older clients, do nothing if this broker
    coordinates the transaction, because `ensure_verified` then verifies the partitions, or if
    `transaction.partition.verification.enable` is false.

    `written`: the base sequence of the batch, by partition. `admission` receives the errors, and the guards of
    partitions that another broker has added or verified.
    """
    new = [tp for tp in written if not _is_open(broker.partitions.get_leader(tp), writer.producer)]
    elsewhere = is_remote(broker, writer.transactional_id)
    if not new or not (rules.joins or (elsewhere and broker.config.transaction_partition_verification_enable)):
        return
    try:
        if elsewhere:
            await _verify_remotely(broker, writer, {tp: written[tp] for tp in new}, rules, admission)
        else:
            await _add(broker, writer, new)
    except errors.KafkaError as error:
        admission.partition_errors |= dict.fromkeys(new, _error_for(error, rules))


async def _add(broker: BrokerContext, writer: TransactionalWriter, new: list[TopicPartition]) -> None:
    """Add partitions. If the previous transaction is still completing, wait for it first, for a limited time, so that
    the client does not have to retry.
    """
    runtime = broker.transactions
    try:
        await runtime.add_partitions(*writer, new, EPOCH_PER_TRANSACTION)
    except errors.ConcurrentTransactionsError:
        await runtime.wait_completed(writer.transactional_id, broker.config.add_partitions_to_txn_retry_backoff_max_ms)
        await runtime.add_partitions(*writer, new, EPOCH_PER_TRANSACTION)


async def _verify_remotely(
    broker: BrokerContext,
    writer: TransactionalWriter,
    new: Mapping[TopicPartition, int],
    rules: ClientCapabilities,
    admission: VerificationResult,
) -> None:
    """Let the coordinator on another broker add or verify partitions.

    When it adds partitions, the request is repeated for a while if the previous transaction is still completing. It is
    also repeated if a marker arrived meanwhile, because the marker may belong to the previous transaction.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + broker.config.add_partitions_to_txn_retry_backoff_max_ms / 1000
    while True:
        led = {tp: p.log.producers for tp in new if (p := broker.partitions.get_leader(tp)) is not None}
        guards = {tp: producers.guard(*writer.producer) for tp, producers in led.items()}
        answers = await _answers(broker, writer, list(led), rules)
        concurrent = any(isinstance(error, errors.ConcurrentTransactionsError) for error in answers.values())
        met = any(not led[tp].is_guarded(writer.producer.id, guard) for tp, guard in guards.items())
        if not (met or (rules.joins and concurrent)) or loop.time() >= deadline:
            break
        await asyncio.sleep(broker.config.add_partitions_to_txn_retry_backoff_ms / 1000 if concurrent else 0)
    for tp, error in answers.items():
        if error is None:
            admission.guards[tp] = guards[tp]
            continue
        if isinstance(error, errors.ConcurrentTransactionsError):
            led[tp].expect(*writer.producer, new[tp])  # the client will retry it, as in `_look_up`
        admission.partition_errors[tp] = _error_for(error, rules)


async def _answers(
    broker: BrokerContext, writer: TransactionalWriter, partitions: list[TopicPartition], rules: ClientCapabilities
) -> Results:
    from ottla.coordinator.transaction.add_partitions import PartitionsToAdd  # a standalone broker starts without it

    assert broker.add_partitions is not None
    item = PartitionsToAdd(*writer, partitions, verify_only=not rules.joins)
    return await broker.add_partitions.add_or_verify(broker.transactions.coordinator(writer.transactional_id), item)


def ensure_verified(
    broker: BrokerContext,
    writer: TransactionalWriter,
    partition: Partition,
    rules: ClientCapabilities,
    sequence: int,
    admission: VerificationResult,
) -> None:
    """Raise an error unless the partition is in the writer's open transaction.

    Older clients are not checked if `transaction.partition.verification.enable` is false.
    """
    tp, producers, (producer_id, epoch) = partition.topic_partition, partition.log.producers, writer.producer
    if _is_open(partition, writer.producer):
        return
    if tp in admission.partition_errors:
        raise admission.partition_errors[tp]
    if not (rules.joins or broker.config.transaction_partition_verification_enable):
        return
    guard = admission.guards.get(tp)
    if guard is None:
        _look_up(broker, writer, partition, rules, sequence)
    elif not producers.is_guarded(producer_id, guard):
        raise rules.retriable_error("a transaction ended in this partition while this one was verified")
    producers.expect(producer_id, epoch, 0 if rules.joins else sequence)


def _look_up(
    broker: BrokerContext, writer: TransactionalWriter, partition: Partition, rules: ClientCapabilities, sequence: int
) -> None:
    """Raise an error unless the partition is in the open transaction, according to the coordinator on this broker."""
    try:
        missing = broker.transactions.missing(*writer, [partition.topic_partition])
    except errors.ConcurrentTransactionsError as error:
        # the client will retry it, and its next batch must not be mistaken for the first one
        partition.log.producers.expect(*writer.producer, sequence)
        raise _error_for(error, rules) from None
    except errors.KafkaError as error:
        raise _error_for(error, rules) from None
    if missing:
        raise _error_for(errors.TransactionAbortableError(), rules)


def _is_open(partition: Partition | None, producer: ProducerIdAndEpoch) -> bool:
    return partition is not None and partition.log.producers.has_open_transaction(*producer)


def _error_for(error: errors.KafkaError, rules: ClientCapabilities) -> errors.KafkaError:
    """Return the error to send to a client with these capabilities, which may not know the given one."""
    if isinstance(error, errors.ProducerFencedError):
        return errors.InvalidProducerEpochError(error.message)
    if isinstance(error, errors.TransactionAbortableError) and not rules.abortable:
        return errors.InvalidTxnStateError("Partition was not added to the transaction")
    if isinstance(error, PASSING) or (isinstance(error, errors.ConcurrentTransactionsError) and not rules.joins):
        return rules.retriable_error(f"the transaction cannot be verified now: {error.name}")
    return error
