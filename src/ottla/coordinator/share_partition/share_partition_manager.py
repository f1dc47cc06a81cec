"""The share partitions that this broker leads, in memory: loaded from the share coordinator, and written back to it.

A share partition lives where its partition's leader is, its stored state at its share coordinator, which may be another
broker. Acquisition locks are in memory only. Kafka's `SharePartitionManager` and `SharePartitionCache`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from ottla import errors
from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.group.common.group_configs import SHARE, GroupConfigs
from ottla.coordinator.runtime.deadline_queue import DeadlineQueue
from ottla.coordinator.share_partition.share_partition import ShareLimits, SharePartition
from ottla.coordinator.share_partition.share_persister import SharePersister
from ottla.coordinator.share_partition.share_state_records import UNINITIALIZED, ShareKey, ShareState
from ottla.futures import shielded
from ottla.logs import reason_of
from ottla.model import TopicPartition
from ottla.replication.partition import Partition

log = logging.getLogger("ottla.coordinator")

FENCED: Final = (errors.FencedLeaderEpochError, errors.FencedStateEpochError, errors.InvalidRequestError)
"""Errors of a write which mean that the state in memory is outdated: another broker leads the partition, or the offsets
were reset or deleted.
"""


@dataclass(slots=True)
class LoadedPartition:
    """A share partition, and the state of its writes."""

    replica: Partition
    partition: SharePartition
    state_epoch: int
    next_write: asyncio.Future[None] | None = None
    """A future that completes with the next write, which has not begun yet; None if no further write is requested."""
    writer: asyncio.Task[None] | None = None

    def state(self) -> ShareState:
        """Return the state to store."""
        shared = self.partition
        epoch = self.replica.image.leader_epoch
        return ShareState(self.state_epoch, epoch, shared.stored_start, shared.done, shared.stored_runs())


class SharePartitionManager:
    """The share partitions of all groups that this broker has loaded. Not thread-safe: event loop only."""

    def __init__(
        self, config: BrokerConfig, clock: Clock, image: Callable[[], ClusterImage], persister: SharePersister
    ) -> None:
        self._clock = clock
        self._persister = persister
        self._loaded: dict[ShareKey, LoadedPartition] = {}
        self._loading: dict[ShareKey, tuple[Partition, asyncio.Task[None]]] = {}
        """The loads in progress, each with the replica for which it was started."""
        self._lock_timeouts: DeadlineQueue[ShareKey] = DeadlineQueue(clock, self._expire_locks)
        self.configs = GroupConfigs(SHARE, config, image)

    def close(self) -> None:
        """Stop the timers and the writes. Records whose states are not written yet may be delivered again."""
        self._lock_timeouts.close()
        loads = (task for _, task in self._loading.values())
        for task in (*loads, *(led.writer for led in self._loaded.values() if led.writer is not None)):
            task.cancel()

    def get(self, key: ShareKey) -> SharePartition | None:
        """Return a share partition with the current limits of its group, or None if it is not loaded."""
        led = self._loaded.get(key)
        if led is None:
            return None
        led.partition.limits = self._limits(key)
        return led.partition

    async def load(self, key: ShareKey, replica: Partition, first_start: Callable[[], Awaitable[int]]) -> None:
        """Load a share partition that this broker leads. `first_start` returns the start offset of a new one.

        Raises NotLeaderOrFollowerError if that is not possible now: the client looks up the leader and tries again.
        """
        led = self._loaded.get(key)
        if led is not None and led.replica is replica:
            return
        loading, task = self._loading.get(key, (replica, None))
        if loading is not replica and task is not None:
            await asyncio.wait([task])  # a load for an earlier replica of the partition
            await self.load(key, replica, first_start)
            return
        if task is None:
            task = asyncio.get_running_loop().create_task(self._load(key, replica, first_start))
            self._loading[key] = replica, task
            task.add_done_callback(lambda done: self._on_loaded(key, replica, done))
        try:
            await shielded(task)
        except errors.KafkaError as error:
            raise errors.NotLeaderOrFollowerError(f"cannot load {key}: {error.message}") from error

    def write(self, key: ShareKey) -> asyncio.Future[None]:
        """Write the state of a loaded share partition, and return a future that completes when it is stored.

        At most one write of a share partition is under way; changes in the meantime are in the next one. The future
        fails with NotLeaderOrFollowerError for the errors in FENCED, else with the error of `SharePersister.write`.
        """
        led = self._loaded[key]
        if led.next_write is None:
            led.next_write = asyncio.get_running_loop().create_future()
            led.next_write.add_done_callback(lambda done: done.cancelled() or done.exception())  # may have no reader
        if led.writer is None:
            led.writer = asyncio.get_running_loop().create_task(self._write_all(key, led))
        return led.next_write

    def schedule_lock_timeout(self, key: ShareKey, until: float) -> None:
        """Schedule the release of records that are still acquired at the time `until`, in seconds of the clock's
        `monotonic`.
        """
        self._lock_timeouts.schedule(key, until)

    def release(self, group_id: str, member_id: str) -> None:
        """Release the records that a member has acquired."""
        for key in self.keys_of_group(group_id):
            self._write_if_changed(key, self._loaded[key].partition.release(member_id))

    def keys_of_group(self, group_id: str) -> list[ShareKey]:
        """Return the keys of a group's share partitions that this broker leads and has loaded."""
        return [key for key in self._loaded if key.group_id == group_id]

    def drop_group(self, group_id: str) -> None:
        """Drop the share partitions of a group that has no session, because the group's offsets may be reset before a
        member returns.
        """
        for key in self.keys_of_group(group_id):
            self._drop(key)

    def on_resigned(self, tp: TopicPartition) -> None:
        """Drop the share partitions of a partition that this broker no longer leads."""
        for key in [key for key, led in self._loaded.items() if led.replica.topic_partition == tp]:
            self._drop(key)

    async def _load(self, key: ShareKey, replica: Partition, first_start: Callable[[], Awaitable[int]]) -> None:
        epoch = replica.image.leader_epoch
        state = await self._persister.read(key, epoch)
        start = await first_start() if state.start == UNINITIALIZED else state.start
        if not replica.leads or replica.image.leader_epoch != epoch:
            raise errors.NotLeaderOrFollowerError  # another broker may have led the partition since the read
        partition = SharePartition(start, start, self._limits(key))
        partition.restore(start, state.runs)
        self._loaded[key] = LoadedPartition(replica, partition, state.state_epoch)
        if state.start == UNINITIALIZED:
            self.write(key)  # the next leader must not begin elsewhere

    def _on_loaded(self, key: ShareKey, replica: Partition, done: asyncio.Task[None]) -> None:
        del self._loading[key]
        error = None if done.cancelled() else done.exception()
        if error is not None:
            log.warning(
                "Cannot load share partition %s of share group %s; clients have to retry: %s",
                replica.topic_partition,
                key.group_id,
                reason_of(error),
            )

    async def _write_all(self, key: ShareKey, led: LoadedPartition) -> None:
        try:
            while led.next_write is not None:
                future, led.next_write = led.next_write, None
                led.partition.begin_write()
                try:
                    await self._persister.write(key, led.state())
                except errors.KafkaError as error:
                    self._on_failed_write(key, led, future, error)
                else:
                    led.partition.end_write(is_stored=True)
                    _complete(future)
        finally:
            led.writer = None

    def _on_failed_write(
        self, key: ShareKey, led: LoadedPartition, future: asyncio.Future[None], error: errors.KafkaError
    ) -> None:
        is_fenced = isinstance(error, FENCED)
        if is_fenced:
            log.warning(
                "Discarding an outdated state of share partition %s of share group %s; acknowledgements that wait for "
                "its write fail, and records may be delivered again: %s",
                led.replica.topic_partition,
                key.group_id,
                error,
            )
        else:
            log.warning(
                "Cannot write the state of share partition %s of share group %s; acknowledgements that wait for the "
                "write fail, and records may be delivered again: %s",
                led.replica.topic_partition,
                key.group_id,
                error,
            )
        led.partition.end_write(is_stored=False)
        if self._loaded.get(key) is led:
            if is_fenced:
                self._drop(key)
            else:
                self._lock_timeouts.schedule(key, led.partition.next_expiry)
        if not future.done():
            future.set_exception(errors.NotLeaderOrFollowerError(error.message) if is_fenced else error)

    def _drop(self, key: ShareKey) -> None:
        """Drop a share partition, and wake the fetches that wait for its records. They load it again, or fail."""
        led = self._loaded.pop(key)
        self._lock_timeouts.discard(key)
        for waiter in list(led.partition.waiters):
            waiter()

    def _limits(self, key: ShareKey) -> ShareLimits:
        return ShareLimits(
            self.configs.max_record_locks(key.group_id),
            self.configs.delivery_count_limit(key.group_id),
            self.configs.record_lock_ms(key.group_id) / 1000,
        )

    def _expire_locks(self, key: ShareKey) -> None:
        led = self._loaded.get(key)
        if led is None:
            return
        self._write_if_changed(key, led.partition.expire(self._clock.monotonic()))
        self._lock_timeouts.schedule(key, led.partition.next_expiry)

    def _write_if_changed(self, key: ShareKey, changed: list[int]) -> None:
        if changed:
            self.write(key)  # if it fails, only delivery counts are lost


def _complete(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
