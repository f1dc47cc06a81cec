"""Producer state of a log: sequences, epochs, transactions, snapshots and verification guards."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.storage.conftest import NOW, batch

from ottla.clock import ManualClock
from ottla.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaStorageError,
    OutOfOrderSequenceNumberError,
    TransactionCoordinatorFencedError,
    UnknownProducerIdError,
)
from ottla.storage.log import Appended, Log
from ottla.storage.producer_state import ABORT, COMMIT, ProducerStates, marker_record, snapshots_in
from ottla.storage.txn_index import AbortedTransaction, TransactionIndex


def send(
    log: Log, sequence: int, *, producer_id: int = 1, epoch: int = 0, rows: int = 1, transactional: bool = False
) -> Appended:
    data = batch(
        *[b"v"] * rows,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return log.append(data, leader_epoch=0)


def end(log: Log, kind: int, *, producer_id: int = 1, epoch: int = 0, coordinator_epoch: int = 0) -> Appended:
    data = batch(
        marker_record(kind, coordinator_epoch),
        producer_id=producer_id,
        producer_epoch=epoch,
        transactional=True,
        control=True,
    )
    return log.append(data, leader_epoch=0, origin_client=False)


def test_duplicate_batch_returns_the_original_offsets(make_log: Callable[..., Log]) -> None:
    log = make_log()
    first = [send(log, i * 2, rows=2) for i in range(5)]
    for i, appended in enumerate(first):
        again = send(log, i * 2, rows=2)
        assert again.duplicate
        assert (again.base_offset, again.last_offset) == (appended.base_offset, appended.last_offset)
    assert log.log_end_offset == 10
    send(log, 10)
    with pytest.raises(OutOfOrderSequenceNumberError):
        send(log, 0, rows=2)


def test_sequence_gap_raises_out_of_order_sequence_number(make_log: Callable[..., Log]) -> None:
    log = make_log()
    send(log, 0)
    with pytest.raises(OutOfOrderSequenceNumberError, match="sent sequence 2 instead of 1"):
        send(log, 2)
    send(log, 1)


def test_unknown_producer_may_start_at_any_sequence(make_log: Callable[..., Log]) -> None:
    assert send(make_log(), 41).base_offset == 0


def test_sequence_wraps_to_zero(make_log: Callable[..., Log]) -> None:
    log = make_log()
    send(log, 2_147_483_646, rows=2)
    send(log, 0)


def test_new_producer_epoch_starts_at_sequence_0_and_fences_the_old_epoch(make_log: Callable[..., Log]) -> None:
    log = make_log()
    send(log, 0)
    with pytest.raises(OutOfOrderSequenceNumberError):
        send(log, 1, epoch=1)
    send(log, 0, epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        send(log, 1, epoch=0)


def test_open_transaction_holds_back_the_last_stable_offset(make_log: Callable[..., Log]) -> None:
    log = make_log()
    send(log, 0, producer_id=9)
    send(log, 0, transactional=True)
    send(log, 1, transactional=True)
    log.high_watermark = log.log_end_offset
    assert log.last_stable_offset == 1
    end(log, COMMIT)
    assert log.last_stable_offset == 1, "decided, but its marker is not replicated yet"
    log.high_watermark = log.log_end_offset
    assert log.last_stable_offset == log.log_end_offset == 4
    assert log.aborted_transactions(0, 4) == []


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_sequences_of_an_ended_transaction_are_not_duplicates(make_log: Callable[..., Log], kind: int) -> None:
    # librdkafka reuses sequences of batches without a response when it aborts their transaction
    log = make_log()
    send(log, 0, rows=2, transactional=True)
    assert send(log, 0, rows=2, transactional=True).duplicate
    end(log, kind)
    with pytest.raises(UnknownProducerIdError, match="sequence 0 again"):
        send(log, 0, rows=2, transactional=True)
    first = send(log, 2, rows=2, transactional=True)
    assert not first.duplicate
    assert send(log, 2, rows=2, transactional=True).duplicate
    with pytest.raises(UnknownProducerIdError):
        send(log, 0, rows=2, transactional=True)
    send(log, 0, rows=2, transactional=True, epoch=1)


def test_aborted_transactions_that_overlap_a_range_are_listed(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_bytes=300)
    for i in range(3):
        send(log, i * 2, producer_id=5, transactional=True)
        send(log, i, producer_id=6, transactional=True)
        send(log, i * 2 + 1, producer_id=5, transactional=True)
        end(log, ABORT, producer_id=5)
        end(log, COMMIT, producer_id=6)
    assert len(log.segments) > 2
    actual = log.aborted_transactions(0, 15)
    assert [(a.producer_id, a.first_offset, a.last_offset) for a in actual] == [(5, 0, 3), (5, 5, 8), (5, 10, 13)]
    assert [a.first_offset for a in log.aborted_transactions(4, 10)] == [5]
    assert [a.first_offset for a in log.aborted_transactions(0, 5)] == [0]
    log.close()
    again = make_log(segment_bytes=300, clean=True)
    assert again.aborted_transactions(0, 15) == actual
    recovered = make_log(segment_bytes=300)
    assert recovered.aborted_transactions(0, 15) == actual


def test_open_transaction_survives_a_restart(make_log: Callable[..., Log]) -> None:
    log = make_log()
    send(log, 0, transactional=True)
    log.close_without_flush()
    for clean in (False, True):
        again = make_log(clean=clean)
        again.high_watermark = 1
        assert again.last_stable_offset == 0
        again.close()
    end(make_log(clean=True), ABORT)
    final = make_log()
    assert [a.first_offset for a in final.aborted_transactions(0, 2)] == [0]


def test_non_transactional_write_during_an_open_transaction_is_rejected(make_log: Callable[..., Log]) -> None:
    log = make_log()
    send(log, 0, transactional=True)
    with pytest.raises(InvalidTxnStateError):
        send(log, 1)


def test_marker_of_an_older_coordinator_or_epoch_is_fenced(make_log: Callable[..., Log]) -> None:
    log = make_log()
    send(log, 0, epoch=3, transactional=True)
    end(log, COMMIT, epoch=3, coordinator_epoch=8)
    with pytest.raises(TransactionCoordinatorFencedError):
        end(log, COMMIT, epoch=3, coordinator_epoch=7)
    with pytest.raises(InvalidProducerEpochError):
        end(log, COMMIT, epoch=2, coordinator_epoch=8)


def test_marker_of_a_higher_producer_epoch_starts_that_epoch(make_log: Callable[..., Log]) -> None:
    log = make_log()
    send(log, 0, transactional=True)
    end(log, ABORT, epoch=1)
    send(log, 0, epoch=1, transactional=True)


def test_idle_producers_expire_unless_a_transaction_is_open(make_log: Callable[..., Log], clock: ManualClock) -> None:
    log = make_log()
    send(log, 0, producer_id=1)
    send(log, 0, producer_id=2, transactional=True)
    log.producers.remove_expired(NOW + 86_400_000)
    assert set(log.producers.producers) == {1, 2}
    log.producers.remove_expired(NOW + 86_400_001)
    assert set(log.producers.producers) == {2}


def test_producer_snapshot_round_trip(tmp_path: Path, make_log: Callable[..., Log]) -> None:
    log = make_log()
    send(log, 0, producer_id=1, rows=3)
    send(log, 7, producer_id=2, epoch=4, transactional=True)
    log.roll()
    ((offset, path),) = snapshots_in(log.dir)
    assert offset == 4
    states = ProducerStates(log.dir)
    states.load_snapshot(path)
    assert {p.id: (p.epoch, p.last_sequence, p.first_txn_offset) for p in states.producers.values()} == {
        1: (0, 2, -1),
        2: (4, 7, 3),
    }
    assert states.ongoing == {3: 2}
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    with pytest.raises(KafkaStorageError, match="damaged"):
        states.load_snapshot(path)


def test_batches_in_flight_are_duplicates_after_a_clean_restart(make_log: Callable[..., Log]) -> None:
    log = make_log()
    for i in range(7):
        send(log, i)
    log.close()
    again = make_log(clean=True)
    for sequence in range(2, 7):
        assert send(again, sequence).duplicate
    with pytest.raises(OutOfOrderSequenceNumberError):
        send(again, 1)


def test_snapshot_of_one_batch_has_the_format_of_kafka(make_log: Callable[..., Log]) -> None:
    log = make_log()
    send(log, 0)
    log.close()
    ((_, path),) = snapshots_in(log.dir)
    assert len(path.read_bytes()) == 10 + 46, "nothing follows Kafka's entries if there are no earlier batches"


def test_recovery_after_a_roll_needs_only_the_last_snapshot(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_bytes=300)
    for i in range(20):
        send(log, i)
    log.close_without_flush()
    again = make_log(segment_bytes=300, recovery_point=log.segments[-1].base_offset)
    assert again.producers.producers[1].last_sequence == 19
    assert send(again, 19).duplicate


def test_open_transaction_is_identified_by_producer_id_and_epoch(make_log: Callable[..., Log]) -> None:
    log = make_log()
    send(log, 0, epoch=2, transactional=True)
    assert log.producers.has_open_transaction(1, 2)
    assert not log.producers.has_open_transaction(1, 3)
    assert not log.producers.has_open_transaction(2, 2)
    end(log, COMMIT, epoch=2)
    assert not log.producers.has_open_transaction(1, 2)


def test_late_marker_of_transaction_version_2_is_rejected(make_log: Callable[..., Log]) -> None:
    log = make_log()
    log.producers.check_bumped(1, 0)
    send(log, 0, epoch=2, transactional=True)
    for late in (1, 2):
        with pytest.raises(InvalidProducerEpochError):
            log.producers.check_bumped(1, late)
    log.producers.check_bumped(1, 3)
    end(log, COMMIT, epoch=3)
    log.producers.check_bumped(1, 3)  # the same marker again
    with pytest.raises(InvalidProducerEpochError):
        log.producers.check_bumped(1, 2)


def test_batch_that_overtook_the_first_batch_is_out_of_order(make_log: Callable[..., Log]) -> None:
    log = make_log()
    log.producers.expect(1, 0, 3)
    log.producers.expect(1, 0, 5)
    with pytest.raises(OutOfOrderSequenceNumberError):
        send(log, 5, transactional=True)
    send(log, 3, transactional=True, rows=2)
    send(log, 5, transactional=True)


def test_new_producer_epoch_discards_the_expected_sequence_of_the_old_epoch(make_log: Callable[..., Log]) -> None:
    log = make_log()
    log.producers.expect(1, 0, 0)
    log.producers.expect(1, 1, 4)
    send(log, 4, epoch=1, transactional=True)


def test_expected_sequence_of_a_producer_without_batches_expires(
    make_log: Callable[..., Log], clock: ManualClock
) -> None:
    log = make_log()
    log.producers.expect(1, 0, 0)
    log.producers.remove_expired(NOW)
    send(log, 7, transactional=True)


def test_abort_marker_is_not_appended_if_the_transaction_index_fails(
    make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log()
    send(log, 0, transactional=True)

    def full(*_: AbortedTransaction | TransactionIndex) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(TransactionIndex, "append", full)
    with pytest.raises(KafkaStorageError, match="no space"):
        end(log, ABORT)
    monkeypatch.undo()
    assert log.log_end_offset == 1
    end(log, ABORT)
    log.high_watermark = log.log_end_offset
    assert log.last_stable_offset == 2
    assert [a[:3] for a in log.aborted_transactions(0, 2)] == [(1, 0, 1)]


def test_replicated_transactions_are_dropped_without_readers(make_log: Callable[..., Log]) -> None:
    log = make_log()
    for i in range(10):
        send(log, i, transactional=True)
        end(log, COMMIT)
        log.high_watermark = log.log_end_offset
    assert len(log.producers._unreplicated) == 1


def test_last_stable_offset_is_not_before_the_log_start_offset(
    make_log: Callable[..., Log],
) -> None:
    log = make_log()
    for i in range(2):
        send(log, i, transactional=True)
    log.high_watermark = 2
    log.delete_records_before(1)
    assert log.last_stable_offset == 1


def test_verification_guard_is_valid_until_a_batch_or_marker_of_its_producer(make_log: Callable[..., Log]) -> None:
    log = make_log()
    states = log.producers
    guard = states.guard(1, 0)
    assert states.guard(1, 0) is guard
    send(log, 0, producer_id=2)
    assert states.is_guarded(1, guard)
    end(log, ABORT)
    assert not states.is_guarded(1, guard)
    guard = states.guard(1, 0)
    send(log, 0, transactional=True)
    assert not states.is_guarded(1, guard)


def test_verification_guard_belongs_to_one_producer_epoch(make_log: Callable[..., Log]) -> None:
    states = make_log().producers
    old = states.guard(1, 0)
    new = states.guard(1, 1)
    assert not states.is_guarded(1, old)
    assert not states.is_guarded(1, states.guard(1, 0)), "a fenced producer does not invalidate the guard"
    assert states.is_guarded(1, new)


def test_unused_verification_guards_expire(make_log: Callable[..., Log]) -> None:
    states = make_log().producers
    guard = states.guard(1, 0)
    states.remove_expired(NOW)
    assert states.is_guarded(1, guard), "a verification may be in progress"
    states.remove_expired(NOW)
    assert not states.is_guarded(1, guard)
