"""One consumer group: its members, its target assignment, and the owners of partitions. Kafka's `ConsumerGroup`.

    Empty ──join──▶ Assigning ──target computed──▶ Reconciling ──all members at target──▶ Stable
      ▲                 ▲                                                                   │
      └──last one left──┴───────────join, leave, other topics───────────────────────────────┘

The state follows from the members and epochs: a change bumps the group's epoch, a target assignment is computed for it,
and each member moves to its target independently. A group is changed only by replaying records, apart from its timers
and `evaluated_topics`, which are not in the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from ottla import errors
from ottla.coordinator.group.common.consumer_member import ConsumerMember
from ottla.coordinator.group.common.group import Committer
from ottla.coordinator.group.common.member_timers import Timers, next_timeout
from ottla.coordinator.group.common.modern_group import SubscribedGroup
from ottla.model import TopicIdPartition

EPOCHS_SINCE = 9
"""First OffsetCommit version that has the member epoch."""


class ConsumerGroupState(StrEnum):
    """The states, with Kafka's names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics to which a regular expression was resolved.

    `version`: a number that changes with the matching topics; a broker without an authorizer writes 0.
    `timestamp_ms`: time of the resolution in ms since 1970.
    """

    topics: frozenset[str]
    version: int = 0
    timestamp_ms: int = 0


@dataclass(slots=True)
class ConsumerGroup(SubscribedGroup[ConsumerMember]):
    """A consumer group. `timers` and `evaluated_topics` are not in the log."""

    TYPE = "consumer"

    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    """Member ids by group.instance.id."""
    owners: dict[TopicIdPartition, str] = field(default_factory=dict)
    """The ids of members by the partitions that they hold. Other members must wait for these partitions."""
    has_topics_record: bool = False
    """Whether the log has a ConsumerGroupPartitionMetadata record, which Kafka wrote before 4.1; the metadata hash has
    replaced it.
    """

    timers: dict[str, Timers] = field(default_factory=dict)
    evaluated_topics: dict[str, object] = field(default_factory=dict)
    """The topics of the cluster image for which the metadata hash and the regular expressions were last computed and
    had not changed.

    With an authorizer, the key is the regular expression of a member, which may be empty. Otherwise, the only key is
    empty.
    """

    @property
    def state_name(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        reconciled = all(m.is_reconciled(self.target_epoch) for m in self.members.values())
        return ConsumerGroupState.STABLE if reconciled else ConsumerGroupState.RECONCILING

    def copy(self) -> ConsumerGroup:
        """Return a copy for an update, without timers. `evaluated_topics` is shared."""
        return replace(
            self,
            members=dict(self.members),
            targets=dict(self.targets),
            regexes=dict(self.regexes),
            static=dict(self.static),
            owners=dict(self.owners),
            timers={},
        )

    def put(self, member: ConsumerMember) -> None:
        old = self.members.get(member.id)
        if old is not None:
            self._release(old)
        self.members[member.id] = member
        for partition in member.holds:
            self.owners[partition] = member.id
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id

    def remove(self, member_id: str) -> None:
        """Remove a member and its timers, if they exist, and release the partitions that it holds."""
        member = self.members.pop(member_id, None)
        self.timers.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        if member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]

    def _release(self, member: ConsumerMember) -> None:
        for partition in member.holds:
            if self.owners.get(partition) == member.id:
                del self.owners[partition]

    def member_of(self, member_id: str, instance_id: str | None) -> ConsumerMember:
        """Return the member that a request names.

        Raises UnknownMemberIdError if the member id or the instance id is unknown, or FencedInstanceIdError if another
        member has the instance id.
        """
        if instance_id is not None:
            owner = self.static.get(instance_id)
            if owner is None:
                raise errors.UnknownMemberIdError(f"Instance id {instance_id} is unknown.")
            if owner != member_id:
                raise errors.FencedInstanceIdError(
                    f"Static member {member_id} with instance id {instance_id} was fenced by member {owner}."
                )
        return self.member(member_id)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the names of the topics that a member subscribes to, by name or by regular expression."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return member.topics | resolved.topics if resolved is not None else member.topics

    def all_classic_but(self, member_ids: set[str]) -> bool:
        """Return whether there are members other than `member_ids`, and all of them use the classic protocol."""
        others = [m for m in self.members.values() if m.id not in member_ids]
        return bool(others) and all(m.classic is not None for m in others)

    def check_commit(self, committer: Committer, version: int, now: float) -> None:
        """Raise an error if this client may not commit offsets.

        A client without an epoch may commit if the group is empty, or as a transactional producer that names no member.
        """
        if committer.epoch < 0 and (not self.members or committer.is_anonymous_producer):
            return
        member = self.member_of(committer.member_id, None)
        if not committer.transactional and member.classic is None and version < EPOCHS_SINCE:
            raise errors.UnsupportedVersionError(
                f"members of this group must commit offsets with OffsetCommit {EPOCHS_SINCE} or later"
            )
        _check_epoch(member, committer.epoch, transactional=committer.transactional)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise an error if the client names an unknown member, or not the member's epoch.

        A client that names no member and no epoch may read offsets.
        """
        if member_id is None and epoch < 0:
            return
        _check_epoch(self.member_of(member_id or "", None), epoch)

    def check_offset_delete(self) -> None:
        """Do nothing: offsets of topics that no member subscribes to can always be deleted."""

    def retained_since(self, commit_ms: int) -> int | None:
        return commit_ms

    def next_deadline(self) -> float:
        return next_timeout(self.timers)


def _check_epoch(member: ConsumerMember, epoch: int, *, transactional: bool = False) -> None:
    if epoch == member.epoch:
        return
    if member.classic is not None or transactional:
        raise errors.IllegalGenerationError  # the only error for it in the classic protocol, and in TxnOffsetCommit
    raise errors.StaleMemberEpochError(f"The received member epoch {epoch} is not the expected one, {member.epoch}.")
