"""Committed offsets: who may commit, what is kept, and when it expires. Decisions only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.clock import Clock
from ottla.config.broker import BrokerConfig
from ottla.coordinator import records
from ottla.coordinator.effects import Effects, Record
from ottla.coordinator.group import Group, State
from ottla.coordinator.groups import Groups, check_generation
from ottla.coordinator.records import Committed
from ottla.errors import (
    GroupIdNotFoundError,
    IllegalGenerationError,
    InvalidGroupIdError,
    NonEmptyGroupError,
    OffsetMetadataTooLargeError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from ottla.model import TopicPartition

NO_GENERATION = -1


class Offsets:
    """The offsets of all groups of one coordinator."""

    def __init__(self, config: BrokerConfig, clock: Clock, groups: Groups) -> None:
        self._config = config
        self._clock = clock
        self._groups = groups
        self.by_group: dict[str, dict[TopicPartition, Committed]] = {}

    def check_commit(self, group_id: str, generation: int, member_id: str, instance_id: str | None) -> Group:
        """The group, if this member (or, for an empty group, anybody) may commit for it now."""
        if not group_id:
            raise InvalidGroupIdError
        groups = self._groups
        group = groups.by_id.get(group_id)
        if group is None:
            if generation >= 0:
                raise IllegalGenerationError
            group = groups.by_id[group_id] = Group(group_id, empty_since_ms=self._clock.now_ms())
        if generation == NO_GENERATION and not member_id and instance_id is None:
            if group.state is not State.EMPTY:
                raise UnknownMemberIdError  # outsiders may commit for groups that nobody is in
            return group
        member = groups.member_of(group, member_id, instance_id)
        check_generation(group, generation)
        member.touch(self._clock.monotonic())
        if group.state is State.COMPLETING:
            raise RebalanceInProgressError
        return group

    def commit(self, group: Group, commits: Iterable[tuple[TopicPartition, Committed]]) -> Iterator[Record]:
        """The records of commits that `check` let through."""
        return (records.offset_record(group.id, tp, committed) for tp, committed in commits)

    def check(self, metadata: str | None) -> str:
        """The metadata of a commit, if it is not too long."""
        if metadata is not None and len(metadata.encode()) > self._config.offset_metadata_max_bytes:
            raise OffsetMetadataTooLargeError
        return metadata or ""

    def delete_group(self, group_id: str) -> Effects:
        """Remove an empty group with its offsets."""
        group = self._groups.by_id.get(group_id)
        if group is None:
            raise GroupIdNotFoundError(f"The group id {group_id} was not found.")
        if group.state is not State.EMPTY:
            raise NonEmptyGroupError
        effects = Effects()
        for tp in self.by_group.get(group_id, ()):
            effects.records.append(records.offset_record(group_id, tp, None))
        effects.records.append(records.group_tombstone(group_id))
        return effects

    def expire(self, group: Group) -> Effects:
        """Remove offsets that outlived `offsets.retention.minutes` since their group became empty; then the group."""
        effects = Effects()
        if group.state is not State.EMPTY or group.pending:
            return effects
        now = self._clock.now_ms()
        retention = self._config.offsets_retention_minutes * 60_000
        offsets = self.by_group.get(group.id, {})
        gone = []
        for tp, committed in offsets.items():
            own = committed.expire_ms
            due = own if own >= 0 else max(committed.commit_ms, group.empty_since_ms) + retention
            if due <= now:
                gone.append(tp)
        effects.records += [records.offset_record(group.id, tp, None) for tp in gone]
        if len(gone) == len(offsets):
            effects.records.append(records.group_tombstone(group.id))
        return effects

    def forget_topics(self, topics: frozenset[str]) -> Iterator[tuple[str, list[Record]]]:
        """Per group, what takes back the offsets of deleted topics."""
        for group_id, offsets in self.by_group.items():
            gone = [records.offset_record(group_id, tp, None) for tp in offsets if tp.topic in topics]
            if gone:
                yield group_id, gone

    def replay(self, group_id: str, tp: TopicPartition, committed: Committed | None) -> None:
        """Take over a record that is in the log."""
        if committed is not None:
            self.by_group.setdefault(group_id, {})[tp] = committed
            if group_id not in self._groups.by_id:
                self._groups.by_id[group_id] = Group(group_id, empty_since_ms=committed.commit_ms)
        elif group_id in self.by_group:
            self.by_group[group_id].pop(tp, None)
            if not self.by_group[group_id]:
                del self.by_group[group_id]
