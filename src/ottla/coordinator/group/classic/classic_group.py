"""One classic consumer group: its members, its generation, and the table of its states.

    Empty ──join──▶ PreparingRebalance ──all joined──▶ CompletingRebalance ──leader synced──▶ Stable
      ▲                  ▲    │                               │                                │
      └──nobody joined───┼────┘                               │                                │
                         └──────────join, leave, expiry───────┴────────────────────────────────┘

Everything is plain data and arithmetic; times are monotonic seconds and are given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ottla.coordinator.group.classic.subscriptions import CONSUMER, topics_of
from ottla.coordinator.group.common.group import Committer, Subscribed
from ottla.coordinator.runtime.deadline_queue import NEVER
from ottla.coordinator.runtime.result import ResponseFuture
from ottla.errors import (
    FencedInstanceIdError,
    IllegalGenerationError,
    IllegalStateError,
    NonEmptyGroupError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

TYPE = "classic"


class ClassicGroupState(StrEnum):
    """Kafka's names for what a group is doing."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_TRANSITIONS: dict[ClassicGroupState, frozenset[ClassicGroupState]] = {
    ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING, ClassicGroupState.DEAD}),
    ClassicGroupState.PREPARING: frozenset(
        {ClassicGroupState.COMPLETING, ClassicGroupState.EMPTY, ClassicGroupState.DEAD}
    ),
    ClassicGroupState.COMPLETING: frozenset(
        {ClassicGroupState.STABLE, ClassicGroupState.PREPARING, ClassicGroupState.DEAD}
    ),
    ClassicGroupState.STABLE: frozenset({ClassicGroupState.PREPARING, ClassicGroupState.DEAD}),
    ClassicGroupState.DEAD: frozenset(),
}
"""Which state may come after which."""


MAX_PENDING: Final = 10_000
"""Ids that a group has handed out to members which have yet to join: anybody may ask for as many as he likes."""


@dataclass(slots=True)
class ClassicMember:
    """One member: what it offered when it joined, what it was assigned, and which answers it waits for."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocols: dict[str, bytes]
    assignment: bytes = b""
    deadline: float = NEVER
    join_deadline: float = NEVER
    """Until when a member that has never been answered is kept waiting; it knows no id yet and cannot leave."""
    awaiting_join: ResponseFuture | None = None
    awaiting_sync: ResponseFuture | None = None
    synced: bool = False

    def touch(self, now: float) -> None:
        """The member gave a sign of life."""
        self.deadline = now + self.session_timeout

    @property
    def timer(self) -> float:
        """When it is thought dead; a member that waits for an answer is alive as long as it waits, unless it is new."""
        if self.awaiting_join is not None:
            return self.join_deadline
        return NEVER if self.awaiting_sync is not None else self.deadline


@dataclass(slots=True)
class ClassicGroup:
    """A group. Only `groups` changes it, through the methods below."""

    id: str
    state: ClassicGroupState = ClassicGroupState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    """Member ids by group.instance.id."""
    pending: dict[str, float] = field(default_factory=dict)
    """Ids handed out to members that have yet to join with them, and until when."""
    deadline: float = NEVER
    """When the present rebalance is ended by force."""
    initial: bool = False
    """Whether this rebalance is the first after Empty, which waits for more members."""
    rebalance_began: float = 0.0
    joined_since: bool = False
    """Whether somebody joined during the present stretch of the initial delay."""
    sync_deadline: float = NEVER
    empty_since_ms: int = -1
    members_due: float = NEVER
    """No member and no id handed out times out before this: a lower bound, so that a heartbeat need not look at all."""
    protocol_counts: Counter[str] = field(default_factory=Counter)
    """How many members offer each protocol."""

    @property
    def type(self) -> str:
        """Kafka's name for this kind of group."""
        return TYPE

    @property
    def state_name(self) -> str:
        """Kafka's name for what it is doing."""
        return self.state

    def transition_to(self, state: ClassicGroupState) -> None:
        """Take another state, if the table allows it."""
        if state not in VALID_TRANSITIONS[self.state]:
            raise IllegalStateError(f"group {self.id} cannot go from {self.state} to {state}")
        self.state = state

    def add(self, member: ClassicMember) -> None:
        """Take a member in."""
        self.members[member.id] = member
        self._count_protocols(member.protocols, 1)
        self.schedule(min(member.deadline, member.join_deadline))
        self.pending.pop(member.id, None)
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id

    def remove(self, member_id: str) -> None:
        """Let a member go."""
        member = self.members.pop(member_id)
        self._count_protocols(member.protocols, -1)
        if member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def update_protocols(self, member: ClassicMember, protocols: dict[str, bytes]) -> None:
        """A member of the group offers other protocols."""
        self._count_protocols(member.protocols, -1)
        self._count_protocols(protocols, 1)
        member.protocols = protocols

    def _count_protocols(self, protocols: Iterable[str], members: int) -> None:
        for protocol in protocols:
            self.protocol_counts[protocol] += members
            if not self.protocol_counts[protocol]:
                del self.protocol_counts[protocol]

    def touch(self, member: ClassicMember, now: float) -> None:
        """A member of the group gave a sign of life."""
        member.touch(now)
        self.schedule(member.deadline)

    def schedule(self, deadline: float) -> None:
        """Something may be due then."""
        self.members_due = min(self.members_due, deadline)

    def add_pending_member(self, member_id: str, until: float) -> None:
        """Hand out an id to join with; of too many the oldest is forgotten, whose client then asks for another."""
        while len(self.pending) >= MAX_PENDING:
            del self.pending[next(iter(self.pending))]
        self.pending[member_id] = until
        self.schedule(until)

    def replace_static_member(self, old: ClassicMember, new_id: str) -> None:
        """A static member came back under a new id; its place among the members stays."""
        was_leader = self.leader == old.id
        self.members = {new_id if key == old.id else key: m for key, m in self.members.items()}
        old.id = new_id
        if old.instance_id is not None:
            self.static[old.instance_id] = new_id
        if was_leader:
            self.leader = new_id

    def accepts(self, protocol_type: str, protocols: dict[str, bytes]) -> bool:
        """Whether a member that offers these protocols fits in."""
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return True
        return protocol_type == self.protocol_type and any(
            self.protocol_counts[p] == len(self.members) for p in protocols
        )

    def common_protocols(self) -> set[str]:
        """Protocols that every member offers."""
        return {protocol for protocol, count in self.protocol_counts.items() if count == len(self.members) > 0}

    def choose_protocol(self) -> str:
        """Every member votes for the first of its protocols that all offer; the most votes win."""
        common = self.common_protocols()
        votes = Counter(next(p for p in m.protocols if p in common) for m in self.members.values())
        return max(votes, key=lambda p: votes[p])

    @property
    def is_empty(self) -> bool:
        """Whether nobody is in it or about to join."""
        return self.state is ClassicGroupState.EMPTY and not self.pending

    @property
    def is_simple(self) -> bool:
        """Whether it has only ever stored offsets; such a group has no record of its own."""
        return self.is_empty and self.protocol_type is None and self.generation == 0

    @property
    def rebalance_timeout(self) -> float:
        """How long members get to join again, in seconds: as long as the slowest asks for."""
        return max((m.rebalance_timeout for m in self.members.values()), default=0.0)

    @property
    def awaiting_join(self) -> list[ClassicMember]:
        """Members that have joined the present rebalance."""
        return [m for m in self.members.values() if m.awaiting_join is not None]

    @property
    def all_joined(self) -> bool:
        """Whether the rebalance can be completed before its deadline."""
        return not self.pending and all(m.awaiting_join is not None for m in self.members.values())

    def member_of(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member that a request speaks for."""
        if instance_id is not None:
            owner = self.static.get(instance_id)
            if owner is None:
                raise UnknownMemberIdError
            if owner != member_id:
                raise FencedInstanceIdError
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError
        return member

    def check_generation(self, generation: int) -> None:
        """Raise IllegalGenerationError for another generation than the group's."""
        if generation != self.generation:
            raise IllegalGenerationError

    def check_commit(self, committer: Committer, version: int, now: float) -> None:
        """Raise why this member, or (for a group that nobody is in) anybody, may not commit offsets now."""
        if committer.epoch < 0 and self.state is ClassicGroupState.EMPTY:
            return
        if committer.is_anonymous_producer:
            return
        if committer.epoch < 0 and not committer.member_id and committer.instance_id is None:
            raise UnknownMemberIdError
        member = self.member_of(committer.member_id, committer.instance_id)
        self.check_generation(committer.epoch)
        if committer.transactional:
            return
        if self.state is ClassicGroupState.COMPLETING:
            raise RebalanceInProgressError
        self.touch(member, now)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Anybody may read a classic group's offsets."""

    def check_offset_delete(self) -> None:
        """Raise NonEmptyGroupError where the broker cannot know which topics the members read."""
        if self.state is not ClassicGroupState.EMPTY and self.protocol_type != CONSUMER:
            raise NonEmptyGroupError

    def subscribed(self) -> Subscribed:
        """Whether the group reads a topic, as far as can be told (KIP-496)."""
        if self.protocol_type != CONSUMER or not self.members:
            return lambda _: False
        topics = topics_of(m.protocols.get(self.protocol or "") for m in self.members.values())
        return lambda topic: topics is None or topic in topics

    def retained_since(self, commit_ms: int) -> int | None:
        """From when on the retention of an offset counts; None while it must not expire (KIP-211)."""
        if self.protocol_type is None:
            return commit_ms  # a consumer that manages by itself and only stores its offsets here
        if self.is_empty:
            return self.empty_since_ms if self.empty_since_ms >= 0 else commit_ms
        if self.state is ClassicGroupState.STABLE and self.protocol_type == CONSUMER:
            return commit_ms
        return None

    def next_deadline(self) -> float:
        """When something may be due without a request."""
        return min(self.deadline, self.sync_deadline, self.members_due)

    def update_members_due(self) -> None:
        """Work out when the next member, or id handed out, times out."""
        timers = [m.timer for m in self.members.values()]
        self.members_due = min([*timers, *self.pending.values()], default=NEVER)
