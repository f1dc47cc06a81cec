"""The positions of partitions: their initialization, and their validation after a change of leader (KIP-320).

The initial position of a partition is the group's committed offset or, without one, follows from auto.offset.reset.
Lookups and validations run in the event loop, also between polls. A failed validation is handled by a later call,
because meanwhile the application's thread may advance the position.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.client.consumer.offsets.committed_offsets import CommittedOffsets
from ottla.client.consumer.offsets.leader_epochs import EpochEnd, LeaderEpochs
from ottla.client.consumer.offsets.list_offsets import OffsetLookup
from ottla.client.consumer.poll_trigger import PollTrigger
from ottla.client.consumer.subscription import PartitionState, Subscription
from ottla.client.core.metadata import Cluster, Metadata
from ottla.clock import now_ms
from ottla.config.consumer import ConsumerConfig
from ottla.config.options import BY_DURATION, duration_ms
from ottla.errors import KafkaError, KafkaTimeoutError, LogTruncationError, NoOffsetForPartitionError
from ottla.logs import listed
from ottla.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, OffsetAndMetadata, TopicPartition

log = logging.getLogger("ottla.client")


def reset_timestamp(policy: str) -> int | None:
    """Return the timestamp that auto.offset.reset stands for: -2 for earliest, -1 for latest, milliseconds since 1970
    for by_duration; None for none.
    """
    if policy.startswith(BY_DURATION):
        return now_ms() - duration_ms(policy.removeprefix(BY_DURATION))
    return {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}.get(policy)


class EpochCheck(NamedTuple):
    """A failed validation: the fetch position that was validated, and the end of its epoch in the leader's log."""

    state: PartitionState
    generation: int
    fetch_from: int
    leader_epoch: int
    end: EpochEnd


class Positions:
    """Initializes and validates the positions of one consumer."""

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        metadata: Metadata,
        group_offsets: CommittedOffsets,
        offsets: OffsetLookup,
        leader_epochs: LeaderEpochs,
        poll_trigger: PollTrigger,
    ) -> None:
        self.config = config
        self.subscription = subscription
        self.metadata = metadata
        self.group_offsets = group_offsets
        self.offsets = offsets
        self.leader_epochs = leader_epochs
        self.poll_trigger = poll_trigger
        self.lacks_positions = False
        """Whether a partition may lack a position, so that the next poll has to check."""
        self._epoch_checks: list[EpochCheck] = []
        self._lookup: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None

    @property
    def has_work(self) -> bool:
        """Whether the next poll has to check for missing positions, or to handle a failed validation."""
        return self.lacks_positions or bool(self._epoch_checks)

    def look_up(self) -> None:
        """Handle failed validations. Start a lookup and a validation, each if it is necessary and none is in progress.
        Raises LogTruncationError as `_apply_checks` does.
        """
        self._apply_checks()
        missing = [s for s in self.subscription.partitions.values() if s.position is None]
        self.lacks_positions = bool(missing)
        if missing and self._lookup is None:
            self._lookup = self._spawn(self._set_from_committed(missing), self._lookup_ended)
        self.check_leaders(self.metadata.cluster)

    def _spawn(self, work: Coroutine[Any, Any, None], ended: Callable[[], None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)

        def done(task: asyncio.Task[None]) -> None:
            ended()
            error = None if task.cancelled() else task.exception()
            if isinstance(error, KafkaTimeoutError):
                missing = sorted(tp for tp, state in self.subscription.partitions.items() if state.position is None)
                log.debug(
                    "Cannot look up positions; the next poll() retries those still missing (%s): %s",
                    listed(missing) or "none",
                    error,
                )
            elif error is not None:
                self.poll_trigger.fail(error if isinstance(error, KafkaError) else KafkaError(repr(error)))
            self.poll_trigger.set()

        task.add_done_callback(done)
        return task

    def _lookup_ended(self) -> None:
        self._lookup = None

    async def close(self) -> None:
        """Cancel the lookup and the validation that are in progress."""
        tasks = [task for task in (self._lookup, self._checking) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def out_of_range(self, state: PartitionState) -> bool:
        """Reset a position that is out of range as auto.offset.reset says. Return False if auto.offset.reset=none."""
        policy = self.config.auto_offset_reset
        timestamp = reset_timestamp(policy)
        if timestamp is None:
            return False
        log.info(
            "%s: offset %s is out of range; resetting the position (auto.offset.reset=%s)",
            state.tp,
            state.fetch_from,
            policy,
        )
        state.reset(timestamp)
        self.lacks_positions = True
        return True

    # Initialization

    async def _set_from_committed(self, missing: Sequence[PartitionState]) -> None:
        """Initialize positions from pending resets, from committed offsets or, for partitions that have neither, from
        auto.offset.reset. Raises NoOffsetForPartitionError if a partition has neither and auto.offset.reset=none.
        """
        timeout = self.config.default_api_timeout_ms / 1000
        generations = {state.tp: state.generation for state in missing}
        uncommitted = [state for state in missing if state.reset_to is None]
        committed: Mapping[TopicPartition, OffsetAndMetadata] = {}
        if uncommitted and self.config.group_id:
            committed = await self.group_offsets.committed([s.tp for s in uncommitted], time.monotonic() + timeout)
        resets: dict[TopicPartition, int] = {}
        without: list[TopicPartition] = []
        policy = reset_timestamp(self.config.auto_offset_reset)
        for state in missing:
            offset = committed.get(state.tp)
            if state.reset_to is not None:
                resets[state.tp] = state.reset_to
            elif offset is not None:
                self._set_position(state, generations, offset.offset, offset.leader_epoch)
            elif policy is not None:
                resets[state.tp] = policy
            else:
                without.append(state.tp)
        if resets:
            await self._reset([s for s in missing if s.tp in resets], resets, generations, timeout)
        if without:
            raise NoOffsetForPartitionError(
                f"no committed offset of {', '.join(map(str, without))}, and auto.offset.reset is none: seek() first"
            )

    async def _reset(
        self,
        states: Sequence[PartitionState],
        resets: Mapping[TopicPartition, int],
        generations: Mapping[TopicPartition, int],
        timeout: float,
    ) -> None:
        # An offset from the leader itself need not be validated: fetches of other partitions would start meanwhile, and
        # this one would wait for them.
        infos = {tp: self.metadata.cluster.partition(tp) for tp in resets}
        offsets = await self.offsets.lookup(resets, timeout)
        later = [tp for tp in resets if offsets[tp].offset < 0]
        if later:  # no record is as late as that: continue at the end
            offsets.update(await self.offsets.lookup(dict.fromkeys(later, LATEST_TIMESTAMP), timeout))
        for state in states:
            info = infos[state.tp] or self.metadata.cluster.partition(state.tp)
            leader_epoch = None if info is None else info.leader_epoch
            self._set_position(
                state, generations, offsets[state.tp].offset, offsets[state.tp].leader_epoch, leader_epoch
            )

    def _set_position(
        self,
        state: PartitionState,
        generations: Mapping[TopicPartition, int],
        offset: int,
        epoch: int,
        validated: int | None = None,
    ) -> None:
        if state.generation == generations[state.tp] and state.position is None:
            state.set_position(offset, epoch, validated)

    async def position(self, tp: TopicPartition, timeout: float) -> int:
        """Return the offset of the next record that poll() returns. Raises KafkaTimeoutError if the position cannot be
        determined in time, IllegalStateError if the partition is not assigned, and errors of lookups and validations.
        """
        deadline = time.monotonic() + timeout
        state = self.subscription.state(tp)
        while state.position is None:
            self.look_up()
            if self._lookup is not None:
                await asyncio.wait({self._lookup}, timeout=max(0.0, deadline - time.monotonic()))
            self.poll_trigger.raise_error()
            if state.position is None and time.monotonic() >= deadline:
                why = self.group_offsets.coordinator.last_failure
                raise KafkaTimeoutError(f"the position of {tp} is unknown after {timeout:g} s{why}")
        return state.position

    # Validation

    def check_leaders(self, cluster: Cluster) -> None:
        """Start the validation of positions that have not been validated with the current leader, unless a validation
        is in progress.
        """
        waiting = []
        for tp, state in self.subscription.partitions.items():
            info = cluster.partition(tp)
            if info is None or state.fetch_from is None or state.is_validated(info.leader_epoch):
                continue
            # A leader of an older epoch cannot validate the position.
            if not self.metadata.update_last_seen_epoch(tp, state.fetch_epoch):
                waiting.append(state)
        if waiting and self._checking is None:
            # The task starts later: it must not check a position that a seek has set meanwhile, without an epoch.
            positions = {s.tp: (s, s.generation, s.fetch_from or 0, s.fetch_epoch) for s in waiting}
            self._checking = self._spawn(self._check(positions), self._checked)

    def _checked(self) -> None:
        self._checking = None

    async def _check(self, checked: Mapping[TopicPartition, tuple[PartitionState, int, int, int]]) -> None:
        """Validate positions. `checked` contains, by partition, its state, the state's generation, the offset to fetch
        from, and the leader epoch of the record before.
        """
        ends = await self.leader_epochs.end_offsets({tp: epoch for tp, (_, _, _, epoch) in checked.items()})
        for tp, (leader_epoch, end) in ends.items():
            state, generation, fetch_from, _ = checked[tp]
            if state.generation != generation or state.fetch_from != fetch_from:
                continue
            if end is None or (end.offset >= fetch_from and end.epoch >= 0):
                state.validated = leader_epoch
            else:
                self._epoch_checks.append(EpochCheck(state, generation, fetch_from, leader_epoch, end))
        if len(ends) < len(checked):
            self.metadata.request_update()
            await asyncio.sleep(self.config.retry_backoff_ms / 1000)

    def _apply_checks(self) -> None:
        """Handle failed validations. If more has been fetched than returned, drop it: the position itself is validated
        next. Otherwise move back to the offset where the log diverges, or reset the position if that offset is unknown;
        with auto.offset.reset=none, raise LogTruncationError instead.
        """
        checks, self._epoch_checks = self._epoch_checks, []
        divergent: dict[TopicPartition, OffsetAndMetadata | None] = {}
        for check in checks:
            state = check.state
            if state.generation != check.generation or state.position is None:
                continue
            if state.position != check.fetch_from:
                # Data that was fetched ahead is from another log; whether that also applies to returned records must be
                # checked.
                state.seek(state.position, state.epoch)
            elif reset_timestamp(self.config.auto_offset_reset) is None:
                has_end = check.end.offset >= 0
                divergent[state.tp] = OffsetAndMetadata(check.end.offset, "", check.end.epoch) if has_end else None
            else:
                self._truncated(state, check)
        if divergent:
            raise LogTruncationError(divergent)

    def _truncated(self, state: PartitionState, check: EpochCheck) -> None:
        if check.end.offset < 0:
            log.info(
                "%s: the log was truncated before offset %d; resetting the position (auto.offset.reset=%s)",
                state.tp,
                check.fetch_from,
                self.config.auto_offset_reset,
            )
            state.reset(reset_timestamp(self.config.auto_offset_reset) or 0)
            self.lacks_positions = True
            return
        log.info(
            "%s: the log was truncated; moving from offset %d back to %d", state.tp, state.position, check.end.offset
        )
        state.seek(check.end.offset, check.end.epoch)
        state.validated = check.leader_epoch
