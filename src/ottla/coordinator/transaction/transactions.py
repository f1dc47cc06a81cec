"""The transitions of a transaction, without I/O.

A transition takes the current transaction and returns the next one, which the runtime appends. It returns the same
object if nothing changes, and raises the error that the producer receives. Kafka's `TransactionCoordinator`; KIP-98,
KIP-360, KIP-588, KIP-890.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ottla import errors
from ottla.coordinator.transaction.transaction import (
    CLASSIC,
    COMPLETED,
    EPOCH_PER_TRANSACTION,
    IDLE,
    MAX_EPOCH,
    NO_TIMEOUT_MS,
    NOT_STARTED,
    PREPARED,
    Transaction,
    TransactionState,
)
from ottla.model import ProducerIdAndEpoch, TopicPartition
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

RESULTS = {TransactionState.COMPLETE_COMMIT: True, TransactionState.COMPLETE_ABORT: False}
"""Whether a complete transaction was committed (True) or aborted, by state."""


class NeedsProducerId(Exception):  # noqa: N818
    """Raised by a function that needs a new producer id: call it again with one."""


class InitProducerIdRequestData(NamedTuple):
    """An InitProducerId request.

    `expected`: the current producer id and epoch, if the producer continues after an error (KIP-360).
    """

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None


def init_producer(
    current: Transaction | None, request: InitProducerIdRequestData, now_ms: int, version: int, new_id: int | None
) -> Transaction:
    """Bump the producer epoch, which fences all earlier ones (InitProducerId).

    If the epochs are exhausted, switch to the producer id `new_id`. A repeated request gets the same epoch again, if
    producers can use it. If a transaction is open, return it as PrepareAbort with transaction version `version`; the
    producer has to retry until it is aborted. Raises ConcurrentTransactionsError, ProducerFencedError, or
    NeedsProducerId if `new_id` is required but None.
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
            raise errors.ProducerFencedError  # a fenced producer must not abort a transaction of its successor
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


def _owns_producer_id(expected: ProducerIdAndEpoch, current: Transaction) -> bool:
    """Return whether the expected producer id belongs to the transactional id: it is the current one, or the previous
    one with an exhausted epoch. Any id is accepted if the transactional id is new.
    """
    if current.producer_epoch == NO_PRODUCER_EPOCH or expected.id == current.producer_id:
        return True
    return expected.id == current.previous_producer_id and expected.epoch >= MAX_EPOCH


def _is_repeated(expected: ProducerIdAndEpoch, current: Transaction) -> bool:
    """Return whether the producer repeats its last InitProducerId request; False if the transactional id is new.

    Raises ProducerFencedError if the transactional id has an epoch, and that of the request is neither that one nor
    `last_producer_epoch`.
    """
    if current.producer_epoch == NO_PRODUCER_EPOCH or expected == (current.producer_id, current.producer_epoch):
        return False
    if expected.epoch != current.last_producer_epoch:
        raise errors.ProducerFencedError
    return True


def fence(current: Transaction, now_ms: int, version: int) -> Transaction:
    """Return an open transaction as PrepareAbort with the next epoch, which fences its producer."""
    return current.transition_to(
        TransactionState.PREPARE_ABORT,
        producer_epoch=current.producer_epoch + 1,
        last_producer_epoch=current.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        update_ms=now_ms,
        version=version,
    )


def add_partitions(
    current: Transaction | None,
    producer: ProducerIdAndEpoch,
    partitions: Collection[TopicPartition],
    now_ms: int,
    version: int,
) -> Transaction:
    """Add partitions to a transaction (AddPartitionsToTxn). They get a marker when it ends.

    Raises InvalidProducerIdMappingError, ProducerFencedError or ConcurrentTransactionsError.
    """
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
    current: Transaction | None, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
) -> frozenset[TopicPartition]:
    """Return the partitions that are not in the producer's open transaction.

    Raises an error if the transactional id is unknown or has another producer id or epoch, or its transaction is being
    completed.
    """
    return frozenset(partitions) - _owned_transaction(current, producer).partitions


def _owned_transaction(current: Transaction | None, producer: ProducerIdAndEpoch) -> Transaction:
    """Return `current`. Raises an error if it is None, has another producer id or epoch, or is being completed."""
    if current is None:
        raise errors.InvalidProducerIdMappingError
    if current.state in PREPARED:
        # This is checked first, because the producer may already use the id or epoch that the transaction gets with its
        # completion.
        raise errors.ConcurrentTransactionsError
    if current.producer_id != producer.id:
        raise errors.InvalidProducerIdMappingError
    if current.producer_epoch != producer.epoch:
        raise errors.ProducerFencedError
    return current


def end(current: Transaction | None, producer: ProducerIdAndEpoch, commit: bool, now_ms: int) -> Transaction:
    """End a transaction without bumping the epoch (EndTxn with transaction.version 0 or 1).

    A request that is repeated after the transaction is complete changes nothing.
    """
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
    current: Transaction | None, producer: ProducerIdAndEpoch, commit: bool, now_ms: int, new_id: int | None
) -> Transaction:
    """End a transaction and bump the epoch, or switch to a new producer id if the epochs are exhausted (EndTxn with
    transaction.version 2, KIP-890).

    A request with the current epoch ends the current transaction. In a complete state, a request with the previous
    epoch counts as repeated: the producer has missed the response, or its transaction was aborted for it. An abort
    without an open transaction only bumps the epoch. While a transaction is being completed, every request fails with
    CONCURRENT_TRANSACTIONS, and the producer repeats it.

        state            | abort, repeated | abort        | commit, repeated | commit
        Ongoing          | fenced          | abort        | fenced           | commit
        Empty            | fenced          | next epoch   | fenced           | invalid state
        CompleteAbort    | unchanged       | next epoch   | invalid state    | invalid state
        CompleteCommit   | invalid state   | next epoch   | unchanged        | invalid state
    """
    if current is None:
        raise errors.InvalidProducerIdMappingError
    if current.state in PREPARED:
        # This is checked first: the producer has the next epoch, or even another id, as soon as the outcome is in the
        # log, and may end its next transaction before the markers of this one are written.
        raise errors.ConcurrentTransactionsError
    rotated = (
        producer == (current.previous_producer_id, MAX_EPOCH)
        and current.producer_epoch == 0
        and current.state in RESULTS
    )
    if current.producer_id != producer.id and not rotated:
        raise errors.InvalidProducerIdMappingError
    # If a successor uses classic transactions, this producer was never given the next epoch.
    bumped = current.version >= EPOCH_PER_TRANSACTION and current.producer_epoch == producer.epoch + 1
    repeated = rotated or bumped
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
    """Return the transaction in its completed state, after all markers are written."""
    changes = {"partitions": frozenset(), "update_ms": now_ms}
    if current.next_producer_id != NO_PRODUCER_ID:
        changes |= {"producer_id": current.next_producer_id, "producer_epoch": 0}
        changes |= {"previous_producer_id": current.producer_id, "next_producer_id": NO_PRODUCER_ID}
    return current.transition_to(COMPLETED[current.state], **changes)


def next_producer(prepared: Transaction) -> ProducerIdAndEpoch:
    """Return the producer id and epoch that the producer has to use after this transaction."""
    if prepared.next_producer_id != NO_PRODUCER_ID:
        return ProducerIdAndEpoch(prepared.next_producer_id, 0)
    return ProducerIdAndEpoch(prepared.producer_id, prepared.producer_epoch)


def is_timed_out(current: Transaction, now_ms: int) -> bool:
    """Return whether the transaction has been open for longer than its timeout. A transaction with NO_TIMEOUT_MS, whose
    outcome an external coordinator decides (KIP-939), never times out.
    """
    if current.timeout_ms == NO_TIMEOUT_MS:
        return False
    return current.state is TransactionState.ONGOING and current.start_ms + current.timeout_ms < now_ms


def is_expired(current: Transaction, now_ms: int, expiration_ms: int) -> bool:
    """Return whether the id is in an IDLE state, and was last used at least `expiration_ms` ago."""
    return current.state in IDLE and current.update_ms <= now_ms - expiration_ms


def _prepared(commit: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT


def _require_id(new_id: int | None) -> int:
    if new_id is None:
        raise NeedsProducerId
    return new_id
