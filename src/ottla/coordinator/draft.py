"""A change to a KIP-848 group while it is decided: tried on a copy, kept as records.

The live group changes only when the records are replayed, so a change that cannot be written has not happened. Each
method below does to the copy what its record will do to the group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ottla.cluster.metadata import ClusterImage
from ottla.coordinator import consumer_records as records
from ottla.coordinator import regex
from ottla.coordinator.assignors.spec import Assignor, MemberSpec
from ottla.coordinator.consumer_group import ConsumerGroup, ResolvedRegex
from ottla.coordinator.consumer_member import JOINING, NOTHING, Assignment, ConsumerMember, MemberState
from ottla.coordinator.consumer_topics import ids_of, metadata_hash, sizes_of
from ottla.coordinator.effects import Record
from ottla.coordinator.reconciliation import reconcile


class Draft:
    """A group as it will be. The copy is made when the first thing changes, as most heartbeats change nothing."""

    def __init__(self, group: ConsumerGroup, image: ClusterImage, now_ms: int, before: Iterable[Record] = ()) -> None:
        self.live = group
        self.group = group
        self.records = list(before)
        self._image = image
        self._now_ms = now_ms

    def describe(self, member: ConsumerMember) -> None:
        """A member says something new about itself, or is new."""
        old = self.group.members.get(member.id)
        if old is None or old.description != member.description:
            self._write(records.member_record(self.group.id, member))
            self.group.put(member)

    def remove(self, member_id: str) -> None:
        """A member goes."""
        self._write(*records.member_tombstones(self.group.id, member_id))
        self.group.remove(member_id)
        self.group.targets.pop(member_id, None)

    def replace(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member is back under another id: it gets the place of the one before, from the start."""
        target = self.group.target_of(old)
        new = replace(
            old, id=member_id, epoch=JOINING, previous_epoch=JOINING, state=MemberState.STABLE, revoking=NOTHING
        )
        self.remove(old.id)
        self._write(records.member_record(self.group.id, new))
        self._set_target(member_id, target)
        self._write(records.current_record(self.group.id, new))
        self.group.put(new)
        return new

    def look_at_topics(self, max_age_ms: int) -> bool:
        """Resolve regular expressions again; True when the subscribed topics are not what was assigned for."""
        wanted = {m.regex for m in self.group.members.values() if m.regex}
        for expression in sorted(self.group.regexes.keys() - wanted):
            self._write(records.regex_record(self.group.id, expression, None))
            del self.group.regexes[expression]
        for expression in sorted(wanted):
            self._resolve(expression, max_age_ms)
        return self._hash() != self.group.metadata_hash

    def bump(self) -> None:
        """The group begins a new epoch, for which a target has to be made."""
        if self.group.has_topics_record:
            self._write(records.topics_tombstone(self.group.id))
            self.group.has_topics_record = False
        epoch, found = self.group.epoch + 1, self._hash()
        self._write(records.epoch_record(self.group.id, epoch, found))
        self.group.epoch, self.group.metadata_hash = epoch, found

    def assign(self, assignor: Assignor) -> None:
        """Make the target of the present epoch."""
        group = self.group
        subscribed = {m.id: ids_of(group.topics_of(m), self._image) for m in group.members.values()}
        specs = {m.id: MemberSpec(subscribed[m.id], group.target_of(m), m.instance_id) for m in group.members.values()}
        found = assignor(specs, sizes_of(group.topics(), self._image))
        for member_id, target in found.items():
            if self.group.targets.get(member_id) != target:
                self._set_target(member_id, target)
        self._write(records.target_epoch_record(group.id, self.group.epoch, self._now_ms))
        self.group.target_epoch = self.group.epoch

    def advance(self, member_id: str, owned: Assignment | None) -> ConsumerMember:
        """Bring a member nearer to its target."""
        group = self.group
        member = group.members[member_id]
        after = reconcile(member, group.target_epoch, group.target_of(member), group.owners, owned)
        return self.settle(after) if after is not member else member

    def settle(self, member: ConsumerMember) -> ConsumerMember:
        """A member's assignment or epoch changes."""
        self._write(records.current_record(self.group.id, member))
        self.group.put(member)
        return member

    def _resolve(self, expression: str, max_age_ms: int) -> None:
        old = self.group.regexes.get(expression)
        topics = regex.matching(expression, self._image.topics)
        if old is not None and old.topics == topics and self._now_ms - old.timestamp_ms < max_age_ms:
            return
        found = ResolvedRegex(topics, 0, self._now_ms)
        self._write(records.regex_record(self.group.id, expression, found))
        self.group.regexes[expression] = found

    def _set_target(self, member_id: str, target: Assignment) -> None:
        self._write(records.target_record(self.group.id, member_id, target))
        self.group.targets[member_id] = target

    def _hash(self) -> int:
        return metadata_hash(self.group.topics(), self._image)

    def _write(self, *new: Record) -> None:
        if self.group is self.live:
            self.group = self.live.copy()
        self.records += new
