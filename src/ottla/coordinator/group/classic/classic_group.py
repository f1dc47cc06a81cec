"""One classic group: its members, its generation, and the table of its states. Kafka's `ClassicGroup`.

    Empty ──join──▶ PreparingRebalance ────joined────▶ CompletingRebalance ──leader synced──▶ Stable
      ▲                  ▲    │                               │                                │
      └──none joined─────┼────┘                               │                                │
                         └──────────join, leave, expiry───────┴────────────────────────────────┘

A group that is deleted changes from any state to Dead.

Plain data without I/O. Times are arguments, in seconds of the clock's `monotonic`, except those whose name ends in
`_ms`, which are in ms since 1970; NEVER is infinity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ottla import errors
from ottla.coordinator.group.classic.subscriptions import CONSUMER, topics_of
from ottla.coordinator.group.common.group import Committer, Subscribed
from ottla.coordinator.runtime.deadline_queue import NEVER
from ottla.coordinator.runtime.result import ResponseFuture

TYPE = "classic"


class ClassicGroupState(StrEnum):
    """The states, with Kafka's names."""

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
"""The states that may follow each state."""


MAX_PENDING: Final = 10_000
"""Maximum number of member ids that a group has returned to clients which have not joined with them yet.

It limits memory, because a client may request any number of ids.
"""


@dataclass(slots=True)
class ClassicMember:
    """One member: its protocols, its assignment, and the responses that it waits for."""

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
    """The time at which a new member expires if it still waits for its first response.

    Its client may give up and join again as another member. Before JoinGroup v4, a new member does not know its id
    until the response, so it can neither send heartbeats nor leave.
    """
    awaiting_join: ResponseFuture | None = None
    awaiting_sync: ResponseFuture | None = None
    synced: bool = False

    def touch(self, now: float) -> None:
        self.deadline = now + self.session_timeout

    @property
    def timer(self) -> float:
        """The time at which the member expires; NEVER while it waits for a response other than its first one."""
        if self.awaiting_join is not None:
            return self.join_deadline
        return NEVER if self.awaiting_sync is not None else self.deadline


@dataclass(slots=True)
class ClassicGroup:
    """A classic group: its state, its members, and its deadlines."""

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
    """Member ids that were returned to clients which have not joined with them yet, with their expiry times."""
    deadline: float = NEVER
    """The time until which the current rebalance waits for members to join, unless it is extended."""
    initial: bool = False
    """Whether the current rebalance began with an empty group, and waits for more members to join
    (group.initial.rebalance.delay.ms).
    """
    rebalance_began: float = 0.0
    report_at: float = NEVER
    """The time at which a log line names the members that the rebalance waits for; NEVER if none is due."""
    joined_since: bool = False
    """Whether a new member has joined since the initial delay was started or last extended."""
    sync_deadline: float = NEVER
    empty_since_ms: int = -1
    members_due: float = NEVER
    """The earliest time at which a member or pending id may expire.

    A heartbeat does not postpone it, because that would require a look at all members. So it may be too early.
    """
    protocol_counts: Counter[str] = field(default_factory=Counter)
    """The number of members that support each protocol."""

    @property
    def type(self) -> str:
        return TYPE

    @property
    def state_name(self) -> str:
        return self.state

    @property
    def is_rebalancing(self) -> bool:
        """Whether a rebalance has started and is not completed."""
        return self.state in (ClassicGroupState.PREPARING, ClassicGroupState.COMPLETING)

    def transition_to(self, state: ClassicGroupState) -> None:
        """Change the state. Raises IllegalStateError for a transition that is not in the table."""
        if state not in VALID_TRANSITIONS[self.state]:
            raise errors.IllegalStateError(f"group {self.id} cannot change from {self.state} to {state}")
        self.state = state

    def add(self, member: ClassicMember) -> None:
        self.members[member.id] = member
        self._count_protocols(member.protocols, 1)
        self.schedule(min(member.deadline, member.join_deadline))
        self.pending.pop(member.id, None)
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id
        if self.leader is None:
            self.leader = member.id

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self._count_protocols(member.protocols, -1)
        if member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def update_protocols(self, member: ClassicMember, protocols: dict[str, bytes]) -> None:
        self._count_protocols(member.protocols, -1)
        self._count_protocols(protocols, 1)
        member.protocols = protocols

    def _count_protocols(self, protocols: Iterable[str], members: int) -> None:
        for protocol in protocols:
            self.protocol_counts[protocol] += members
            if not self.protocol_counts[protocol]:
                del self.protocol_counts[protocol]

    def touch(self, member: ClassicMember, now: float) -> None:
        member.touch(now)
        self.schedule(member.deadline)

    def schedule(self, deadline: float) -> None:
        """Schedule a check for expired members at `deadline`, or earlier."""
        self.members_due = min(self.members_due, deadline)

    def add_pending_member(self, member_id: str, until: float) -> None:
        """Add the id of a member that will join with it, valid until `until`.

        If MAX_PENDING ids are pending, drop the oldest one.
        """
        while len(self.pending) >= MAX_PENDING:
            del self.pending[next(iter(self.pending))]
        self.pending[member_id] = until
        self.schedule(until)

    def replace_static_member(self, old: ClassicMember, new_id: str) -> None:
        """Give a static member a new id. Its position in the order of members and its leadership stay the same."""
        was_leader = self.leader == old.id
        self.members = {new_id if key == old.id else key: m for key, m in self.members.items()}
        old.id = new_id
        if old.instance_id is not None:
            self.static[old.instance_id] = new_id
        if was_leader:
            self.leader = new_id

    def accepts(self, protocol_type: str, protocols: dict[str, bytes]) -> bool:
        """Return whether a member with these protocols can join.

        It needs a protocol type and a protocol. If the group has members, the type must be theirs, and at least one of
        the protocols must be supported by all of them.
        """
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return True
        return protocol_type == self.protocol_type and any(
            self.protocol_counts[p] == len(self.members) for p in protocols
        )

    def common_protocols(self) -> set[str]:
        return {protocol for protocol, count in self.protocol_counts.items() if count == len(self.members) > 0}

    def choose_protocol(self) -> str:
        """Return the protocol with the most votes.

        Each member votes for its most preferred protocol that all members support.
        """
        common = self.common_protocols()
        votes = Counter(next(p for p in m.protocols if p in common) for m in self.members.values())
        return max(votes, key=lambda p: votes[p])

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        """Whether the group is in the state Empty and has no pending member ids."""
        return self.state is ClassicGroupState.EMPTY and not self.pending

    @property
    def is_simple(self) -> bool:
        """Whether the group has never had a member and only stores offsets (a simple consumer).

        Such a group has no group metadata record.
        """
        return self.is_empty and self.protocol_type is None and self.generation == 0

    @property
    def rebalance_timeout(self) -> float:
        """The time in seconds for which a rebalance waits for members: the longest of their timeouts."""
        return max((m.rebalance_timeout for m in self.members.values()), default=0.0)

    @property
    def awaiting_join(self) -> list[ClassicMember]:
        """The members that have joined the current rebalance."""
        return [m for m in self.members.values() if m.awaiting_join is not None]

    @property
    def all_joined(self) -> bool:
        """Whether all members, and all clients that have got a member id, have joined the current rebalance."""
        return not self.pending and all(m.awaiting_join is not None for m in self.members.values())

    def member_of(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Return the member that a request names.

        Raises UnknownMemberIdError if there is no such member, or FencedInstanceIdError if another member has the
        instance id.
        """
        if instance_id is not None:
            owner = self.static.get(instance_id)
            if owner is None:
                raise errors.UnknownMemberIdError
            if owner != member_id:
                raise errors.FencedInstanceIdError
        member = self.members.get(member_id)
        if member is None:
            raise errors.UnknownMemberIdError
        return member

    def check_generation(self, generation: int) -> None:
        """Raise IllegalGenerationError if `generation` is not the current one."""
        if generation != self.generation:
            raise errors.IllegalGenerationError

    def check_commit(self, committer: Committer, version: int, now: float) -> None:
        """Raise an error if this client may not commit offsets now.

        A client without a generation may commit in the state Empty, or as a transactional producer that names no
        member. A member's commit outside a transaction counts as a heartbeat.
        """
        if committer.epoch < 0 and self.state is ClassicGroupState.EMPTY:
            return
        if committer.is_anonymous_producer:
            return
        if committer.epoch < 0 and not committer.member_id and committer.instance_id is None:
            raise errors.UnknownMemberIdError
        member = self.member_of(committer.member_id, committer.instance_id)
        self.check_generation(committer.epoch)
        if committer.transactional:
            return
        if self.state is ClassicGroupState.COMPLETING:
            raise errors.RebalanceInProgressError
        self.touch(member, now)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Do nothing: any client may read the offsets of a classic group."""

    def check_offset_delete(self) -> None:
        """Raise NonEmptyGroupError if the state is not Empty and the protocol type is not consumer: the broker does not
        know which topics the members read.
        """
        if self.state is not ClassicGroupState.EMPTY and self.protocol_type != CONSUMER:
            raise errors.NonEmptyGroupError

    def subscribed(self) -> Subscribed:
        """Return a predicate: whether the group subscribes to a topic (KIP-496).

        It is always false for other protocol types than consumer and for a group without members, and always true if
        the metadata of a member cannot be parsed.
        """
        if self.protocol_type != CONSUMER or not self.members:
            return lambda _: False
        topics = topics_of(m.protocols.get(self.protocol or "") for m in self.members.values())
        return lambda topic: topics is None or topic in topics

    def retained_since(self, commit_ms: int) -> int | None:
        """Return the time in ms since 1970 from which the retention of an offset counts; None if it must not expire
        (KIP-211). `commit_ms`: the time of its commit.
        """
        if self.protocol_type is None:
            return commit_ms  # a simple consumer, which assigns partitions itself and only stores offsets here
        if self.is_empty:
            return self.empty_since_ms if self.empty_since_ms >= 0 else commit_ms
        if self.state is ClassicGroupState.STABLE and self.protocol_type == CONSUMER:
            return commit_ms
        return None

    def next_deadline(self) -> float:
        return min(self.deadline, self.sync_deadline, self.members_due, self.report_at)

    def update_members_due(self) -> None:
        """Set `members_due` to the exact time at which the next member or pending id expires."""
        timers = [m.timer for m in self.members.values()]
        self.members_due = min([*timers, *self.pending.values()], default=NEVER)
