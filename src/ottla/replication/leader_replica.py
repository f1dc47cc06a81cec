"""The leader's part of a partition: handles followers' fetches, changes the ISR, and proves that this broker still
leads.

Replication works as in Kafka (KIP-101, KIP-497, KIP-966). The rules are in `isr_state`, without I/O.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple, Protocol

from ottla.cluster.image.cluster_image import PartitionImage
from ottla.errors import KafkaError, NotEnoughReplicasError, NotLeaderOrFollowerError, UnknownLeaderEpochError
from ottla.model import TopicPartition
from ottla.records.batch import NO_SEQUENCE, BatchHeader
from ottla.replication.isr_state import LeaderState, Replica
from ottla.replication.isr_updates import IsrSubmitter, submit_until_settled
from ottla.replication.offset_waiters import OffsetWaiters
from ottla.replication.rejected_batches import is_behind
from ottla.storage.log import Log

log = logging.getLogger("ottla.replication")

OVERTAKING_SECONDS: Final = 60.0
"""Time in seconds after the start of a leader epoch in which producers may still have to send batches again that they
sent to the previous leader. They do so at the latest when their request times out: librdkafka's default of
socket.timeout.ms.
"""


class FollowerFetch(NamedTuple):
    """A follower's fetch request, as the leader sees it."""

    replica_id: int
    broker_epoch: int
    leader_epoch: int
    offset: int
    log_start: int
    followed_at: float = float("-inf")
    """Time at which the leader created the response before this fetch, in seconds of the clock's `monotonic`: proof
    that the replica still followed it then. -inf if there was no such response.
    """


class LedPartition(Protocol):
    """The parts of a `Partition` that its `LeaderReplica` uses."""

    log: Log
    image: PartitionImage

    @property
    def topic_partition(self) -> TopicPartition: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def closed(self) -> bool: ...

    @property
    def required_isr(self) -> int: ...

    def is_older(self, image: PartitionImage) -> bool: ...

    def lead(self, image: PartitionImage) -> bool: ...

    def maybe_advance_high_watermark(self, gained: int) -> None: ...

    def wake_followers(self) -> None: ...

    async def flush(self) -> None: ...

    def flush_in_background(self) -> None: ...


class LeaderReplica:
    """The leader's part of a partition, which is idle while this broker does not lead. Not thread-safe: event loop
    only.
    """

    def __init__(self, partition: LedPartition, isr_updates: IsrSubmitter | None, lag_seconds: float) -> None:
        self._partition = partition
        self._isr_updates = isr_updates
        self._lag_seconds = lag_seconds
        self.state: LeaderState | None = None
        """The ISR and the followers' progress; None if there is no other replica, or this broker does not lead."""
        self._deletions = OffsetWaiters()
        """DeleteRecords requests, which wait until the log start offset of all live followers has reached an offset."""
        self._confirmations = OffsetWaiters()
        """Requests that wait for proof that this broker leads: in-sync followers must have followed it at or after a
        time.
        """
        self._alive: Callable[[], Iterable[int]] = tuple
        self._submission: asyncio.Task[None] | None = None

    def _now(self) -> float:
        return self._partition.log.clock.monotonic()

    def start_epoch(self, image: PartitionImage) -> None:
        """Start a leader epoch in which there are other replicas. Their offsets are not known yet."""
        log = self._partition.log
        end = log.log_end_offset
        # The epoch is stored even if nothing will be written in it, because a follower may have records of an epoch
        # that this log does not have.
        log.leader_epochs.assign(image.leader_epoch, end)
        self.state = LeaderState(image, end, self._now(), self._lag_seconds)

    def resign(self) -> None:
        """Drop the state of the followers, and cancel a pending ISR update."""
        if self.state is not None:
            self.state.clear_pending()
            self.state = None
        if self._submission is not None:
            self._submission.cancel()

    def followers_behind(self, offset: int) -> list[int]:
        """Return the sorted ids of the followers in the ISR or the pending ISR that have not fetched up to `offset`."""
        if self.state is None:
            return []
        return sorted(
            replica.id
            for replica in self.state.replicas.values()
            if replica.id in self.state.maximal_isr and replica.log_end < offset
        )

    def fail_waiters(self, error: KafkaError) -> None:
        self._deletions.fail_all(error)
        self._confirmations.fail_all(error)

    @property
    def is_hw_behind_epoch_start(self) -> bool:
        """Whether the high watermark may be below what consumers of the previous leader have seen (KIP-207)."""
        return self.state is not None and self._partition.high_watermark < self.state.start

    def high_watermark(self, local_end_offset: int, min_insync_replicas: int) -> int:
        """Return the offset to which the high watermark may advance; -1 if it must not.

        `local_end_offset`: the end of the records in this broker's log that are written, and flushed if required.
        """
        if self.state is None:
            return local_end_offset
        return self.state.high_watermark(local_end_offset, min_insync_replicas, self._now())

    @property
    def needs_confirmation(self) -> bool:
        """Whether a request waits for proof that this broker leads. Fetches of in-sync followers in a session are
        then answered at once.
        """
        return bool(self._confirmations)

    def confirm(self, seconds: float) -> asyncio.Future[None] | None:
        """Request proof that this broker still leads, before a client gets an error that only the leader may return, or
        state that only the leader knows.

        A broker that was paused, or that the controller cannot reach, does not know that another broker has since
        become leader and appended records that this log lacks. Return a future that completes when enough in-sync
        followers have proved that they still follow this leader: at least one, and so many that the others are fewer
        than min.insync.replicas, and can commit nothing without them. It fails with NotLeaderOrFollowerError after
        `seconds`, or when this broker resigns, and with KafkaStorageError if its disk fails. Return None if no other
        replica is in sync, because no other broker can be the leader then.

        This is the confirmation of reads by a quorum (section 6.4 of Ongaro's dissertation on Raft) for an ISR. Apache
        Kafka does not have it.
        """
        if self.state is None or len(self._partition.image.isr) <= 1:
            return None
        confirmed = self._confirmations.add(self._now())
        asyncio.get_running_loop().call_later(seconds, _fail_with_not_leader, confirmed)
        self._partition.wake_followers()
        return confirmed

    @property
    def is_new(self) -> bool:
        """Whether this broker has replaced another leader less than OVERTAKING_SECONDS ago, or has begun another leader
        epoch.
        """
        state = self.state
        return (
            state is not None
            and self._partition.image.leader_epoch > 0
            and self._now() - state.started_at < OVERTAKING_SECONDS
        )

    def check_overtaking(self, header: BatchHeader) -> None:
        """Raise NotEnoughReplicasError if sequence numbers are missing before a batch of an idempotent producer: the
        producer may have to send earlier batches again, which it sent to the previous leader, also if it has written
        in this leader epoch, because outdated metadata may have sent it back. Call it only while the leader `is_new`.

        After a change of the leader, librdkafka sends new batches to the new leader while earlier ones still wait for
        the response of the old one. After OUT_OF_ORDER_SEQUENCE_NUMBER it bumps its epoch and sends all batches of all
        partitions again, including those that are in a log although their response was lost: duplicates. The first
        batch of a producer that the log does not know would be accepted before earlier ones. Apache Kafka has both
        faults.
        """
        if not header.has_producer_id or header.base_sequence == NO_SEQUENCE:
            return
        producer = self._partition.log.producers.producers.get(header.producer_id)
        if producer is None or header.producer_epoch > producer.epoch:
            expected = 0
        elif header.producer_epoch < producer.epoch:
            return  # the producer is fenced: the log will raise the error
        else:
            expected = producer.next_sequence
        if is_behind(header.base_sequence, expected):
            raise NotEnoughReplicasError(
                f"{self._partition.topic_partition}: producer_id={header.producer_id} sent "
                f"base_sequence={header.base_sequence} instead of {expected}; earlier batches may have been sent to "
                "the previous leader, and have to be sent again"
            )

    @property
    def is_followed(self) -> bool:
        """Whether as many followers as `confirm` needs have followed this broker, or it has become leader, within
        replica.lag.time.max.ms.

        If not, it has probably been replaced without noticing, because a leader removes followers from the ISR that do
        not fetch for that long. True if there is no other replica.
        """
        state = self.state
        if state is None:
            return True
        followed_at = max(state.started_at, state.followed_at(self._partition.required_isr))
        return self._now() - followed_at <= self._lag_seconds

    def on_fetch(self, fetch: FollowerFetch) -> Replica:
        """Record that a follower has all records before its fetch offset, and return its state.

        Raises UnknownLeaderEpochError or NotLeaderOrFollowerError if it is not a follower of this leader, and the
        latter also if it has fetched with a newer broker epoch, so that this fetch is from an earlier registration.
        """
        state = self.state
        replica = None if state is None else state.replicas.get(fetch.replica_id)
        if state is None or replica is None:
            # A fetch that names a leader epoch comes from a follower with newer metadata; it has to retry.
            raise UnknownLeaderEpochError if fetch.leader_epoch >= 0 else NotLeaderOrFollowerError
        end = self._partition.log.written_end_offset
        replica.fetched(fetch.offset, fetch.log_start, fetch.broker_epoch, end, self._now())
        replica.followed_at = max(replica.followed_at, fetch.followed_at)
        if self._confirmations:
            self._confirmations.complete_up_to(state.followed_at(self._partition.required_isr))
        self._maybe_expand_isr(state, replica)
        self._partition.maybe_advance_high_watermark(0)
        self._complete_deletions()
        return replica

    def check_isr(self) -> None:
        """Request to remove lagging followers from the ISR, or to add followers that have caught up.

        An earlier request for the same change may have been rejected, or a pending update may have delayed it.
        """
        state = self.state
        if state is None or self._partition.closed:
            return
        isr = state.shrunk_isr(self._partition.log.written_end_offset, self._now())
        if isr is not None:
            end, now = self._partition.log.log_end_offset, self._now()
            late = [
                state.replicas[broker] for broker in state.image.isr if broker not in isr and broker in state.replicas
            ]
            log.info(
                "Shrinking ISR of %s from %s to %s: %s",
                self._partition.topic_partition,
                list(state.image.isr),
                list(isr),
                ", ".join(replica.lag_text(end, now) for replica in late),
            )
            self._submit(state, isr)
        self._maybe_expand_isr(state, *state.replicas.values())
        self._partition.maybe_advance_high_watermark(0)

    def _maybe_expand_isr(self, state: LeaderState, *replicas: Replica) -> None:
        for replica in replicas:
            isr = state.expanded_isr(replica, self._partition.high_watermark)
            if isr is not None:
                log.info(
                    "Expanding ISR of %s from %s to %s",
                    self._partition.topic_partition,
                    list(state.image.isr),
                    list(isr),
                )
                self._submit(state, isr)

    def _submit(self, state: LeaderState, isr: tuple[int, ...]) -> None:
        if self._isr_updates is not None:
            state.set_pending(isr)
            if self._submission is not None:
                self._submission.cancel()  # a newer state has superseded the earlier update
            update = self._update_isr(self._isr_updates, state, isr)
            self._submission = asyncio.get_running_loop().create_task(self._await_answer(state, update))

    async def _update_isr(
        self, isr_updates: IsrSubmitter, state: LeaderState, isr: tuple[int, ...]
    ) -> PartitionImage | None:
        """Request an ISR, and return the new state; None if the update was rejected or superseded, or this broker no
        longer leads.

        If fewer replicas than min.insync.replicas remain, this broker flushes its log first. It may be the only replica
        that can lead from then on. Without the flush, a power failure could remove acknowledged records from its log,
        and the followers would then truncate these records as well. Apache Kafka loses them (KIP-966, "last replica
        standing").
        """
        partition = self._partition
        if len(isr) < min(len(state.image.isr), partition.required_isr):
            await partition.flush()
            if partition.closed:
                return None
        return await submit_until_settled(isr_updates, partition.topic_partition, state, isr)

    async def _await_answer(self, state: LeaderState, update: Awaitable[PartitionImage | None]) -> None:
        image = await update
        partition = self._partition
        if self.state is not state or partition.closed:
            return
        if image is not None and image.leader == partition.image.leader and not partition.is_older(image):
            partition.lead(image)
            state.clear_pending()  # even if the state is not newer: the ISR was already the requested one
        partition.maybe_advance_high_watermark(0)

    def on_new_state(self) -> None:
        """Handle a new partition state.

        Complete the confirmations and deletions that it makes possible, flush the log in the background if fewer than
        min.insync.replicas are in sync, and request to add replicas to the ISR that have caught up.
        """
        if len(self._partition.image.isr) <= 1:
            # the controller has confirmed this ISR, so no other broker can lead
            self._confirmations.complete_up_to(float("inf"))
        if self.state is not None:
            if len(self._partition.image.isr) < self._partition.required_isr:
                self._partition.flush_in_background()  # the controller may have removed the others, see `_update_isr`
            self._confirmations.complete_up_to(self.state.followed_at(self._partition.required_isr))
            self._maybe_expand_isr(self.state, *self.state.replicas.values())
        self._complete_deletions()

    def on_brokers_removed(self, brokers: Iterable[int]) -> None:
        """Stop waiting for brokers that have left the cluster; the high watermark still waits for those in the ISR."""
        if self.state is not None:
            self.state.on_brokers_removed(brokers)
            self._partition.maybe_advance_high_watermark(0)
            self._complete_deletions()

    def preferred_candidates(self, offset: int) -> list[Replica]:
        """Return the in-sync followers whose log contains `offset` or ends there."""
        return [] if self.state is None else self.state.preferred_candidates(offset)

    def low_watermark(self, alive: Iterable[int]) -> int:
        """Return the lowest log start offset of this replica and those on live brokers; -1 if one is unknown."""
        start = self._partition.log.log_start_offset
        return start if self.state is None else self.state.low_watermark(start, alive)

    def when_deleted(self, offset: int, alive: Callable[[], Iterable[int]]) -> asyncio.Future[None] | None:
        """Return None if no live replica has records before `offset`, else a future that completes when none has.

        `alive`: returns the ids of the live brokers; also called later.
        """
        self._alive = alive
        return None if self.low_watermark(alive()) >= offset else self._deletions.add(offset)

    def _complete_deletions(self) -> None:
        if self._deletions:
            self._deletions.complete_up_to(self.low_watermark(self._alive()))


def _fail_with_not_leader(confirmed: asyncio.Future[None]) -> None:
    if not confirmed.done():
        confirmed.set_exception(NotLeaderOrFollowerError("no in-sync follower has confirmed that this broker leads"))
        # marks the exception as retrieved: the producer may have disconnected, so that nothing awaits the future
        confirmed.exception()
