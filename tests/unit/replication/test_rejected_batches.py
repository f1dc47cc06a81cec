"""Batches that were rejected for a passing reason hold back those behind them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.broker.broker_client import batch

from ottla.clock import ManualClock
from ottla.errors import (
    CorruptMessageError,
    InvalidRecordError,
    KafkaError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    UnknownTopicOrPartitionError,
)
from ottla.model import TopicPartition
from ottla.records.batch import BatchHeader, read_header
from ottla.replication import rejected_batches
from ottla.replication.rejected_batches import EXPIRY_SECONDS, RejectedBatches
from ottla.storage.producer_state import MAX_SEQUENCE, ProducerStates

TP = TopicPartition("t", 0)


def header(sequence: int, epoch: int = 0, producer_id: int = 1) -> BatchHeader:
    return read_header(memoryview(batch(b"v", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def rejected(clock: ManualClock) -> RejectedBatches:
    return RejectedBatches(clock)


@pytest.fixture
def producers(tmp_path: Path) -> ProducerStates:
    return ProducerStates(tmp_path)


@pytest.mark.parametrize("error", [NotLeaderOrFollowerError, NotEnoughReplicasError, UnknownTopicOrPartitionError])
def test_check_behind_a_rejected_batch_raises_the_same_error(
    rejected: RejectedBatches, producers: ProducerStates, error: type[KafkaError]
) -> None:
    rejected.add(TP, header(1), error())
    with pytest.raises(error, match="base_sequence=1 was rejected"):
        rejected.check(TP, header(2), producers)
    rejected.check(TP, header(0), producers)
    rejected.check(TP, header(1), producers)
    rejected.check(TopicPartition("t", 1), header(2), producers)
    rejected.check(TP, header(2, producer_id=2), producers)


def test_check_after_the_batch_was_appended_forgets_it(rejected: RejectedBatches, producers: ProducerStates) -> None:
    rejected.add(TP, header(1), NotLeaderOrFollowerError())
    producers.update(header(1))
    rejected.check(TP, header(2), producers)
    assert not rejected


def test_check_after_the_batch_was_truncated_still_raises(rejected: RejectedBatches, producers: ProducerStates) -> None:
    producers.update(header(1))
    rejected.add(TP, header(1), NotLeaderOrFollowerError())
    producers.clear()
    with pytest.raises(NotLeaderOrFollowerError):
        rejected.check(TP, header(2), producers)


def test_check_with_several_rejections_waits_for_the_first_that_is_missing(
    rejected: RejectedBatches, producers: ProducerStates
) -> None:
    for sequence in (1, 2, 3):
        rejected.add(TP, header(sequence), NotLeaderOrFollowerError())
    producers.update(header(1))
    rejected.check(TP, header(2), producers)
    with pytest.raises(NotLeaderOrFollowerError, match="base_sequence=2 was"):
        rejected.check(TP, header(4), producers)


def test_check_across_the_wrap_of_sequences_raises(rejected: RejectedBatches, producers: ProducerStates) -> None:
    rejected.add(TP, header(MAX_SEQUENCE), NotLeaderOrFollowerError())
    with pytest.raises(NotLeaderOrFollowerError):
        rejected.check(TP, header(0), producers)
    producers.update(header(MAX_SEQUENCE))
    producers.update(header(0))
    rejected.check(TP, header(1), producers)


def test_check_in_a_newer_epoch_forgets_the_rejections(rejected: RejectedBatches, producers: ProducerStates) -> None:
    rejected.add(TP, header(5, epoch=0), NotLeaderOrFollowerError())
    rejected.check(TP, header(0, epoch=1), producers)
    assert not rejected


def test_add_in_a_newer_epoch_replaces_older_rejections(rejected: RejectedBatches, producers: ProducerStates) -> None:
    rejected.add(TP, header(5, epoch=0), NotLeaderOrFollowerError())
    rejected.add(TP, header(0, epoch=1), NotLeaderOrFollowerError())
    rejected.add(TP, header(6, epoch=0), NotLeaderOrFollowerError())
    with pytest.raises(NotLeaderOrFollowerError, match="base_sequence=0 was"):
        rejected.check(TP, header(1, epoch=1), producers)


def test_check_after_the_expiry_passes(
    rejected: RejectedBatches, producers: ProducerStates, clock: ManualClock
) -> None:
    rejected.add(TP, header(1), NotLeaderOrFollowerError())
    clock.advance(EXPIRY_SECONDS * 1000)
    rejected.check(TP, header(2), producers)


@pytest.mark.parametrize("error", [InvalidRecordError(), CorruptMessageError()])
def test_add_of_an_error_about_the_batch_itself_is_ignored(rejected: RejectedBatches, error: KafkaError) -> None:
    rejected.add(TP, header(1), error)
    assert not rejected


def test_add_beyond_the_bound_drops_the_oldest(
    rejected: RejectedBatches, producers: ProducerStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejected_batches, "MAX_PRODUCERS", 2)
    for producer_id in (1, 2, 3):
        rejected.add(TP, header(1, producer_id=producer_id), NotLeaderOrFollowerError())
    rejected.check(TP, header(2, producer_id=1), producers)
    with pytest.raises(NotLeaderOrFollowerError):
        rejected.check(TP, header(2, producer_id=3), producers)
