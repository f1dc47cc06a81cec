"""The share coordinator: the stored state of share partitions, in its log `__share_group_state`.

The leaders of the partitions read and write it through `SharePersister`. The log has the start offset and the states of
the records from there on, but not which member has acquired a record. After a change of the leader, all acquired
records are available again. Epochs fence leaders that do not know of a newer leader or of reset offsets. Kafka's
`ShareCoordinatorShard`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from uuid import UUID

from ottla import errors
from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.runtime.coordinator_log import to_client_error, wait_committed
from ottla.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from ottla.coordinator.runtime.loader import ShardedMap
from ottla.coordinator.runtime.result import CoordinatorRecord
from ottla.coordinator.share_partition import share_state_records as records
from ottla.coordinator.share_partition.share_partition import DONE
from ottla.coordinator.share_partition.share_state_records import UNINITIALIZED, ShareKey, ShareState
from ottla.model import SHARE_GROUP_STATE

log = logging.getLogger("ottla.coordinator")


class ShareCoordinator(CoordinatorRuntime):
    """The states of share partitions whose partition of `__share_group_state` this broker leads.

    Methods with a ShareKey may raise NotCoordinatorError, and all of them but `leader` CoordinatorLoadInProgressError.
    Those that write may also raise the other errors of `to_client_error`.
    """

    def __init__(self, config: BrokerConfig, clock: Clock, image: Callable[[], ClusterImage]) -> None:
        super().__init__(SHARE_GROUP_STATE, config, clock, image)
        self._append_seconds = config.offsets_commit_timeout_ms / 1000
        self._stored: ShardedMap[ShareKey, ShareState] = ShardedMap(lambda key: self._log.partition_for(str(key)))

    def leader(self, key: ShareKey) -> int:
        """Return the id of the broker that coordinates a share partition, or NO_LEADER."""
        return self._log.leader(str(key))

    async def initialize(self, key: ShareKey, state_epoch: int, start: int) -> None:
        """Create a state, or reset it to a start offset. UNINITIALIZED leaves an existing state as it is.

        Raises FencedStateEpochError if the state to reset has a later state epoch.
        """
        self.check(str(key))
        stored = self._stored.get(key)
        if stored is not None and start == UNINITIALIZED:
            return
        before = stored or ShareState()
        if state_epoch < before.state_epoch:
            raise errors.FencedStateEpochError(f"the state of {key} has epoch {before.state_epoch}, not {state_epoch}")
        await self._write(key, ShareState(state_epoch, before.leader_epoch, start, 0, (), before.snapshot_epoch))

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareState:
        """Return the state for the leader of the partition.

        Leaders with an earlier leader epoch are fenced from now on. Raises FencedLeaderEpochError if the leader is
        fenced itself.
        """
        self.check(str(key))
        stored = self._stored.get(key)
        if stored is not None and leader_epoch < stored.leader_epoch:
            raise errors.FencedLeaderEpochError(f"{key} has a leader of epoch {stored.leader_epoch}")
        if stored is None or leader_epoch > stored.leader_epoch:
            await self._write(key, (stored or ShareState())._replace(leader_epoch=leader_epoch))
        return self._stored.get(key) or ShareState()

    async def write(self, key: ShareKey, new: ShareState) -> None:
        """Change a state. The ranges of records in `new` are merged with the stored ones (`merge_runs`), and the start
        offset of a state epoch never decreases: a write that was delayed in the network may arrive after later ones.

        Raises InvalidRequestError if there is no state, and FencedLeaderEpochError or FencedStateEpochError for an
        earlier epoch.
        """
        self.check(str(key))
        stored = self._stored.get(key)
        if stored is None:
            raise errors.InvalidRequestError(f"{key} has no state")
        if new.leader_epoch < stored.leader_epoch:
            raise errors.FencedLeaderEpochError(f"{key} has a leader of epoch {stored.leader_epoch}")
        if new.state_epoch < stored.state_epoch:
            raise errors.FencedStateEpochError(f"the state of {key} has epoch {stored.state_epoch}")
        start = stored.start if new.start == UNINITIALIZED else new.start
        if new.state_epoch == stored.state_epoch:
            start = max(start, stored.start)
        runs = records.merge_runs(stored.runs, new.runs, start)
        done = sum(run.last + 1 - run.first for run in runs if run.state in DONE)
        await self._write(key, new._replace(start=start, done=done, runs=runs, snapshot_epoch=stored.snapshot_epoch))

    def summary(self, key: ShareKey) -> ShareState:
        """Return the state without changing it; an empty one if there is none."""
        self.check(str(key))
        return self._stored.get(key) or ShareState()

    async def delete(self, key: ShareKey) -> None:
        """Delete a state, if there is one."""
        self.check(str(key))
        if key in self._stored:
            await self._append(key, records.tombstones(key), None)

    def on_loaded(self, index: int) -> None:
        """On a standalone broker, remove the state of deleted topics, in case it has stopped before it could do so."""
        if self._sees_all_topics:
            names = self._image().names
            self._remove([key for key in self._stored.keys_in(index) if key.topic_id not in names])

    def on_unloaded(self, index: int) -> None:
        """Drop the states in a partition of `__share_group_state`."""
        self._stored.drop(index)

    def on_topics_deleted(self, ids: Collection[UUID]) -> None:
        for index in self.shards.indexes:
            self._remove([key for key in self._stored.keys_in(index) if key.topic_id in ids])

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply a record of a partition that is being loaded."""
        entry = records.read(key, value, self._stored.get)
        if entry is not None:
            self._apply(*entry)

    async def _write(self, key: ShareKey, state: ShareState) -> None:
        state = state._replace(snapshot_epoch=state.snapshot_epoch + 1)
        await self._append(key, [records.snapshot_record(key, state, self._clock.now_ms())], state)

    async def _append(self, key: ShareKey, new: list[CoordinatorRecord], state: ShareState | None) -> None:
        try:
            committed = self._log.append(str(key), new)
        except errors.KafkaError as error:
            raise to_client_error(error) from error
        self._apply(key, state)
        if committed is not None:
            await wait_committed(committed, self._append_seconds)

    def _apply(self, key: ShareKey, state: ShareState | None) -> None:
        if state is not None:
            self._stored[key] = state
        elif key in self._stored:
            del self._stored[key]

    def _remove(self, keys: list[ShareKey]) -> None:
        for key in keys:
            del self._stored[key]
            try:
                self._log.append(str(key), records.tombstones(key))
            except errors.KafkaError as error:
                log.error(
                    "Cannot remove the state of share partition %s of a deleted topic from __share_group_state, where "
                    "it stays: %s",
                    key,
                    error,
                )
