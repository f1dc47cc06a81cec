"""The checkers of consumer groups, on invalid histories."""

from __future__ import annotations

from ottla.model import TopicPartition
from ottla.simulation import checkers
from ottla.simulation.history import ORDERED, Assigned, Consumed, StoredRecord

P0, P1 = TopicPartition(ORDERED, 0), TopicPartition(ORDERED, 1)


def test_two_owners_of_a_partition_in_one_generation_are_reported() -> None:
    good = [Assigned(0.0, "a", P0, 1), Assigned(0.0, "b", P1, 1), Assigned(1.0, "b", P0, 2)]
    assert checkers.partitions_have_one_owner(good) == []
    (violation,) = checkers.partitions_have_one_owner([*good, Assigned(2.0, "a", P0, 2)])
    assert "in generation 2" in violation


def test_owners_without_a_generation_are_not_compared() -> None:
    assert checkers.partitions_have_one_owner([Assigned(0.0, "a", P0), Assigned(0.0, "b", P0)]) == []


def test_consumed_record_that_is_never_committed_is_reported() -> None:
    events = [Consumed(0.0, "a", P0, 3), Consumed(0.0, "a", P0, 4)]
    assert checkers.only_committed_records_are_read(events, [StoredRecord(P0, 3, b""), StoredRecord(P0, 4, b"")]) == []
    assert checkers.only_committed_records_are_read(events, [StoredRecord(P0, 3, b"")]) == [f"a took {P0} 4"]
