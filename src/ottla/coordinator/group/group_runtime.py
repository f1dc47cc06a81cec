"""The runtime of the group coordinator: appends the records of a result, replays them, then responds.

The hash of a group id determines the partition of `__consumer_offsets` that has the group and its offsets.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla import errors
from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.group.classic import records
from ottla.coordinator.group.classic.classic_group import ClassicGroup, ClassicGroupState
from ottla.coordinator.group.classic.records import CommittedOffset
from ottla.coordinator.group.common.group import Group
from ottla.coordinator.group.group_coordinator import GroupCoordinator
from ottla.coordinator.group.group_stats import GroupStats
from ottla.coordinator.group.offsets import Offsets
from ottla.coordinator.group.pending_offsets import OffsetKey, OpenTransaction
from ottla.coordinator.group.streams.internal_topics import StreamsInternalTopics
from ottla.coordinator.runtime.coordinator_log import to_client_error, wait_committed
from ottla.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from ottla.coordinator.runtime.deadline_queue import DeadlineQueue
from ottla.coordinator.runtime.loader import ShardedMap
from ottla.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult
from ottla.model import CONSUMER_OFFSETS, ProducerIdAndEpoch, TopicPartition
from ottla.protocol.message import Response
from ottla.records.batch import BatchHeader
from ottla.records.decoder import records as records_of
from ottla.storage.producer_state import COMMIT, read_marker

if TYPE_CHECKING:
    from ottla.coordinator.group.common.modern_group import ModernGroup

log = logging.getLogger("ottla.coordinator")
G = TypeVar("G", bound="ModernGroup[Any, Any]")

EXPIRY_SLICE: Final = 20
"""Number of groups whose offsets are expired at a time. That takes some milliseconds."""
RETRY_SECONDS: Final = 0.5
"""Time in seconds until a timer whose records could not be appended fires again, as in Kafka's `CoordinatorRuntime`."""


class GroupRuntime(CoordinatorRuntime):
    """The groups that this broker coordinates, and their offsets."""

    def __init__(self, config: BrokerConfig, clock: Clock, image: Callable[[], ClusterImage]) -> None:
        super().__init__(CONSUMER_OFFSETS, config, clock, image)
        self._append_seconds = config.offsets_commit_timeout_ms / 1000
        self._expiry_seconds = config.offsets_retention_check_interval_ms / 1000
        self._deadlines: DeadlineQueue[str] = DeadlineQueue(clock, self._on_deadline)
        self._expiry: asyncio.TimerHandle | None = None
        self._uncommitted: dict[str, asyncio.Future[None]] = {}
        """The future of each group's last append by `execute`, until it is done."""
        by_id: ShardedMap[str, Group] = ShardedMap(self._log.partition_for)
        by_group: ShardedMap[str, dict[TopicPartition, CommittedOffset]] = ShardedMap(self._log.partition_for)
        self._by_id, self._by_group = by_id, by_group
        self.groups = GroupCoordinator(config, clock, image, by_id=by_id)
        self.offsets = Offsets(config, clock, self.groups, by_group)
        self.streams_topics = StreamsInternalTopics(clock.monotonic)
        self.stats = GroupStats(clock.monotonic)

    def close(self) -> None:
        """Stop coordinating.

        JoinGroup and SyncGroup requests that wait for a rebalance fail with NotCoordinatorError.
        """
        super().close()
        self._deadlines.close()
        self.streams_topics.close()
        if self._expiry is not None:
            self._expiry.cancel()
        for group in self.groups.by_id.values():
            self._respond(self.groups.unload(group), None)

    def described(self, group_id: str, group_type: type[G]) -> G:
        """Return the group with this id and type.

        Raises GroupIdNotFoundError if it does not exist or has another type, and the errors of `check`.
        """
        self.check(group_id)
        group: object = self.groups.by_id.get(group_id)
        if not isinstance(group, group_type):
            what = "not found" if group is None else f"is not a {group_type.TYPE} group"
            raise errors.GroupIdNotFoundError(f"Group {group_id} {what}.")
        return group

    def rebalance_seconds(self, group: Group) -> float | None:
        """Return the time in seconds since the start of a classic group's rebalance; None if it is not rebalancing, or
        not a classic group.
        """
        if not isinstance(group, ClassicGroup) or not group.is_rebalancing:
            return None
        return self._clock.monotonic() - group.rebalance_began

    def response_future(self) -> asyncio.Future[Response]:
        """Return a future that `execute` completes with a response."""
        return asyncio.get_running_loop().create_future()

    def execute(self, group_id: str, result: CoordinatorResult) -> None:
        """Append the records of a result, replay them, and send the responses once they are committed.

        If the result has no records, its responses wait until the records of the group's earlier results are committed.
        Until then, another coordinator could take over the group without the state from which the responses follow.

        If the records cannot be appended, the responses have the error, a group that was replaced is restored, and
        timers of the group that are due fire again after RETRY_SECONDS.
        """
        not_before = 0.0
        try:
            committed = self._append(group_id, result.records)
        except errors.KafkaError as error:
            log.warning(
                "Cannot write records of group %s to __consumer_offsets; requests that depend on them fail: %s",
                group_id,
                error,
            )
            self._respond(result, to_client_error(error))
            if result.replaced is not None:
                new = self.groups.by_id[group_id]
                self._respond(self.groups.unload(new), to_client_error(error))
                self.groups.by_id[group_id] = result.replaced
            self._rebalance_if_stable(group_id)
            not_before = self._clock.monotonic() + RETRY_SECONDS
        else:
            if result.replacement is not None:
                self.groups.by_id[group_id] = result.replacement
            if committed is not None:
                self._uncommitted[group_id] = committed
                committed.add_done_callback(functools.partial(self._on_committed, group_id))
            pending = self._uncommitted.get(group_id)
            if pending is None:
                self._respond(result, None)
            else:
                self._respond_when(pending, result)
        self._schedule(group_id, not_before)

    def _rebalance_if_stable(self, group_id: str) -> None:
        """Start a rebalance of a stable classic group whose record could not be written. Otherwise, members would get
        an assignment that the next coordinator does not know, which then uses the generation's number again.
        """
        group = self.groups.by_id.get(group_id)
        if isinstance(group, ClassicGroup) and group.state is ClassicGroupState.STABLE:
            result = CoordinatorResult()
            self.groups.classic.rebalance(group, result, "its state could not be written")
            self.execute(group_id, result)

    def _on_committed(self, group_id: str, committed: asyncio.Future[None]) -> None:
        if self._uncommitted.get(group_id) is committed:
            del self._uncommitted[group_id]
        if not committed.cancelled() and committed.exception() is not None:
            self._rebalance_if_stable(group_id)

    async def append(self, group_id: str, records: Sequence[CoordinatorRecord]) -> None:
        """Append and replay records, and return when they are committed.

        Raises InvalidCommitOffsetSizeError if they exceed `max.message.bytes`, CoordinatorNotAvailableError after
        `offsets.commit.timeout.ms`, and otherwise the error of `to_client_error`.
        """
        try:
            committed = self._append(group_id, records)
        except errors.InvalidCommitOffsetSizeError:
            raise
        except errors.KafkaError as error:
            raise to_client_error(error) from error
        if committed is not None:
            await wait_committed(committed, self._append_seconds)

    async def append_pending(
        self, group_id: str, new: Sequence[CoordinatorRecord], producer: ProducerIdAndEpoch
    ) -> None:
        """Append offsets of the producer's open transaction, and return when they are replicated.

        Raises the errors of `append`.
        """
        try:
            committed = self._log.append(group_id, new, producer)
        except errors.MessageTooLargeError:
            raise errors.InvalidCommitOffsetSizeError from None
        except errors.KafkaError as error:
            raise to_client_error(error) from error
        transaction = OpenTransaction(self._log.index(group_id), producer.id)
        for record in new:
            self.stats.on_offset(record.value)
            self._replay_pending(transaction, record.key, record.value)
        if committed is not None:
            await wait_committed(committed, self._append_seconds)

    def on_transaction_end(self, partition: TopicPartition, producer_id: int, commit: bool) -> None:
        """Apply or drop the pending offsets of a transaction whose marker was written to a partition of
        `__consumer_offsets`.
        """
        if not self.shards.is_loaded(partition.partition):
            return  # loading the partition will replay the marker
        ended = self._end_transaction(OpenTransaction(partition.partition, producer_id), commit)
        for key in ended:
            self._schedule(key.group_id)
        self._remove_unknown_topics(
            {key.tp.topic for key in ended}
        )  # topics that were deleted while the transaction was open

    def _remove_unknown_topics(self, topics: set[str]) -> None:
        if self._sees_all_topics:
            self.on_topics_deleted(frozenset(topics - self._image().topics.keys()))

    def on_topics_deleted(self, topics: frozenset[str]) -> None:
        for group_id, tombstones in list(self.offsets.topic_tombstones(topics)):
            try:
                self._append(group_id, tombstones)
            except errors.CoordinatorLoadInProgressError:
                continue  # the offsets will expire
            except errors.KafkaError as error:
                log.error(
                    "Cannot remove the offsets of group %s for deleted topics; they stay until they expire or, on a "
                    "standalone broker, until its next start: %s",
                    group_id,
                    error,
                )

    def _append(self, group_id: str, new: Sequence[CoordinatorRecord]) -> asyncio.Future[None] | None:
        """Append records as one batch, and replay them; as several batches if they do not fit, and all are tombstones.

        Raises InvalidCommitOffsetSizeError if they do not fit, and the errors of `CoordinatorLog.append`.
        """
        if not new:
            return None
        try:
            committed = self._log.append(group_id, new)
        except errors.MessageTooLargeError:
            if len(new) == 1 or any(record.value is not None for record in new):
                raise errors.InvalidCommitOffsetSizeError from None
            middle = len(new) // 2
            self._append(group_id, new[:middle])
            return self._append(group_id, new[middle:])
        for record in new:
            self._replay_appended(group_id, record)
        return committed

    def _respond_when(self, committed: asyncio.Future[None], result: CoordinatorResult) -> None:
        timeout = asyncio.get_running_loop().call_later(
            self._append_seconds, self._respond, result, errors.CoordinatorNotAvailableError()
        )

        def respond(done: asyncio.Future[None]) -> None:
            timeout.cancel()
            self._respond(result, _append_error(done))

        committed.add_done_callback(respond)

    def _respond(self, result: CoordinatorResult, error: errors.KafkaError | None) -> None:
        for future, response in result.responses:
            assert isinstance(future, asyncio.Future)
            if future.done():
                continue  # the client has disconnected
            future.set_result(response if error is None else type(response)(error_code=errors.code_of(error)))  # type: ignore[call-arg]

    # Loading and replay

    def replay_batch(self, index: int, header: BatchHeader, data: memoryview) -> int:
        """Replay a batch of a partition that is being loaded. Return the number of replayed records; 1 for a marker."""
        transaction = OpenTransaction(index, header.producer_id)
        if header.is_control:
            self._end_transaction(transaction, _is_commit(data))
            return 1
        if header.is_transactional:
            return self._log.replay_batch(index, data, functools.partial(self._replay_pending, transaction))
        return self._log.replay_batch(index, data, self.replay)

    def on_loaded(self, index: int) -> None:
        """Start the timers of a partition's groups.

        A standalone broker also deletes offsets of topics that have been deleted. The first loaded partition starts the
        timer that expires offsets.
        """
        if self._expiry is None:
            self._expiry = asyncio.get_running_loop().call_later(self._expiry_seconds, self._expire_offsets)
        for group in self._by_id.values_in(index):
            self._schedule(group.id)
        # topics that were deleted just before the previous leader stopped
        self._remove_unknown_topics({tp.topic for offsets in self._by_group.values_in(index) for tp in offsets})

    def on_unloaded(self, index: int) -> None:
        """Drop the groups of a partition, and their offsets.

        JoinGroup and SyncGroup requests that wait for a rebalance fail with NotCoordinatorError.
        """
        for group in self._by_id.drop(index).values():
            self._respond(self.groups.unload(group), None)
            self._deadlines.discard(group.id)
            self.stats.remove(group.id)
        self._by_group.drop(index)
        self.offsets.pending.drop(index)

    def _end_transaction(self, transaction: OpenTransaction, commit: bool) -> Collection[OffsetKey]:
        """Apply or drop the pending offsets of a transaction, and return their keys."""
        pending = self.offsets.pending
        ended = pending.commit(transaction) if commit else pending.end(transaction)
        for key, committed in ended.items() if commit else ():
            self.offsets.set(key.group_id, key.tp, committed)
        return ended.keys()

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply a record of an offset or a group, while its partition is being loaded."""
        group_id, tp = records.read_key(key) or (None, None)
        if group_id is not None and tp is not None:
            self.offsets.replay(group_id, tp, None if value is None else records.read_offset(value))
        else:
            if group_id is not None:
                self.stats.on_loaded(group_id, value)
            self.groups.replay(key, value, live=False)

    def _replay_appended(self, group_id: str, record: CoordinatorRecord) -> None:
        """Apply and count a record that this broker has just appended."""
        key, value = record
        _, tp = records.read_key(key) or (None, None)
        if tp is not None:
            self.stats.on_offset(value)
            self.offsets.replay(group_id, tp, None if value is None else records.read_offset(value))
        else:
            self.stats.on_group_record(group_id, key, value)
            self.groups.replay(key, value, live=True)

    def _replay_pending(self, transaction: OpenTransaction, key: bytes, value: bytes | None) -> None:
        """Add an offset to the pending offsets of its transaction."""
        group_id, tp = records.read_key(key) or (None, None)
        if group_id is not None and tp is not None:
            committed = None if value is None else records.read_offset(value)
            self.offsets.pending.add(transaction, OffsetKey(group_id, tp), committed)

    # Timers

    def _schedule(self, group_id: str, not_before: float = 0.0) -> None:
        group = self.groups.by_id.get(group_id)
        if group is not None:
            self._deadlines.schedule(group_id, max(not_before, group.next_deadline()))

    def _on_deadline(self, group_id: str) -> None:
        group = self.groups.by_id.get(group_id)
        if group is not None:
            self._execute_safely(group_id, functools.partial(self.groups.expire, group))

    def _execute_safely(self, group_id: str, decide: Callable[[], CoordinatorResult]) -> None:
        """Execute what a timer decides for a group.

        Errors are logged, so that a bug in one group does not stop the timers of others. Timers of the group that are
        due then fire again after RETRY_SECONDS.
        """
        try:
            self.execute(group_id, decide())
        except Exception:
            log.exception(
                "Unexpected error in a timer of group %s; other groups are not affected",
                group_id,
            )
            self._schedule(group_id, self._clock.monotonic() + RETRY_SECONDS)

    def _expire_offsets(self) -> None:
        self._expire_some([group for index in self.shards.indexes for group in self._by_id.values_in(index)])

    def _expire_some(self, groups: list[Group]) -> None:
        """Expire the offsets of the last EXPIRY_SLICE groups, and of the others after other tasks have run."""
        before = self.stats.offset_tombstones
        for group in groups[-EXPIRY_SLICE:]:
            if self._by_id.get(group.id) is group:  # otherwise replaced, deleted or unloaded since
                self._execute_safely(group.id, functools.partial(self.offsets.expire, group))
        self.stats.offset_expirations += self.stats.offset_tombstones - before
        del groups[-EXPIRY_SLICE:]
        loop = asyncio.get_running_loop()
        if groups:
            self._expiry = loop.call_later(0, self._expire_some, groups)
        else:
            self._expiry = loop.call_later(self._expiry_seconds, self._expire_offsets)


def _is_commit(control: memoryview) -> bool:
    """Return whether a control batch is a COMMIT marker."""
    markers = [read_marker(record) for record in records_of(control)]
    return any(marker is not None and marker.type == COMMIT for marker in markers)


def _append_error(done: asyncio.Future[None]) -> errors.KafkaError | None:
    error = errors.CoordinatorNotAvailableError() if done.cancelled() else done.exception()
    if error is None:
        return None
    return to_client_error(error) if isinstance(error, errors.KafkaError) else errors.CoordinatorNotAvailableError()
