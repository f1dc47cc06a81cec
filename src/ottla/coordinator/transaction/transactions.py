"""Transactions: what a request, or the time, makes of a transactional id. Decisions only, no I/O.

Every function takes the transaction as it stands and gives the next one, which the runtime appends before anybody is
told; it gives the same one where nothing changes, and raises the error that the producer is answered with. Kafka's
transaction coordinator: KIP-98, 360, 588, 890.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ottla.coordinator.runtime.coordinator_log import Producer
from ottla.coordinator.transaction.transaction import (
    AT_REST,
    CLASSIC,
    COMPLETED,
    EPOCH_PER_TRANSACTION,
    MAX_EPOCH,
    NOT_STARTED,
    PREPARED,
    Transaction,
    TransactionState,
)
from ottla.errors import (
    ConcurrentTransactionsError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
)
from ottla.model import TopicPartition
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

RESULTS = {TransactionState.COMPLETE_COMMIT: True, TransactionState.COMPLETE_ABORT: False}
"""Whether a complete transaction was committed."""


class NeedsProducerId(Exception):  # noqa: N818
    """A decision has to hand out a new producer id and was given none: come again with one."""


class InitProducerIdRequestData(NamedTuple):
    """An InitProducerId request. `expected` is what a producer has that wants to go on (KIP-360)."""

    transactional_id: str
    timeout_ms: int
    expected: Producer | None = None


def init_producer(
    known: Transaction | None, request: InitProducerIdRequestData, now_ms: int, version: int, fresh_id: int | None
) -> Transaction:
    """InitProducerId: the next epoch, which fences all before it.

    An open transaction is aborted first, in the `version` of the cluster; the result is then PrepareAbort, and the
    producer has to ask again.
    """
    expected = request.expected
    if known is None:
        known = Transaction(request.transactional_id, _taken(fresh_id))
    if known.state in PREPARED:
        raise ConcurrentTransactionsError
    if expected is not None and not _was_given(expected, known):
        raise ProducerFencedError
    if known.state is TransactionState.ONGOING:
        if expected is not None and expected.epoch != known.producer_epoch:
            raise ProducerFencedError  # it must not roll back what its successor has begun
        return fence(known, now_ms, version)
    repeated = expected is not None and _is_repeated(expected, known)
    last = NO_PRODUCER_EPOCH if expected is None else known.producer_epoch
    begin = {"partitions": frozenset(), "timeout_ms": request.timeout_ms, "start_ms": NOT_STARTED, "update_ms": now_ms}
    if repeated and known.producer_epoch <= MAX_EPOCH:
        return known.to(TransactionState.EMPTY, **begin)
    if known.epochs_used_up:
        rotated = {"producer_id": _taken(fresh_id), "previous_producer_id": known.producer_id, "producer_epoch": 0}
        return known.to(TransactionState.EMPTY, last_producer_epoch=last, **rotated, **begin)
    return known.to(TransactionState.EMPTY, producer_epoch=known.producer_epoch + 1, last_producer_epoch=last, **begin)


def _was_given(expected: Producer, known: Transaction) -> bool:
    """Whether a producer that comes back was given its id for this transactional id."""
    if known.producer_epoch == NO_PRODUCER_EPOCH or expected.id == known.producer_id:
        return True
    return expected.id == known.previous_producer_id and expected.epoch >= MAX_EPOCH


def _is_repeated(expected: Producer, known: Transaction) -> bool:
    """Whether the producer missed the answer to its last request; ProducerFencedError where it is older than that."""
    if known.producer_epoch == NO_PRODUCER_EPOCH or expected == (known.producer_id, known.producer_epoch):
        return False
    if expected.epoch != known.last_producer_epoch:
        raise ProducerFencedError
    return True


def fence(known: Transaction, now_ms: int, version: int) -> Transaction:
    """Abort an open transaction under the next epoch, so that its producer can write no more."""
    return known.to(
        TransactionState.PREPARE_ABORT,
        producer_epoch=known.producer_epoch + 1,
        last_producer_epoch=known.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        update_ms=now_ms,
        version=version,
    )


def add_partitions(
    known: Transaction | None, producer: Producer, partitions: Collection[TopicPartition], now_ms: int, version: int
) -> Transaction:
    """AddPartitionsToTxn and all that implies it: these partitions get a marker when the transaction ends."""
    known = _owned(known, producer)
    if known.state is TransactionState.ONGOING and known.partitions.issuperset(partitions):
        return known
    return known.to(
        TransactionState.ONGOING,
        partitions=known.partitions.union(partitions),
        start_ms=now_ms if known.state in AT_REST else known.start_ms,
        update_ms=now_ms,
        version=version,
    )


def missing(
    known: Transaction | None, producer: Producer, partitions: Collection[TopicPartition]
) -> frozenset[TopicPartition]:
    """Those of the partitions that are not in the producer's open transaction."""
    return frozenset(partitions) - _owned(known, producer).partitions


def _owned(known: Transaction | None, producer: Producer) -> Transaction:
    """The transaction, if the producer owns it and it is not being completed."""
    if known is None:
        raise InvalidProducerIdMappingError
    if known.state in PREPARED:
        # first: the producer may have the id or epoch already that it gets with the completion
        raise ConcurrentTransactionsError
    if known.producer_id != producer.id:
        raise InvalidProducerIdMappingError
    if known.producer_epoch != producer.epoch:
        raise ProducerFencedError
    return known


def end(known: Transaction | None, producer: Producer, commit: bool, now_ms: int) -> Transaction:
    """EndTxn of the classic transactions: the epoch stays. A repeated request changes nothing."""
    if known is None or known.producer_id != producer.id:
        raise InvalidProducerIdMappingError
    if known.producer_epoch != producer.epoch:
        raise ProducerFencedError
    if known.state in PREPARED:
        raise ConcurrentTransactionsError
    if known.state is TransactionState.ONGOING:
        return known.to(_prepared(commit), update_ms=now_ms, version=CLASSIC)
    if RESULTS.get(known.state) is commit:
        return known
    raise InvalidTxnStateError


def end_and_bump(
    known: Transaction | None, producer: Producer, commit: bool, now_ms: int, fresh_id: int | None
) -> Transaction:
    """EndTxn of the newer transactions (KIP-890): the next one has another epoch, or another producer id.

    With the present epoch a producer ends its present transaction, with the one before it asks again for an answer that
    it missed. An abort without a transaction is a wish for a new epoch.

        state            | abort, repeated | abort        | commit, repeated | commit
        Empty            | fenced          | next epoch   | fenced           | invalid state
        CompleteAbort    | as it was       | next epoch   | invalid state    | invalid state
        CompleteCommit   | invalid state   | next epoch   | as it was        | invalid state
    """
    if known is None:
        raise InvalidProducerIdMappingError
    rotated = (
        producer == (known.previous_producer_id, MAX_EPOCH) and known.producer_epoch == 0 and known.state in RESULTS
    )
    if known.producer_id != producer.id and not rotated:
        raise InvalidProducerIdMappingError
    # in a classic transaction of a successor the next epoch is not what this producer was given
    bumped = known.version >= EPOCH_PER_TRANSACTION and known.producer_epoch == producer.epoch + 1
    repeated = rotated or bumped
    if known.state in PREPARED:
        raise ConcurrentTransactionsError if repeated else ProducerFencedError
    if repeated and known.state in RESULTS:
        if RESULTS[known.state] is commit:
            return known
        raise InvalidTxnStateError
    if known.producer_epoch != producer.epoch:
        raise ProducerFencedError
    if commit and known.state is not TransactionState.ONGOING:
        raise InvalidTxnStateError
    return known.to(
        _prepared(commit),
        producer_epoch=known.producer_epoch + 1,
        last_producer_epoch=known.producer_epoch,
        next_producer_id=_taken(fresh_id) if known.epochs_used_up else NO_PRODUCER_ID,
        start_ms=known.start_ms if known.state is TransactionState.ONGOING else now_ms,
        update_ms=now_ms,
        version=EPOCH_PER_TRANSACTION,
    )


def complete(known: Transaction, now_ms: int) -> Transaction:
    """All markers are written."""
    changes = {"partitions": frozenset(), "update_ms": now_ms}
    if known.next_producer_id != NO_PRODUCER_ID:
        changes |= {"producer_id": known.next_producer_id, "producer_epoch": 0}
        changes |= {"previous_producer_id": known.producer_id, "next_producer_id": NO_PRODUCER_ID}
    return known.to(COMPLETED[known.state], **changes)


def next_producer(prepared: Transaction) -> Producer:
    """With which id and epoch the producer goes on once the transaction is complete."""
    if prepared.next_producer_id != NO_PRODUCER_ID:
        return Producer(prepared.next_producer_id, 0)
    return Producer(prepared.producer_id, prepared.producer_epoch)


def is_timed_out(known: Transaction, now_ms: int) -> bool:
    """Whether the transaction is open for longer than its producer wanted."""
    return known.state is TransactionState.ONGOING and known.start_ms + known.timeout_ms < now_ms


def is_expired(known: Transaction, now_ms: int, expiration_ms: int) -> bool:
    """Whether nobody used the id for so long that it can be forgotten."""
    return known.state in AT_REST and known.update_ms <= now_ms - expiration_ms


def _prepared(commit: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT


def _taken(fresh_id: int | None) -> int:
    if fresh_id is None:
        raise NeedsProducerId
    return fresh_id
