"""Offsets of open transactions: pending until the commit, and superseded by later commits."""

from __future__ import annotations

from ottla.coordinator.group.classic.records import CommittedOffset
from ottla.coordinator.group.pending_offsets import OffsetKey, OpenTransaction, PendingOffsets
from ottla.model import TopicPartition

TP = TopicPartition("t", 0)
KEY = OffsetKey("g", TP)
FIRST, SECOND = OpenTransaction(0, 1), OpenTransaction(0, 2)


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", 0)


def test_pending_offsets_are_visible_after_the_commit_only() -> None:
    pending = PendingOffsets()
    pending.add(FIRST, KEY, at(1))
    pending.add(FIRST, KEY, at(2))
    assert pending.has("g", TP)
    assert not pending.has("g", TopicPartition("t", 1))
    assert list(pending.of_group("g")) == [TP]
    assert pending.commit(FIRST) == {KEY: at(2)}
    assert not pending.has("g", TP)
    assert pending.commit(FIRST) == {}


def test_pending_transactions_are_separate_by_producer_and_partition() -> None:
    pending = PendingOffsets()
    pending.add(FIRST, KEY, at(1))
    other = OffsetKey("h", TP)
    pending.add(OpenTransaction(1, 1), other, at(5))
    assert pending.end(FIRST) == {KEY: at(1)}
    assert pending.has("h", TP)
    assert pending.commit(OpenTransaction(1, 1)) == {other: at(5)}


def test_later_commit_in_the_log_supersedes_an_earlier_one() -> None:
    pending = PendingOffsets()
    pending.add(FIRST, KEY, at(1))
    pending.add(SECOND, KEY, at(2))
    assert pending.commit(SECOND) == {KEY: at(2)}
    assert pending.commit(FIRST) == {}  # compaction would have removed it


def test_commit_of_an_earlier_transaction_leaves_a_later_one_pending() -> None:
    pending = PendingOffsets()
    pending.add(FIRST, KEY, at(1))
    pending.add(SECOND, KEY, at(2))
    assert pending.commit(FIRST) == {KEY: at(1)}
    assert pending.has("g", TP)
    assert pending.commit(SECOND) == {KEY: at(2)}


def test_aborted_transaction_leaves_the_other_pending() -> None:
    pending = PendingOffsets()
    pending.add(FIRST, KEY, at(1))
    pending.add(SECOND, KEY, at(2))
    pending.end(SECOND)
    assert pending.commit(FIRST) == {KEY: at(1)}


def test_commit_outside_of_transactions_supersedes_pending_ones() -> None:
    pending = PendingOffsets()
    pending.add(FIRST, KEY, at(1))
    pending.supersede(KEY)
    assert not pending.has("g", TP)
    assert pending.commit(FIRST) == {}
