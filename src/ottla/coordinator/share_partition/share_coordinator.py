"""The share coordinator: the state of all share partitions, its log (`__share_group_state`) and the acquisition locks.

The log has the start offset and the states of records behind it, not which member has acquired a record: after a change
of the leader all acquired records are available again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from uuid import UUID

from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker import BrokerConfig
from ottla.coordinator.group.common.group_configs import SHARE, GroupConfigs
from ottla.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from ottla.coordinator.runtime.deadline_queue import DeadlineQueue
from ottla.coordinator.runtime.loader import ShardedMap
from ottla.coordinator.runtime.result import CoordinatorRecord
from ottla.coordinator.share_partition import share_state_records as records
from ottla.coordinator.share_partition.share_partition import ShareLimits, SharePartition
from ottla.coordinator.share_partition.share_state_records import ShareKey, ShareState
from ottla.errors import KafkaError
from ottla.model import SHARE_GROUP_STATE

log = logging.getLogger("ottla.coordinator")


@dataclass(slots=True)
class StoredPartition:
    """A share partition and the number of its last snapshot."""

    partition: SharePartition
    snapshot_epoch: int = 0


class ShareCoordinator(CoordinatorRuntime):
    """The share partitions of all groups whose state is in the partitions that this broker leads."""

    def __init__(self, config: BrokerConfig, clock: Clock, image: Callable[[], ClusterImage]) -> None:
        super().__init__(SHARE_GROUP_STATE, config, clock, image)
        self._stored: ShardedMap[ShareKey, StoredPartition] = ShardedMap(lambda key: self._log.partition_for(str(key)))
        self._lock_timeouts: DeadlineQueue[ShareKey] = DeadlineQueue(clock, self._expire_locks)
        self.configs = GroupConfigs(SHARE, config, image)

    def close(self) -> None:
        super().close()
        self._lock_timeouts.close()

    def on_loaded(self, index: int) -> None:
        """Remove the state of topics that were deleted just before the previous broker died."""
        if self._sees_all_topics:
            names = self._image().names
            self._remove([key for key in self._stored.keys_in(index) if key.topic_id not in names])

    def on_unloaded(self, index: int) -> None:
        """Drop the state of a partition; pending fetches are woken, and fail."""
        for key, stored in self._stored.drop(index).items():
            self._lock_timeouts.discard(key)
            for waiter in list(stored.partition.waiters):
                waiter()

    def get(self, key: ShareKey) -> SharePartition | None:
        """Return a share partition with the current limits of its group, or None if the group has not read it yet."""
        stored = self._stored.get(key)
        if stored is None:
            return None
        stored.partition.limits = self._limits(key)
        return stored.partition

    def keys_of_group(self, group_id: str) -> list[ShareKey]:
        """Return the share partitions that a group has read."""
        return [key for key in self._stored if key.group_id == group_id]

    def initialize(self, key: ShareKey, start: int) -> SharePartition:
        """Create a share partition with its start offset."""
        partition = SharePartition(start, start, self._limits(key))
        stored = StoredPartition(partition)
        self._log.append(str(key), [self._snapshot(key, stored)])
        self._stored[key] = stored
        return partition

    def write(self, key: ShareKey) -> asyncio.Future[None] | None:
        """Write a snapshot. Return None if it is committed at once, else a future that completes when it is."""
        stored = self._stored[key]
        stored.snapshot_epoch += 1
        return self._log.append(str(key), [self._snapshot(key, stored)])

    def reset(self, key: ShareKey, start: int) -> asyncio.Future[None] | None:
        """Start again at an offset, for a group without members, and return what `write` returns."""
        if key not in self._stored:
            self._stored[key] = StoredPartition(SharePartition(start, start, self._limits(key)))
        else:
            self._stored[key].partition = SharePartition(start, start, self._limits(key))
        return self.write(key)

    def delete_topic(self, group_id: str, topic_id: UUID) -> None:
        """Delete the state of a group in a topic."""
        self._remove([key for key in self.keys_of_group(group_id) if key.topic_id == topic_id])

    def schedule_lock_timeout(self, key: ShareKey, until: float) -> None:
        """Release records that are acquired until then, in seconds of the clock's `monotonic`."""
        self._lock_timeouts.schedule(key, until)

    def release(self, group_id: str, member_id: str) -> None:
        """Release the records of a member that has left."""
        for key in self.keys_of_group(group_id):
            self._write_if_changed(key, self._stored[key].partition.release(member_id))

    def delete_group(self, group_id: str) -> None:
        self._remove(self.keys_of_group(group_id))

    def on_topics_deleted(self, ids: Collection[UUID]) -> None:
        for index in self.shards.indexes:
            self._remove([key for key in self._stored.keys_in(index) if key.topic_id in ids])

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply a record of a partition that is being loaded."""
        entry = records.read(key, value)
        if entry is None:
            return
        share_key, progress = entry
        if progress is None:
            if share_key in self._stored:
                del self._stored[share_key]
        else:
            self._restore(share_key, progress)

    def _limits(self, key: ShareKey) -> ShareLimits:
        return ShareLimits(
            self._config.group_share_partition_max_record_locks,
            self._config.group_share_delivery_count_limit,
            self.configs.record_lock_ms(key.group_id) / 1000,
        )

    def _restore(self, key: ShareKey, progress: ShareState) -> None:
        stored = self._stored.get(key)
        if progress.is_snapshot or stored is None:
            stored = StoredPartition(
                SharePartition(progress.start, progress.start, self._limits(key)), progress.snapshot_epoch
            )
            self._stored[key] = stored
        elif progress.snapshot_epoch < stored.snapshot_epoch:
            return  # older than the last snapshot
        stored.partition.restore(max(progress.start, stored.partition.start), progress.runs)

    def _snapshot(self, key: ShareKey, stored: StoredPartition) -> CoordinatorRecord:
        partition = stored.partition
        return records.snapshot_record(
            key, stored.snapshot_epoch, partition.start, partition.stored_runs(), self._clock.now_ms()
        )

    def _remove(self, keys: list[ShareKey]) -> None:
        for key in keys:
            del self._stored[key]
            try:
                self._log.append(str(key), records.tombstones(key))
            except KafkaError as error:
                log.error("Cannot remove the state of share partition %s: %s", key, error)

    def _expire_locks(self, key: ShareKey) -> None:
        stored = self._stored.get(key)
        if stored is None:
            return
        self._write_if_changed(key, stored.partition.expire(self._clock.monotonic()))
        self._lock_timeouts.schedule(key, stored.partition.next_expiry)

    def _write_if_changed(self, key: ShareKey, changed: list[int]) -> None:
        if not changed:
            return
        try:
            self.write(key)
        except KafkaError as error:
            log.warning("Cannot write the state of share partition %s: %s", key, error)  # only delivery counts are lost
