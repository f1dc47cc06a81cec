"""States of a transaction: InitProducerId, AddPartitionsToTxn, EndTxn and timeouts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.coordinator.transaction.transaction import (
    CLASSIC,
    MAX_EPOCH,
    NO_TIMEOUT_MS,
    VALID_TRANSITIONS,
    Transaction,
    TransactionState,
)
from ottla.coordinator.transaction.transactions import (
    InitProducerIdRequestData,
    NeedsProducerId,
    add_partitions,
    complete,
    end,
    end_and_bump,
    fence,
    init_producer,
    is_expired,
    is_timed_out,
    missing,
    next_producer,
)
from ottla.errors import (
    ConcurrentTransactionsError,
    IllegalStateError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KafkaError,
    ProducerFencedError,
)
from ottla.model import ProducerIdAndEpoch, TopicPartition

NOW = 1_000
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PRODUCER = ProducerIdAndEpoch(7, 3)
BUMPS = 2


def at(state: TransactionState, **changes: object) -> Transaction:
    partitions = (
        frozenset({T0})
        if state in (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
        else frozenset()
    )
    base = Transaction("tx", 7, 3, timeout_ms=100, state=state, partitions=partitions, start_ms=500, update_ms=600)
    return replace(base, **changes)  # type: ignore[arg-type]


def init(
    current: Transaction | None, expected: ProducerIdAndEpoch | None = None, new_id: int | None = None
) -> Transaction:
    return init_producer(current, InitProducerIdRequestData("tx", 100, expected), NOW, BUMPS, new_id)


# InitProducerId


def test_init_producer_id_of_new_transactional_id_starts_with_epoch_0() -> None:
    with pytest.raises(NeedsProducerId):
        init(None)
    new = init(None, new_id=9)
    assert (new.producer_id, new.producer_epoch, new.state, new.timeout_ms) == (9, 0, TransactionState.EMPTY, 100)


@pytest.mark.parametrize(
    "state", [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT]
)
def test_init_producer_id_of_known_transactional_id_bumps_the_epoch(state: TransactionState) -> None:
    new = init(at(state))
    assert (new.producer_id, new.producer_epoch, new.last_producer_epoch) == (7, 4, -1)
    assert (new.state, new.start_ms, new.partitions) == (TransactionState.EMPTY, -1, frozenset())


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
def test_init_producer_id_during_completion_raises_concurrent_transactions(state: TransactionState) -> None:
    with pytest.raises(ConcurrentTransactionsError):
        init(at(state))


def test_init_producer_id_aborts_an_open_transaction() -> None:
    fenced = init(at(TransactionState.ONGOING))
    assert (fenced.state, fenced.producer_epoch, fenced.partitions) == (
        TransactionState.PREPARE_ABORT,
        4,
        frozenset({T0}),
    )


def test_fenced_producer_does_not_abort_the_transaction_of_its_successor() -> None:
    with pytest.raises(ProducerFencedError):
        init(at(TransactionState.ONGOING), ProducerIdAndEpoch(7, 2))
    assert init(at(TransactionState.ONGOING), PRODUCER).state is TransactionState.PREPARE_ABORT


def test_init_producer_id_of_current_producer_bumps_the_epoch_once() -> None:
    bumped = init(at(TransactionState.COMPLETE_ABORT), PRODUCER)
    assert (bumped.producer_epoch, bumped.last_producer_epoch) == (4, 3)
    again = init(bumped, PRODUCER)  # the response was lost
    assert (again.producer_epoch, again.last_producer_epoch) == (4, 3)


@pytest.mark.parametrize("outdated", [ProducerIdAndEpoch(7, 1), ProducerIdAndEpoch(7, 5), ProducerIdAndEpoch(8, 3)])
def test_init_producer_id_of_outdated_producer_is_fenced(outdated: ProducerIdAndEpoch) -> None:
    with pytest.raises(ProducerFencedError):
        init(at(TransactionState.EMPTY), outdated)


@pytest.mark.parametrize("expected", [None, ProducerIdAndEpoch(7, MAX_EPOCH)])
def test_exhausted_epoch_allocates_a_new_producer_id(expected: ProducerIdAndEpoch | None) -> None:
    current = at(TransactionState.EMPTY, producer_epoch=MAX_EPOCH)
    with pytest.raises(NeedsProducerId):
        init(current, expected)
    rotated = init(current, expected, new_id=9)
    assert (rotated.producer_id, rotated.producer_epoch, rotated.previous_producer_id) == (9, 0, 7)
    if expected is not None:
        again = init(rotated, expected)
        assert (again.producer_id, again.producer_epoch) == (9, 0)


def test_fencing_epoch_is_never_allocated() -> None:
    fenced = complete(fence(at(TransactionState.ONGOING, producer_epoch=MAX_EPOCH), NOW, BUMPS), NOW)
    assert fenced.producer_epoch == MAX_EPOCH + 1
    assert init(fenced, ProducerIdAndEpoch(7, MAX_EPOCH), new_id=9).producer_id == 9
    assert init(fenced, new_id=9).producer_id == 9


# AddPartitionsToTxn


@pytest.mark.parametrize(
    "state", [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT]
)
def test_first_add_partitions_starts_the_transaction(state: TransactionState) -> None:
    ongoing = add_partitions(at(state), PRODUCER, [T0, T1], NOW, CLASSIC)
    assert (ongoing.state, ongoing.partitions, ongoing.start_ms) == (TransactionState.ONGOING, frozenset({T0, T1}), NOW)


def test_add_partitions_adds_new_and_ignores_known_partitions() -> None:
    current = at(TransactionState.ONGOING)
    assert add_partitions(current, PRODUCER, [T0], NOW, CLASSIC) is current
    more = add_partitions(current, PRODUCER, [T1], NOW, CLASSIC)
    assert (more.partitions, more.start_ms) == (frozenset({T0, T1}), 500)


@pytest.mark.parametrize(
    ("current", "producer", "error"),
    [
        (None, PRODUCER, InvalidProducerIdMappingError),
        (at(TransactionState.ONGOING), ProducerIdAndEpoch(8, 3), InvalidProducerIdMappingError),
        (at(TransactionState.ONGOING), ProducerIdAndEpoch(7, 2), ProducerFencedError),
        (at(TransactionState.ONGOING), ProducerIdAndEpoch(7, 4), ProducerFencedError),
        (at(TransactionState.PREPARE_COMMIT), PRODUCER, ConcurrentTransactionsError),
        (at(TransactionState.PREPARE_ABORT), ProducerIdAndEpoch(9, 0), ConcurrentTransactionsError),
    ],
)
def test_add_partitions_by_another_producer_is_rejected(
    current: Transaction | None, producer: ProducerIdAndEpoch, error: type[KafkaError]
) -> None:
    with pytest.raises(error):
        add_partitions(current, producer, [T0], NOW, CLASSIC)
    with pytest.raises(error):
        missing(current, producer, [T0])


def test_partition_outside_the_transaction_is_missing() -> None:
    assert missing(at(TransactionState.ONGOING), PRODUCER, [T0, T1]) == {T1}
    assert missing(at(TransactionState.COMPLETE_COMMIT), PRODUCER, [T0]) == {T0}


# EndTxn


@pytest.mark.parametrize("commit", [True, False])
def test_classic_end_txn_keeps_the_producer_epoch(commit: bool) -> None:
    prepared = end(at(TransactionState.ONGOING), PRODUCER, commit, NOW)
    assert prepared.committing is commit
    done = complete(prepared, NOW)
    assert (done.producer_id, done.producer_epoch, done.partitions) == (7, 3, frozenset())
    assert end(done, PRODUCER, commit, NOW) is done  # the response was lost
    with pytest.raises(InvalidTxnStateError):
        end(done, PRODUCER, not commit, NOW)


@pytest.mark.parametrize(
    ("current", "producer", "error"),
    [
        (None, PRODUCER, InvalidProducerIdMappingError),
        (at(TransactionState.ONGOING), ProducerIdAndEpoch(8, 3), InvalidProducerIdMappingError),
        (at(TransactionState.ONGOING), ProducerIdAndEpoch(7, 2), ProducerFencedError),
        (at(TransactionState.PREPARE_COMMIT), PRODUCER, ConcurrentTransactionsError),
        (at(TransactionState.EMPTY), PRODUCER, InvalidTxnStateError),
    ],
)
def test_classic_end_txn_in_a_wrong_state_is_rejected(
    current: Transaction | None, producer: ProducerIdAndEpoch, error: type[KafkaError]
) -> None:
    with pytest.raises(error):
        end(current, producer, True, NOW)


@pytest.mark.parametrize("commit", [True, False])
def test_end_txn_of_transaction_version_2_bumps_the_producer_epoch(commit: bool) -> None:
    prepared = end_and_bump(at(TransactionState.ONGOING), PRODUCER, commit, NOW, None)
    assert (prepared.producer_epoch, next_producer(prepared)) == (4, ProducerIdAndEpoch(7, 4))
    with pytest.raises(ConcurrentTransactionsError):
        end_and_bump(prepared, PRODUCER, commit, NOW, None)
    done = complete(prepared, NOW)
    assert end_and_bump(done, PRODUCER, commit, NOW, None) is done
    with pytest.raises(InvalidTxnStateError):
        end_and_bump(done, PRODUCER, not commit, NOW, None)
    with pytest.raises(InvalidProducerIdMappingError):
        end_and_bump(done, ProducerIdAndEpoch(8, 4), commit, NOW, None)
    with pytest.raises(ProducerFencedError):
        end_and_bump(done, ProducerIdAndEpoch(7, 2), commit, NOW, None)


@pytest.mark.parametrize("commit", [True, False])
def test_newer_end_txn_while_markers_are_written_is_concurrent(commit: bool) -> None:
    prepared = end_and_bump(at(TransactionState.ONGOING), PRODUCER, True, NOW, None)
    with pytest.raises(ConcurrentTransactionsError):
        end_and_bump(prepared, next_producer(prepared), commit, NOW, None)
    rotated = end_and_bump(
        at(TransactionState.ONGOING, producer_epoch=MAX_EPOCH), ProducerIdAndEpoch(7, MAX_EPOCH), True, NOW, 9
    )
    with pytest.raises(ConcurrentTransactionsError):
        end_and_bump(rotated, next_producer(rotated), commit, NOW, None)


def test_end_txn_of_transaction_version_2_with_exhausted_epoch_allocates_producer_id() -> None:
    last = ProducerIdAndEpoch(7, MAX_EPOCH)
    current = at(TransactionState.ONGOING, producer_epoch=MAX_EPOCH)
    with pytest.raises(NeedsProducerId):
        end_and_bump(current, last, True, NOW, None)
    prepared = end_and_bump(current, last, True, NOW, 9)
    assert (prepared.producer_id, prepared.producer_epoch) == (7, MAX_EPOCH + 1)  # the epoch of the markers
    done = complete(prepared, NOW)
    assert (
        ProducerIdAndEpoch(done.producer_id, done.producer_epoch) == next_producer(prepared) == ProducerIdAndEpoch(9, 0)
    )
    assert end_and_bump(done, last, True, NOW, None) is done


@pytest.mark.parametrize(
    "state", [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT]
)
def test_abort_of_transaction_version_2_without_a_transaction_bumps_the_epoch(state: TransactionState) -> None:
    prepared = end_and_bump(at(state), PRODUCER, False, NOW, None)
    assert (prepared.state, prepared.producer_epoch, prepared.start_ms) == (TransactionState.PREPARE_ABORT, 4, NOW)
    with pytest.raises(InvalidTxnStateError):
        end_and_bump(at(state), PRODUCER, True, NOW, None)


def test_end_txn_of_transaction_version_2_with_old_epoch_is_fenced_if_empty() -> None:
    for commit in (True, False):
        with pytest.raises(ProducerFencedError):
            end_and_bump(at(TransactionState.EMPTY), ProducerIdAndEpoch(7, 2), commit, NOW, None)


def test_end_txn_of_transaction_version_2_with_old_epoch_is_fenced_if_complete() -> None:
    for commit in (True, False):
        with pytest.raises(ProducerFencedError):
            end_and_bump(at(TransactionState.COMPLETE_COMMIT), ProducerIdAndEpoch(7, 2), commit, NOW, None)


# Timeouts


def test_transaction_with_two_phase_commit_never_times_out() -> None:
    assert not is_timed_out(replace(at(TransactionState.ONGOING), timeout_ms=NO_TIMEOUT_MS), 2**40)


def test_ongoing_transaction_times_out() -> None:
    assert not is_timed_out(at(TransactionState.ONGOING), 600)
    assert is_timed_out(at(TransactionState.ONGOING), 601)
    assert not is_timed_out(at(TransactionState.PREPARE_ABORT), 10_000)


def test_idle_transactional_ids_expire() -> None:
    assert is_expired(at(TransactionState.EMPTY), 700, 100)
    assert not is_expired(at(TransactionState.EMPTY), 699, 100)
    assert not is_expired(at(TransactionState.ONGOING), 10_000, 100)


def test_state_transition_outside_the_table_raises() -> None:
    for state, allowed in VALID_TRANSITIONS.items():
        for following in TransactionState:
            if following in allowed:
                assert at(state).transition_to(following).state is following
            else:
                with pytest.raises(IllegalStateError):
                    at(state).transition_to(following)
