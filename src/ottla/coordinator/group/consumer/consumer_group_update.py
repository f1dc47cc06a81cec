"""An update of a consumer group: changes are applied to a copy of the group, and collected as records.

The group itself, apart from its cache `evaluated_topics`, changes only when the records are replayed, so an update that
cannot be written has no effect. A change adds records, and changes the copy as replaying them will change the
group. Kafka's `TargetAssignmentBuilder` and `CurrentAssignmentBuilder`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from ottla.coordinator.group.common.consumer_member import (
    JOINING,
    NOTHING,
    Assignment,
    ConsumerMember,
    MemberState,
)
from ottla.coordinator.group.common.consumer_topics import ids_of, metadata_hash, sizes_of
from ottla.coordinator.group.common.group_update import GroupUpdate, reconcile
from ottla.coordinator.group.consumer import consumer_records as records
from ottla.coordinator.group.consumer import regex
from ottla.coordinator.group.consumer.assignors.spec import Assignor, MemberSpec
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup, ResolvedRegex
from ottla.model import TopicIdPartition


class RegexVisibility(NamedTuple):
    """A member's regular expression (may be empty), and a predicate: whether the member may describe a topic."""

    expression: str
    may_describe: Callable[[str], bool]


class ConsumerGroupUpdate(GroupUpdate[ConsumerGroup]):
    """An update of a consumer group. `group` is the group with the changes so far."""

    def set_member(self, member: ConsumerMember) -> None:
        old = self.group.members.get(member.id)
        if old is None or old.description != member.description:
            self._write(records.member_record(self.group.id, member))
            self.group.put(member)

    def remove(self, member_id: str) -> None:
        self._write(*records.member_tombstones(self.group.id, member_id))
        self.group.remove(member_id)
        self.group.targets.pop(member_id, None)

    def replace(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """Replace a static member with a joining one that has another id and inherits the assignments.

        Return the new member.
        """
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

    def refresh_regexes(self, max_age_ms: int) -> bool:
        """Resolve all regular expressions again, and remove those that no member uses.

        Return whether the hash of the subscribed topics differs from the group's `metadata_hash`.
        """
        self.remove_unused_regexes()
        for expression in sorted({m.regex for m in self.group.members.values() if m.regex}):
            self._resolve(expression, max_age_ms)
        return self._hash() != self.group.metadata_hash

    def refresh_regex(self, visibility: RegexVisibility, max_age_ms: int) -> bool:
        """Resolve the regular expression of one member, for brokers with an authorizer, and remove those that no member
        uses.

        Return whether the hash of the subscribed topics differs from the group's `metadata_hash`.

        Members that share an expression share its result. A topic that one of them may not describe is removed from the
        result, and is added again only if the set of matching topics has changed, or the result is at least
        `max_age_ms` old. So members do not undo each other's results.
        """
        self.remove_unused_regexes()
        if visibility.expression:
            self._resolve_visible(visibility, max_age_ms)
        return self._hash() != self.group.metadata_hash

    def remove_unused_regexes(self) -> None:
        subscribed = {m.regex for m in self.group.members.values()}
        for expression in sorted(self.group.regexes.keys() - subscribed):
            self._write(records.regex_record(self.group.id, expression, None))
            del self.group.regexes[expression]
            self.original.evaluated_topics.pop(expression, None)

    def is_outdated(self, visibility: RegexVisibility, max_age_ms: int) -> bool:
        """Return whether a member's expression was resolved too long ago, or to topics that the member may not
        describe; False if it has not been resolved.
        """
        resolved = self.group.regexes.get(visibility.expression)
        if resolved is None:
            return False
        return self._now_ms - resolved.timestamp_ms >= max_age_ms or not all(
            map(visibility.may_describe, resolved.topics)
        )

    def bump_epoch(self) -> None:
        """Increment the group epoch, and store the current metadata hash with it.

        A target assignment for the new epoch has to be computed later (`set_targets`).
        """
        if self.group.has_topics_record:
            self._write(records.topics_tombstone(self.group.id))
            self.group.has_topics_record = False
        epoch, hash_ = self.group.epoch + 1, self._hash()
        self._write(records.epoch_record(self.group.id, epoch, hash_))
        self.group.epoch, self.group.metadata_hash = epoch, hash_

    def set_targets(self, assignor: Assignor) -> None:
        """Compute and record the target assignment for the current epoch with `assignor`."""
        group = self.group
        subscribed = {m.id: ids_of(group.topics_of(m), self._image) for m in group.members.values()}
        specs = {m.id: MemberSpec(subscribed[m.id], group.target_of(m), m.instance_id) for m in group.members.values()}
        assignment = assignor(specs, sizes_of(group.topics(), self._image))
        for member_id, target in assignment.items():
            if self.group.targets.get(member_id) != target:
                self._set_target(member_id, target)
        self._write(records.target_epoch_record(group.id, self.group.epoch, self._now_ms))
        self.group.target_epoch, self.group.assigned_at_ms = self.group.epoch, self._now_ms

    def advance(self, member_id: str, owned: Assignment | None) -> ConsumerMember:
        group = self.group
        member = group.members[member_id]

        def is_free(partition: TopicIdPartition) -> bool:
            return group.owners.get(partition, member_id) == member_id

        after = reconcile(member, group.target_epoch, group.target_of(member), is_free, owned)
        return self.set_current(after) if after is not member else member

    def set_current(self, member: ConsumerMember) -> ConsumerMember:
        self._write(records.current_record(self.group.id, member))
        self.group.put(member)
        return member

    def _resolve(self, expression: str, max_age_ms: int) -> None:
        old = self.group.regexes.get(expression)
        topics = regex.matching(expression, self._image.topics)
        if old is not None and old.topics == topics and self._now_ms - old.timestamp_ms < max_age_ms:
            return
        resolved = ResolvedRegex(topics, 0, self._now_ms)
        self._write(records.regex_record(self.group.id, expression, resolved))
        self.group.regexes[expression] = resolved

    def _resolve_visible(self, visibility: RegexVisibility, max_age_ms: int) -> None:
        old = self.group.regexes.get(visibility.expression)
        matching = regex.matching(visibility.expression, self._image.topics)
        version = _topics_version(matching)
        if old is not None and old.version == version and self._now_ms - old.timestamp_ms < max_age_ms:
            resolved = replace(old, topics=frozenset(filter(visibility.may_describe, old.topics)))
        else:
            resolved = ResolvedRegex(frozenset(filter(visibility.may_describe, matching)), version, self._now_ms)
        if resolved != old:
            self._write(records.regex_record(self.group.id, visibility.expression, resolved))
            self.group.regexes[visibility.expression] = resolved

    def _set_target(self, member_id: str, target: Assignment) -> None:
        self._write(records.target_record(self.group.id, member_id, target))
        self.group.targets[member_id] = target

    def _hash(self) -> int:
        return metadata_hash(self.group.topics(), self._image)


def _topics_version(topics: Iterable[str]) -> int:
    """Return a negative checksum of the names of the matching topics.

    It is stored where Kafka stores its metadata version. Being negative, it is older than any version of Kafka's, so
    that Kafka resolves the expressions again.
    """
    return -1 - zlib.crc32("\n".join(sorted(topics)).encode())
