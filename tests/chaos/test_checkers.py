"""Each checker accepts a valid history and reports the violation in an invalid one."""

from __future__ import annotations

from pathlib import Path
from struct import pack
from typing import Any

import pytest
from tests.chaos.compare import longest_by_kind, table
from tests.chaos.unavailability import gaps

from ottla.model import TopicPartition
from ottla.records.batch import HEADER_BYTES, LOG_OVERHEAD
from ottla.simulation import checkers
from ottla.simulation.history import (
    ORDERED,
    TRANSFERS,
    Ack,
    Assigned,
    Attempt,
    Committed,
    Consumed,
    History,
    Outcome,
    SentRecord,
    StoredRecord,
    TransferRecord,
)
from ottla.simulation.replicas import Batch, Replica, read_replicas
from ottla.storage.checkpoints import HIGH_WATERMARKS, write_offsets

P0 = TopicPartition(ORDERED, 0)


def sent(sequence: int, producer: str = "a") -> SentRecord:
    return SentRecord(producer, 0, sequence)


def log(*of: SentRecord) -> list[StoredRecord]:
    return [StoredRecord(P0, offset, one.value) for offset, one in enumerate(of)]


def acks(*of: SentRecord) -> list[Ack]:
    return [Ack(0.0, one, offset) for offset, one in enumerate(of)]


def test_record_values_are_parsed_back() -> None:
    assert SentRecord.parse(sent(3).value) == sent(3)
    assert TransferRecord.parse(TransferRecord("w", 1, 2, 0).value) == TransferRecord("w", 1, 2, 0)


def test_valid_log_has_no_violations() -> None:
    stored = log(sent(0), sent(0, "b"), sent(1))
    assert checkers.no_acked_record_is_lost(acks(sent(0), sent(0, "b"), sent(1)), stored) == []
    assert checkers.no_record_is_duplicated(stored) == []
    assert checkers.order_is_preserved(stored) == []


@pytest.mark.parametrize("stored", [log(sent(0)), log(sent(0), sent(7))], ids=["truncated", "replaced"])
def test_lost_record_is_reported(stored: list[StoredRecord]) -> None:
    (wrong,) = checkers.no_acked_record_is_lost(acks(sent(0), sent(1)), stored)
    assert "offset 1" in wrong


def test_lost_record_acked_without_an_offset_is_reported() -> None:
    assert checkers.no_acked_record_is_lost([Ack(0.0, sent(0), None)], log(sent(0))) == []
    assert len(checkers.no_acked_record_is_lost([Ack(0.0, sent(1), None)], log(sent(0)))) == 1


def test_duplicated_record_is_reported() -> None:
    (wrong,) = checkers.no_record_is_duplicated(log(sent(0), sent(1), sent(0)))
    assert "2 times" in wrong


def test_failed_delivery_is_reported() -> None:
    assert checkers.every_delivery_succeeds([]) == []
    (wrong,) = checkers.every_delivery_succeeds([(0.0, sent(0), "timed out")])
    assert "timed out" in wrong


def test_ended_producer_is_reported() -> None:
    assert checkers.no_producer_has_ended({}) == []
    assert checkers.no_producer_has_ended({"librdkafka-0": "_FATAL"}) == ["librdkafka-0: _FATAL"]


def test_reordered_records_are_reported() -> None:
    (wrong,) = checkers.order_is_preserved(log(sent(1), sent(0)))
    assert "comes after 1" in wrong


def attempt(outcome: Outcome) -> Attempt:
    return Attempt("w", 1, (0, 1), outcome)


def halves(*of: TransferRecord) -> list[StoredRecord]:
    return [StoredRecord(TopicPartition(TRANSFERS, half.side), offset, half.value) for offset, half in enumerate(of)]


WHOLE = halves(*sorted(attempt(Outcome.UNKNOWN).records))


@pytest.mark.parametrize(
    ("outcome", "records"),
    [(Outcome.COMMITTED, WHOLE), (Outcome.ABORTED, []), (Outcome.UNKNOWN, WHOLE), (Outcome.UNKNOWN, [])],
)
def test_complete_or_absent_transaction_is_no_violation(outcome: Outcome, records: list[StoredRecord]) -> None:
    assert checkers.transactions_are_atomic([attempt(outcome)], records) == []


@pytest.mark.parametrize(
    ("outcome", "records", "words"),
    [
        (Outcome.COMMITTED, WHOLE[:3], "torn"),
        (Outcome.UNKNOWN, WHOLE[:1], "torn"),
        (Outcome.COMMITTED, [], "lost"),
        (Outcome.ABORTED, WHOLE, "visible"),
    ],
)
def test_torn_transaction_is_reported(outcome: Outcome, records: list[StoredRecord], words: str) -> None:
    (wrong,) = checkers.transactions_are_atomic([attempt(outcome)], records)
    assert words in wrong


def test_transaction_that_was_never_started_is_reported() -> None:
    (wrong,) = checkers.transactions_are_atomic([], WHOLE)
    assert "never started" in wrong


def test_transfers_are_exactly_once() -> None:
    assert checkers.transfers_are_exactly_once({"w": 2}, WHOLE) == []


@pytest.mark.parametrize(
    ("end", "records", "words"),
    [
        (3, WHOLE, "did not transfer 2"),
        (2, [*WHOLE, *halves(TransferRecord("w", 2, 1, 0), TransferRecord("w", 2, 1, 1))], "transferred 1 2 times"),
        (1, WHOLE, "only up to 1"),
        (None, WHOLE, "could not end"),
    ],
)
def test_missing_or_duplicated_transfer_is_reported(end: int | None, records: list[StoredRecord], words: str) -> None:
    wrong = checkers.transfers_are_exactly_once({"w": end}, records)
    assert any(words in line for line in wrong)


def test_open_transaction_is_reported() -> None:
    assert checkers.no_transaction_stays_open({}) == []
    (wrong,) = checkers.no_transaction_stays_open({P0: (3, 9)})
    assert "3 of 9" in wrong


GOOD_GROUP: list[checkers.GroupEvent] = [
    Assigned(0.0, "m", P0),
    Consumed(1.0, "m", P0, 0),
    Committed(2.0, "m", P0, 1),
    Assigned(3.0, "n", P0),
    Consumed(4.0, "n", P0, 1),
]


def test_group_that_resumes_from_the_committed_offset_is_no_violation() -> None:
    assert checkers.every_record_is_consumed(GOOD_GROUP, log(sent(0), sent(1))) == []


def test_record_that_no_member_consumed_is_reported() -> None:
    (wrong,) = checkers.every_record_is_consumed(GOOD_GROUP, log(sent(0), sent(1), sent(2)))
    assert "no member took" in wrong


def test_lost_committed_offset_is_reported() -> None:
    events = [*GOOD_GROUP[:4], Consumed(4.0, "n", P0, 0), Consumed(5.0, "n", P0, 1)]
    (wrong,) = checkers.every_record_is_consumed(events, log(sent(0), sent(1)))
    assert "again" in wrong


def test_commit_retried_after_a_later_one_is_no_violation() -> None:
    repeated, taken = Committed(2.5, "m", P0, 0), [Consumed(4.0, "n", P0, 0), Consumed(5.0, "n", P0, 1)]
    events = [*GOOD_GROUP[:3], repeated, GOOD_GROUP[3], *taken]
    assert checkers.every_record_is_consumed(events, log(sent(0), sent(1))) == []


def test_record_consumed_twice_by_a_member_is_reported() -> None:
    events = [*GOOD_GROUP, Consumed(5.0, "n", P0, 1)]
    assert len(checkers.every_record_is_consumed(events, log(sent(0), sent(1)))) == 1


def replica(high_watermark: int, *digests: str) -> Replica:
    return Replica(high_watermark, [Batch(offset, offset + 1, digest) for offset, digest in enumerate(digests)])


def test_replicas_may_differ_beyond_the_lowest_high_watermark() -> None:
    assert checkers.replicas_are_equal({P0: [replica(2, "x", "y"), replica(1, "x"), replica(2, "x", "z")]}) == []


@pytest.mark.parametrize("other", [replica(2, "x", "z"), replica(2, "x")], ids=["other bytes", "a batch is missing"])
def test_different_replicas_are_reported(other: Replica) -> None:
    (wrong,) = checkers.replicas_are_equal({P0: [replica(2, "x", "y"), replica(2, "x", "y"), other]})
    assert "ordered-0" in wrong


def test_lagging_replica_is_reported() -> None:
    complete, behind = replica(2, "x", "y"), replica(1, "x")
    acked = acks(sent(0), sent(1))
    assert checkers.high_watermarks_cover_acked_records(acked, {P0: [complete] * 3}) == []
    assert len(checkers.high_watermarks_cover_acked_records(acked, {P0: [complete, complete, behind]})) == 1
    assert len(checkers.high_watermarks_cover_acked_records(acked, {P0: [complete, complete]})) == 1


def batch(offset: int, records: bytes) -> bytes:
    length = HEADER_BYTES - LOG_OVERHEAD + len(records)
    return pack(">qiibIhiqqqhii", offset, length, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1) + records


def test_replicas_are_read_from_log_directories(tmp_path: Path) -> None:
    for broker, last in (("1", b"same"), ("2", b"other")):
        folder = tmp_path / broker / "ordered-0"
        folder.mkdir(parents=True)
        (folder / f"{0:020}.log").write_bytes(batch(0, b"same"))
        (folder / f"{1:020}.log").write_bytes(batch(1, last) + batch(2, b"behind"))
        write_offsets(tmp_path / broker / HIGH_WATERMARKS, {TopicPartition(ORDERED, 0): 2})
    replicas = read_replicas([tmp_path / "1", tmp_path / "2"])
    assert [len(one.batches) for one in replicas[P0]] == [2, 2]
    assert len(checkers.replicas_are_equal(replicas)) == 1
    assert checkers.replicas_are_equal(read_replicas([tmp_path / "1", tmp_path / "1"])) == []


def test_longest_gap_overlaps_the_fault() -> None:
    times = [0.0, 1.0, 2.0, 7.0, 7.5, 20.0]
    actual = gaps([Ack(at, sent(0), 0) for at in times], began=3.0, ended=7.2, partitions=1)
    assert actual == {0: 5.0}
    assert gaps([], began=3.0, ended=7.0, partitions=1) == {0: 4.0}


def test_comparison_marks_kinds_with_longer_gaps() -> None:
    def result(peer: str, kind: str, *longest: float) -> dict[str, Any]:
        gaps = [{"kind": kind, "seconds": 5.0, "gaps": {"0": 0.1, "1": gap}} for gap in longest]
        return {"peer": peer, "faults": gaps}

    results = [result("kafka", "kill", 6.0, 8.0), result("ottla", "kill", 9.0), result("ottla", "restart", 0.2)]
    lines = list(table(longest_by_kind(results)))
    assert lines[2].split() == ["kill", "2", "7.00", "8.00", "3.00", "1", "9.00", "9.00", "4.00", "longer"]
    assert lines[3].split() == ["restart", "-", "-", "-", "-", "1", "0.20", "0.20", "-4.80"]


def test_comparison_does_not_mark_longer_gap_of_a_longer_fault() -> None:
    cut = {"kind": "cut-peers", "seconds": 6.0, "gaps": {"0": 6.5}}
    longer = {"kind": "cut-peers", "seconds": 9.0, "gaps": {"0": 9.1}}
    results = [{"peer": "kafka", "faults": [cut]}, {"peer": "ottla", "faults": [longer]}]
    assert not list(table(longest_by_kind(results)))[2].endswith("longer")


def test_history_returns_partitions_written_and_consumed_since_a_time() -> None:
    history = History(
        [Ack(at, SentRecord("a", partition, 1), 0) for at, partition in ((1.0, 0), (2.0, 1), (3.0, 2), (3.1, 1))],
        group=[Consumed(1.0, "m", P0, 0), Committed(2.0, "m", P0, 1)],
    )
    assert history.written_since(2.0) == {1, 2}
    assert history.written_since(4.0) == set()
    assert history.consumed_since(0.5) == {TopicPartition(ORDERED, 0)}
    assert history.consumed_since(1.5) == set()
