"""Bugs of leaders and followers."""

from __future__ import annotations

from typing import Any

from tests.simulation.planted.patching import needs, patch

from ottla.replication.isr_state import LeaderState, Replica
from ottla.replication.leader_replica import LeaderReplica
from ottla.replication.partition import Partition
from ottla.replication.rejected_batches import RejectedBatches
from ottla.storage.log import Log
from ottla.storage.validation import read_copied_batches


def acknowledge_before_replication() -> None:
    """The leader responds to acks=all when it has appended the record itself."""
    patch(Partition, "when_committed", lambda self, next_offset, acks=-1: None)


def high_watermark_is_the_log_end() -> None:
    """The leader does not wait for its followers."""

    def advance(self: Any, gained: int) -> None:
        if self.leads:
            self.log.high_watermark = self.log.log_end_offset
            self._replicated.complete_up_to(self.log.log_end_offset)

    patch(Partition, "maybe_advance_high_watermark", advance)


def followers_never_truncate() -> None:
    """A follower keeps records that its leader does not have."""
    patch(Log, "truncate_to", lambda self, offset: False)


def high_watermark_is_taken_back() -> None:
    """The high watermark of a leader follows the replicas in sync down as well as up."""
    original = Partition.lead

    def lead(self: Any, image: Any) -> bool:
        new = original(self, image)
        if new:
            self.log.high_watermark = self.log.log_start_offset
        return new

    patch(Partition, "lead", lead)


@needs("restart")
def followers_truncate_to_the_high_watermark() -> None:
    """A follower of a new leader truncates to its high watermark, not to where epochs diverge (before KIP-101)."""
    original = Partition.become_follower

    def become_follower(self: Any, image: Any) -> None:
        new = image.leader_epoch > self.image.leader_epoch
        original(self, image)
        if new and not self.closed:
            self.log.truncate_to(self.log.high_watermark)

    patch(Partition, "become_follower", become_follower)


def leader_epochs_are_not_compared() -> None:
    """Leaders serve fetches for any leader epoch."""
    patch(Partition, "check_epoch", lambda self, expected: self.check_open())


def min_insync_replicas_is_one() -> None:
    """A leader that is alone acknowledges."""
    patch(Partition, "required_isr", property(lambda self: 1))
    patch(LeaderState, "required", lambda self, min_insync_replicas: 1)


def replicas_join_the_isr_too_early() -> None:
    """A follower joins the ISR with its first fetch."""

    def expanded(self: Any, replica: Any, high_watermark: int) -> tuple[int, ...] | None:
        if self.pending_isr is not None or replica.id in self.image.isr or replica.log_end < 0:
            return None
        return (*self.image.isr, replica.id)

    patch(LeaderState, "expanded_isr", expanded)


@needs("cut-link", "cut-from-zookeeper")
def a_smaller_isr_counts_before_it_is_written() -> None:
    """A leader does not wait for replicas that it has asked the controller to remove."""

    def high_watermark(self: Any, own_end: int, min_insync_replicas: int, now: float) -> int:
        isr = self.pending_isr or self.image.isr
        ends = [replica.log_end for replica in self.replicas.values() if replica.id in isr]
        return min([own_end, *ends]) if len(isr) >= self.required(min_insync_replicas) else -1

    patch(LeaderState, "high_watermark", high_watermark)


def fetch_offsets_are_believed_too_high() -> None:
    """A leader treats a fetch at an offset as the acknowledgement of the record at that offset."""
    original = Replica.fetched

    def fetched(self: Any, offset: int, log_start: int, broker_epoch: int, leader_end: int, now: float) -> None:
        original(self, min(offset + 1, leader_end), log_start, broker_epoch, leader_end, now)

    patch(Replica, "fetched", fetched)


@needs("slow-network", workloads=("flipped",))
def rejected_batches_are_overtaken() -> None:
    """Batches after a rejected one are not delayed: librdkafka then writes records twice."""
    patch(RejectedBatches, "check", lambda self, tp, header, producers: None)


@needs("pause", "isolation")
def replaced_leaders_reject_sequences() -> None:
    """A replaced leader returns OUT_OF_ORDER_SEQUENCE_NUMBER without confirming that it is still the leader."""
    patch(LeaderReplica, "confirm", lambda self, seconds: None)


@needs("power-loss", "kill", workloads=("shortened",))
def followers_reject_a_batch_that_begins_before_the_log_start() -> None:
    """A follower that starts where DeleteRecords has cut a batch of its leader rejects that batch."""
    patch(Log, "append_as_follower", lambda self, data: self._append_copied(data, read_copied_batches(data)))


@needs(workloads=("flipped",))
def new_leaders_reject_sequences() -> None:
    """A new leader answers OUT_OF_ORDER_SEQUENCE_NUMBER while earlier batches wait for the previous leader's response:
    librdkafka then writes records twice.
    """
    patch(LeaderReplica, "check_overtaking", lambda self, header: None)


BUGS = (
    followers_reject_a_batch_that_begins_before_the_log_start,
    acknowledge_before_replication,
    high_watermark_is_the_log_end,
    followers_never_truncate,
    high_watermark_is_taken_back,
    followers_truncate_to_the_high_watermark,
    leader_epochs_are_not_compared,
    min_insync_replicas_is_one,
    replicas_join_the_isr_too_early,
    a_smaller_isr_counts_before_it_is_written,
    fetch_offsets_are_believed_too_high,
    rejected_batches_are_overtaken,
    replaced_leaders_reject_sequences,
    new_leaders_reject_sequences,
)
