"""Transactions: how requests and timeouts change a transactional id. Decisions without I/O.

Every function takes the current transaction and returns the next one, which the runtime appends before it responds; it
returns the same one if nothing changes, and raises the error for the producer. Kafka's `TransactionCoordinator`;
KIP-98, 360, 588, 890.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ottla import errors
from ottla.coordinator.runtime.coordinator_log import Producer
from ottla.coordinator.transaction.transaction import (
    CLASSIC,
    COMPLETED,
    EPOCH_PER_TRANSACTION,
    IDLE,
    MAX_EPOCH,
    NOT_STARTED,
    PREPARED,
    Transaction,
    TransactionState,
)
from ottla.model import TopicPartition
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

RESULTS = {TransactionState.COMPLETE_COMMIT: True, TransactionState.COMPLETE_ABORT: False}
"""Whether a complete transaction was committed."""


class NeedsProducerId(Exception):  # noqa: N818
    """A decision needs a new producer id: call it again with one."""


class InitProducerIdRequestData(NamedTuple):
    """An InitProducerId request. `expected`: the id and epoch of a producer that continues (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    expected: Producer | None = None


def init_producer(
    current: Transaction | None, request: InitProducerIdRequestData, now_ms: int, version: int, new_id: int | None
) -> Transaction:
    """Return the next epoch, which fences all earlier ones (InitProducerId).

    An open transaction is aborted first, with the `version` of the cluster; the result is then PrepareAbort, and the
    producer has to retry.
    """
    expected = request.expected
    if current is None:
        current = Transaction(request.transactional_id, _require_id(new_id))
    if current.state in PREPARED:
        raise errors.ConcurrentTransactionsError
    if expected is not None and not _owns_producer_id(expected, current):
        raise errors.ProducerFencedError
    if current.state is TransactionState.ONGOING:
        if expected is not None and expected.epoch != current.producer_epoch:
            raise errors.ProducerFencedError  # it must not roll back a transaction of its successor
        return fence(current, now_ms, version)
    repeated = expected is not None and _is_repeated(expected, current)
    last = NO_PRODUCER_EPOCH if expected is None else current.producer_epoch
    begin = {"partitions": frozenset(), "timeout_ms": request.timeout_ms, "start_ms": NOT_STARTED, "update_ms": now_ms}
    if repeated and current.producer_epoch <= MAX_EPOCH:
        return current.transition_to(TransactionState.EMPTY, **begin)
    if current.epochs_used_up:
        rotated = {"producer_id": _require_id(new_id), "previous_producer_id": current.producer_id, "producer_epoch": 0}
        return current.transition_to(TransactionState.EMPTY, last_producer_epoch=last, **rotated, **begin)
    return current.transition_to(
        TransactionState.EMPTY, producer_epoch=current.producer_epoch + 1, last_producer_epoch=last, **begin
    )


def _owns_producer_id(expected: Producer, current: Transaction) -> bool:
    """Return whether a producer that continues has had this producer id with this transactional id."""
    if current.producer_epoch == NO_PRODUCER_EPOCH or expected.id == current.producer_id:
        return True
    return expected.id == current.previous_producer_id and expected.epoch >= MAX_EPOCH


def _is_repeated(expected: Producer, current: Transaction) -> bool:
    """Return whether the producer repeats its last request. Raises ProducerFencedError if it is older."""
    if current.producer_epoch == NO_PRODUCER_EPOCH or expected == (current.producer_id, current.producer_epoch):
        return False
    if expected.epoch != current.last_producer_epoch:
        raise errors.ProducerFencedError
    return True


def fence(current: Transaction, now_ms: int, version: int) -> Transaction:
    """Abort an open transaction with the next epoch, so that its producer can write no more."""
    return current.transition_to(
        TransactionState.PREPARE_ABORT,
        producer_epoch=current.producer_epoch + 1,
        last_producer_epoch=current.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        update_ms=now_ms,
        version=version,
    )


def add_partitions(
    current: Transaction | None, producer: Producer, partitions: Collection[TopicPartition], now_ms: int, version: int
) -> Transaction:
    """Add partitions, which get a marker when the transaction ends (AddPartitionsToTxn)."""
    current = _owned_transaction(current, producer)
    if current.state is TransactionState.ONGOING and current.partitions.issuperset(partitions):
        return current
    return current.transition_to(
        TransactionState.ONGOING,
        partitions=current.partitions.union(partitions),
        start_ms=now_ms if current.state in IDLE else current.start_ms,
        update_ms=now_ms,
        version=version,
    )


def missing(
    current: Transaction | None, producer: Producer, partitions: Collection[TopicPartition]
) -> frozenset[TopicPartition]:
    """Return the partitions that are not in the producer's open transaction."""
    return frozenset(partitions) - _owned_transaction(current, producer).partitions


def _owned_transaction(current: Transaction | None, producer: Producer) -> Transaction:
    """Return the transaction, if the producer owns it and it is not being completed."""
    if current is None:
        raise errors.InvalidProducerIdMappingError
    if current.state in PREPARED:
        # first: the producer may already have the id or epoch that it gets with the completion
        raise errors.ConcurrentTransactionsError
    if current.producer_id != producer.id:
        raise errors.InvalidProducerIdMappingError
    if current.producer_epoch != producer.epoch:
        raise errors.ProducerFencedError
    return current


def end(current: Transaction | None, producer: Producer, commit: bool, now_ms: int) -> Transaction:
    """End a classic transaction, in which the epoch stays (EndTxn). A repeated request changes nothing."""
    if current is None or current.producer_id != producer.id:
        raise errors.InvalidProducerIdMappingError
    if current.producer_epoch != producer.epoch:
        raise errors.ProducerFencedError
    if current.state in PREPARED:
        raise errors.ConcurrentTransactionsError
    if current.state is TransactionState.ONGOING:
        return current.transition_to(_prepared(commit), update_ms=now_ms, version=CLASSIC)
    if RESULTS.get(current.state) is commit:
        return current
    raise errors.InvalidTxnStateError


def end_and_bump(
    current: Transaction | None, producer: Producer, commit: bool, now_ms: int, new_id: int | None
) -> Transaction:
    """End a transaction; the next one has another epoch, or another producer id (EndTxn since KIP-890).

    With the current epoch a producer ends its current transaction, with the one before it repeats a request whose
    response it has missed. An abort without a transaction requests a new epoch.

        state            | abort, repeated | abort        | commit, repeated | commit
        Empty            | fenced          | next epoch   | fenced           | invalid state
        CompleteAbort    | as it was       | next epoch   | invalid state    | invalid state
        CompleteCommit   | invalid state   | next epoch   | as it was        | invalid state
    """
    if current is None:
        raise errors.InvalidProducerIdMappingError
    rotated = (
        producer == (current.previous_producer_id, MAX_EPOCH)
        and current.producer_epoch == 0
        and current.state in RESULTS
    )
    if current.producer_id != producer.id and not rotated:
        raise errors.InvalidProducerIdMappingError
    # in a classic transaction of a successor the next epoch is not one that this producer was given
    bumped = current.version >= EPOCH_PER_TRANSACTION and current.producer_epoch == producer.epoch + 1
    repeated = rotated or bumped
    if current.state in PREPARED:
        raise errors.ConcurrentTransactionsError if repeated else errors.ProducerFencedError
    if repeated and current.state in RESULTS:
        if RESULTS[current.state] is commit:
            return current
        raise errors.InvalidTxnStateError
    if current.producer_epoch != producer.epoch:
        raise errors.ProducerFencedError
    if commit and current.state is not TransactionState.ONGOING:
        raise errors.InvalidTxnStateError
    return current.transition_to(
        _prepared(commit),
        producer_epoch=current.producer_epoch + 1,
        last_producer_epoch=current.producer_epoch,
        next_producer_id=_require_id(new_id) if current.epochs_used_up else NO_PRODUCER_ID,
        start_ms=current.start_ms if current.state is TransactionState.ONGOING else now_ms,
        update_ms=now_ms,
        version=EPOCH_PER_TRANSACTION,
    )


def complete(current: Transaction, now_ms: int) -> Transaction:
    """Return the transaction after all markers are written."""
    changes = {"partitions": frozenset(), "update_ms": now_ms}
    if current.next_producer_id != NO_PRODUCER_ID:
        changes |= {"producer_id": current.next_producer_id, "producer_epoch": 0}
        changes |= {"previous_producer_id": current.producer_id, "next_producer_id": NO_PRODUCER_ID}
    return current.transition_to(COMPLETED[current.state], **changes)


def next_producer(prepared: Transaction) -> Producer:
    """Return the producer id and epoch after the completion."""
    if prepared.next_producer_id != NO_PRODUCER_ID:
        return Producer(prepared.next_producer_id, 0)
    return Producer(prepared.producer_id, prepared.producer_epoch)


def is_timed_out(current: Transaction, now_ms: int) -> bool:
    """Return whether the transaction has been open for longer than its timeout."""
    return current.state is TransactionState.ONGOING and current.start_ms + current.timeout_ms < now_ms


def is_expired(current: Transaction, now_ms: int, expiration_ms: int) -> bool:
    """Return whether the id has not been used for so long that it can be removed."""
    return current.state in IDLE and current.update_ms <= now_ms - expiration_ms


def _prepared(commit: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT


def _require_id(new_id: int | None) -> int:
    if new_id is None:
        raise NeedsProducerId
    return new_id
