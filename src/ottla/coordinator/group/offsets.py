"""Committed offsets: validation of requests, deletion, expiration and replay, without I/O.

Kafka's `OffsetMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping

from ottla import errors
from ottla.clock import Clock
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.group.classic import records
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.records import CommittedOffset
from ottla.coordinator.group.common.group import Committer, Group
from ottla.coordinator.group.group_coordinator import GroupCoordinator, tombstones
from ottla.coordinator.group.pending_offsets import OffsetKey, PendingOffsets
from ottla.coordinator.group.share.share_group import ShareGroup
from ottla.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult
from ottla.model import TopicPartition

GROUP_NOT_FOUND_SINCE = 9
"""First OffsetCommit version that returns GROUP_ID_NOT_FOUND; earlier ones return ILLEGAL_GENERATION."""


class Offsets:
    """The committed and pending offsets of all groups that one broker coordinates."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        groups: GroupCoordinator,
        by_group: MutableMapping[str, dict[TopicPartition, CommittedOffset]] | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._groups = groups
        self._retention_ms = config.offsets_retention_minutes * 60_000
        self.by_group: MutableMapping[str, dict[TopicPartition, CommittedOffset]] = {} if by_group is None else by_group
        self.pending = PendingOffsets()

    def check_commit(self, group_id: str, committer: Committer, version: int) -> None:
        """Raise an error if this client may not commit offsets of the group.

        If the group does not exist, create an empty classic group for a client without an epoch, such as a simple
        consumer (one that assigns partitions itself).
        """
        group = self._groups.by_id.get(group_id)
        if group is None:
            if committer.epoch >= 0:
                if version >= GROUP_NOT_FOUND_SINCE:
                    raise errors.GroupIdNotFoundError(f"Group {group_id} not found.")
                raise errors.IllegalGenerationError
            group = self._groups.by_id[group_id] = ClassicGroup(group_id)
        group.check_commit(committer, version, self._clock.monotonic())

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        """Raise an error if a client may not read the group's offsets.

        `member_id`: None if the client is not a member.
        """
        group = self._groups.by_id.get(group_id)
        if group is not None:
            group.check_fetch(member_id, epoch)

    def checked_metadata(self, metadata: str | None) -> str:
        """Return the metadata of a commit, "" for None.

        Raises OffsetMetadataTooLargeError if it is longer than `offset.metadata.max.bytes`.
        """
        if metadata is not None and len(metadata.encode()) > self._config.offset_metadata_max_bytes:
            raise errors.OffsetMetadataTooLargeError
        return metadata or ""

    def delete(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Iterator[tuple[TopicPartition, CoordinatorRecord | None]]:
        """Handle OffsetDelete: return each partition with the tombstone of its offset, or None if the group subscribes
        to the topic.

        Raises GroupIdNotFoundError if the group does not exist, and the error of `Group.check_offset_delete`.
        """
        group = self._group(group_id)
        group.check_offset_delete()
        subscribed = group.subscribed()
        return ((tp, None if subscribed(tp.topic) else records.offset_record(group_id, tp, None)) for tp in partitions)

    def has(self, group_id: str, tp: TopicPartition) -> bool:
        """Return whether the group has a committed offset of this partition."""
        return tp in self.by_group.get(group_id, ())

    def delete_group(self, group_id: str) -> CoordinatorResult:
        group = self._group(group_id)
        if not group.is_empty:
            raise errors.NonEmptyGroupError
        result = CoordinatorResult()
        for tp in {*self.by_group.get(group_id, ()), *self.pending.of_group(group_id)}:
            result.records.append(records.offset_record(group_id, tp, None))
        result.records += tombstones(group)
        return result

    def expire(self, group: Group) -> CoordinatorResult:
        """Return the tombstones of expired offsets of topics that the group does not read (KIP-211).

        Offsets expire after `offsets.retention.minutes`, or at the time that the client has requested. If the group is
        empty and no offset remains, return its tombstones as well. Nothing of a share group expires.
        """
        result = CoordinatorResult()
        if isinstance(group, ShareGroup):
            return result  # its start offsets are in the share coordinator, and do not expire
        offsets = self.by_group.get(group.id, {})
        subscribed = group.subscribed()
        pending = set(self.pending.of_group(group.id))
        retained = pending.union(tp for tp in offsets if subscribed(tp.topic))
        expired = [tp for tp, committed in offsets.items() if tp not in retained and self._expired(group, committed)]
        result.records += [records.offset_record(group.id, tp, None) for tp in expired]
        if group.is_empty and not pending and len(expired) == len(offsets):
            result.records += tombstones(group)
        return result

    def _expired(self, group: Group, committed: CommittedOffset) -> bool:
        since = group.retained_since(committed.commit_ms)
        if since is None:
            return False
        due = committed.expire_ms if committed.expire_ms >= 0 else since + self._retention_ms
        return due <= self._clock.now_ms()

    def _group(self, group_id: str) -> Group:
        group = self._groups.by_id.get(group_id)
        if group is None:
            raise errors.GroupIdNotFoundError(f"The group id {group_id} was not found.")
        return group

    def topic_tombstones(self, topics: frozenset[str]) -> Iterator[tuple[str, list[CoordinatorRecord]]]:
        """Yield the id of each group that has offsets of these topics, with the tombstones of those offsets."""
        for group_id, offsets in self.by_group.items():
            topic_records = [records.offset_record(group_id, tp, None) for tp in offsets if tp.topic in topics]
            if topic_records:
                yield group_id, topic_records

    def replay(self, group_id: str, tp: TopicPartition, committed: CommittedOffset | None) -> None:
        self.pending.supersede(OffsetKey(group_id, tp))
        self.set(group_id, tp, committed)

    def set(self, group_id: str, tp: TopicPartition, committed: CommittedOffset | None) -> None:
        if committed is not None:
            self.by_group.setdefault(group_id, {})[tp] = committed
            if group_id not in self._groups.by_id:
                self._groups.by_id[group_id] = ClassicGroup(group_id)
        elif group_id in self.by_group:
            self.by_group[group_id].pop(tp, None)
            if not self.by_group[group_id]:
                del self.by_group[group_id]
