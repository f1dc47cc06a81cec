"""One transactional id: its producer, the partitions of its transaction, and the table of its states.

    Empty ──add──▶ Ongoing ──end──▶ PrepareCommit ──markers──▶ CompleteCommit ──▶ Ongoing, Empty
                      │
                      └──abort, timeout, a newer producer──▶ PrepareAbort ──markers──▶ CompleteAbort ──▶ Ongoing, Empty

With transaction.version 2, an abort without an open transaction also leads to PrepareAbort, to bump the epoch.

A transaction is immutable: each change creates the next one, which is valid once it is in the log. PrepareEpochFence
has a number in Kafka's table but is never written to a log; the producer of an open transaction is fenced by the
transition to PrepareAbort.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ottla.errors import IllegalStateError
from ottla.model import TopicPartition
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

MAX_EPOCH = 2**15 - 2
"""The highest epoch that a producer can use. The one after it is reserved for fencing."""
NO_TIMEOUT_MS = 2**31 - 1
"""The timeout of transactions with two-phase commit."""
NOT_STARTED = -1
"""The start time of a transaction that has not started."""

CLASSIC = 0
EPOCH_PER_TRANSACTION = 2
"""CLASSIC and EPOCH_PER_TRANSACTION: values of transaction.version.

With version 2, the end of each transaction bumps the epoch, so that markers fence delayed batches (KIP-890).
"""


class TransactionState(StrEnum):
    """The states, with Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


STATE_NUMBERS = dict(enumerate(TransactionState))
"""The states by their numbers in the log."""

VALID_TRANSITIONS: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: frozenset(
        {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT, TransactionState.DEAD}
    ),
    TransactionState.ONGOING: frozenset(
        {TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
    ),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.COMPLETE_COMMIT}),
    TransactionState.PREPARE_ABORT: frozenset({TransactionState.COMPLETE_ABORT}),
    TransactionState.COMPLETE_COMMIT: frozenset(
        {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT, TransactionState.DEAD}
    ),
    TransactionState.COMPLETE_ABORT: frozenset(
        {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT, TransactionState.DEAD}
    ),
    TransactionState.DEAD: frozenset(),
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.PREPARE_ABORT}),
}
"""The states that may follow each state."""

PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""The states in which a transaction's outcome is decided and its markers are being written."""
COMPLETED = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}
"""The state that follows each prepared state when all markers are written."""
IDLE = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
"""The states in which no transaction is open or being completed: a producer may take over the id, and an expired id may
be removed.
"""


@dataclass(frozen=True, slots=True)
class Transaction:
    """The state of a transactional id. Times are milliseconds since 1970."""

    id: str
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NOT_STARTED
    update_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before this one, or NO_PRODUCER_ID.

    A producer that has missed a response may repeat its request with it.
    """
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after this transaction if the epochs of the current one are exhausted, or NO_PRODUCER_ID."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch that the producer used before the current one, by which InitProducerId recognises a repeated request;
    -1 if there is none. It is not in the log.
    """
    version: int = CLASSIC
    """The transaction version of the last AddPartitionsToTxn or EndTxn, or of the last abort by the coordinator."""

    def transition_to(self, state: TransactionState, **changes: Any) -> Transaction:
        """Return the transaction in another state, with `changes` of its fields.

        Raises IllegalStateError if the transition is not in the table.
        """
        if state not in VALID_TRANSITIONS[self.state]:
            raise IllegalStateError(f"transactional_id={self.id} cannot change from {self.state} to {state}")
        return replace(self, state=state, **changes)

    @property
    def epochs_used_up(self) -> bool:
        """Whether the highest epoch is in use, so that the next transaction needs another producer id."""
        return self.producer_epoch >= MAX_EPOCH

    @property
    def topics(self) -> dict[str, list[int]]:
        topics: dict[str, list[int]] = {}
        for tp in sorted(self.partitions):
            topics.setdefault(tp.topic, []).append(tp.partition)
        return topics

    @property
    def committing(self) -> bool:
        """Whether the transaction is being committed (PrepareCommit)."""
        return self.state is TransactionState.PREPARE_COMMIT
