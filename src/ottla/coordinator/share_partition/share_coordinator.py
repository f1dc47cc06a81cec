"""All partitions that share groups read, with their log (`__share_group_state`) and the time that members have.

Kept are the start and what was acknowledged or delivered before, not who has a record now: a new leader knows of
nobody. Loop thread.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from uuid import UUID

from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker import BrokerConfig
from ottla.coordinator.group.common.group import NEVER
from ottla.coordinator.group.common.group_configs import SHARE, GroupOptions
from ottla.coordinator.runtime.coordinator_log import CoordinatorLog
from ottla.coordinator.runtime.loader import ShardedMap
from ottla.coordinator.runtime.result import Record
from ottla.coordinator.share_partition import share_state_records as records
from ottla.coordinator.share_partition.share_partition import Limits, SharePartition
from ottla.coordinator.share_partition.share_state_records import Progress, ShareKey
from ottla.errors import KafkaError
from ottla.model import SHARE_GROUP_STATE
from ottla.records.batch import BatchHeader

log = logging.getLogger("ottla.coordinator")


@dataclass(slots=True)
class Kept:
    """A partition, and how often it was written."""

    partition: SharePartition
    snapshot_epoch: int = 0


class ShareStates:
    """The progress of all share groups in the partitions that this broker leads."""

    def __init__(self, config: BrokerConfig, clock: Clock, image: Callable[[], ClusterImage]) -> None:
        self._config = config
        self._clock = clock
        self._image = image
        self._log = CoordinatorLog(SHARE_GROUP_STATE, clock, image, self)
        self.shards = self._log.shards
        """Told which partitions this broker leads."""
        self._sees_all_topics = config.zookeeper_connect is None
        """In a cluster a topic may be there that this broker has not heard of yet, so what is kept of it must stay."""
        self._kept: ShardedMap[ShareKey, Kept] = ShardedMap(lambda key: self._log.kept_in(str(key)))
        self._due: list[tuple[float, ShareKey]] = []
        self._watched: dict[ShareKey, float] = {}
        """When each of them is looked at: when the first of its records comes back."""
        self._timer: asyncio.TimerHandle | None = None
        self.options = GroupOptions(SHARE, config, image)

    async def start(self) -> None:
        """Wait until everything is read that is led by now."""
        await self.shards.all_loaded()

    def read(self, index: int, header: BatchHeader, data: memoryview) -> int:
        """Take a batch of a partition over that is being read."""
        return 1 if header.is_control else self._log.read_batch(index, data, self.replay)

    def loaded(self, index: int) -> None:
        """A partition of the log is in memory."""
        if self._sees_all_topics:  # one may have been deleted just before the broker died
            kept, known = self._kept.keys_of(index), self._image().names
            self._forget([key for key in kept if key.topic_id not in known])

    def unload(self, index: int) -> None:
        """Another broker keeps what is in a partition of the log; who waits here is woken, and finds out."""
        for key, kept in self._kept.drop(index).items():
            self._watched.pop(key, None)
            for waiter in list(kept.partition.waiters):
                waiter()

    def close(self) -> None:
        """Stop the timer."""
        self._log.close()
        if self._timer is not None:
            self._timer.cancel()

    def get(self, key: ShareKey) -> SharePartition | None:
        """A partition that the group has read before, with the limits that the group has now."""
        found = self._kept.get(key)
        if found is None:
            return None
        found.partition.limits = self._limits(key)
        return found.partition

    def of_group(self, group_id: str) -> list[ShareKey]:
        """The partitions that a group has begun to read."""
        return [key for key in self._kept if key.group_id == group_id]

    def open(self, key: ShareKey, start: int) -> SharePartition:
        """Begin to read a partition at an offset, which is kept."""
        partition = SharePartition(start, start, self._limits(key))
        kept = Kept(partition)
        self._log.append(str(key), [self._snapshot(key, kept)])
        self._kept[key] = kept
        return partition

    def save(self, key: ShareKey) -> asyncio.Future[None] | None:
        """Keep how far it is; None when that is safe at once, else what becomes done when it is."""
        kept = self._kept[key]
        kept.snapshot_epoch += 1
        return self._log.append(str(key), [self._snapshot(key, kept)])

    def reset(self, key: ShareKey, start: int) -> asyncio.Future[None] | None:
        """Begin anew at an offset, for a group without members; as `save` tells when that is safe."""
        if key not in self._kept:
            self._kept[key] = Kept(SharePartition(start, start, self._limits(key)))
        else:
            self._kept[key].partition = SharePartition(start, start, self._limits(key))
        return self.save(key)

    def forget_topic(self, group_id: str, topic_id: UUID) -> None:
        """Forget how far a group was in a topic."""
        self._forget([key for key in self.of_group(group_id) if key.topic_id == topic_id])

    def watch(self, key: ShareKey, until: float) -> None:
        """Records were acquired until then."""
        if until < self._watched.get(key, NEVER):
            self._watched[key] = until
            heapq.heappush(self._due, (until, key))
            self._set_timer()

    def release(self, group_id: str, member_id: str) -> None:
        """A member is gone: what it has is for others."""
        for key in self.of_group(group_id):
            self._save_quietly(key, self._kept[key].partition.release(member_id))

    def group_deleted(self, group_id: str) -> None:
        """Forget how far a group was."""
        self._forget(self.of_group(group_id))

    def topics_deleted(self, ids: Collection[UUID]) -> None:
        """Forget partitions of topics that are no more."""
        for index in self.shards.indexes:
            self._forget([key for key in self._kept.keys_of(index) if key.topic_id in ids])

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take a record over that the log holds."""
        found = records.read(key, value)
        if found is None:
            return
        share_key, progress = found
        if progress is None:
            if share_key in self._kept:
                del self._kept[share_key]
        else:
            self._restore(share_key, progress)

    def _limits(self, key: ShareKey) -> Limits:
        return Limits(
            self._config.group_share_partition_max_record_locks,
            self._config.group_share_delivery_count_limit,
            self.options.record_lock_ms(key.group_id) / 1000,
        )

    def _restore(self, key: ShareKey, progress: Progress) -> None:
        kept = self._kept.get(key)
        if progress.is_snapshot or kept is None:
            kept = self._kept[key] = Kept(SharePartition(progress.start, progress.start, self._limits(key)))
            kept.snapshot_epoch = progress.snapshot_epoch
        elif progress.snapshot_epoch < kept.snapshot_epoch:
            return  # a snapshot came after it
        kept.partition.restore(max(progress.start, kept.partition.start), progress.runs)

    def _snapshot(self, key: ShareKey, kept: Kept) -> Record:
        partition = kept.partition
        return records.snapshot_record(
            key, kept.snapshot_epoch, partition.start, partition.kept(), self._clock.now_ms()
        )

    def _forget(self, keys: list[ShareKey]) -> None:
        for key in keys:
            del self._kept[key]
            try:
                self._log.append(str(key), records.tombstones(key))
            except KafkaError as error:
                log.error("share group %s: its progress stays: %s", key, error)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._due:
            wait = max(0.0, self._due[0][0] - self._clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait, self._tick)

    def _tick(self) -> None:
        now = self._clock.monotonic()
        while self._due and self._due[0][0] <= now:
            until, key = heapq.heappop(self._due)
            if self._watched.get(key) == until:  # else it was looked at before
                del self._watched[key]
                self._expire(key, now)
        self._set_timer()

    def _expire(self, key: ShareKey, now: float) -> None:
        kept = self._kept.get(key)
        if kept is None:
            return
        self._save_quietly(key, kept.partition.expire(now))
        if kept.partition.next_expiry < NEVER:
            self.watch(key, kept.partition.next_expiry)

    def _save_quietly(self, key: ShareKey, changed: list[int]) -> None:
        if not changed:
            return
        try:
            self.save(key)
        except KafkaError as error:
            log.warning("share group %s: %s", key, error)  # it is only how often they were delivered
