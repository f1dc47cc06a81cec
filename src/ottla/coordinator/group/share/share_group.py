"""One share group: its members, and what each of them is to read. Several members may read the same partition.

Nothing has to be given up before it is assigned, so a member is where its target is as soon as it is told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from ottla.coordinator.group.common.consumer_member import NOTHING, Assignment
from ottla.coordinator.group.common.group import Committer, Subscribed
from ottla.coordinator.runtime.deadline_queue import NEVER
from ottla.errors import FencedMemberEpochError, GroupIdNotFoundError, UnknownMemberIdError

TYPE = "share"


class State(StrEnum):
    """Kafka's names for what a group is doing."""

    EMPTY = "Empty"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member, a frozen value."""

    id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Assignment = NOTHING

    @property
    def description(self) -> tuple[object, ...]:
        """All that the member said about itself."""
        return self.rack_id, self.client_id, self.client_host, self.topics

    def check_epoch(self, epoch: int) -> None:
        """Raise FencedMemberEpochError for another epoch; the one before is let pass, as an answer may be lost."""
        if epoch not in (self.epoch, self.previous_epoch):
            raise FencedMemberEpochError(
                f"The share group member has epoch {epoch}, not the one known by the group coordinator ({self.epoch}). "
                "The member must abandon all its partitions and rejoin."
            )


@dataclass(slots=True)
class ShareGroup:
    """A group. Only records change it; `deadlines` (of silent members, monotonic seconds) and `seen` lie beside."""

    id: str
    epoch: int = 0
    metadata_hash: int = 0
    target_epoch: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    targets: dict[str, Assignment] = field(default_factory=dict)
    deadlines: dict[str, float] = field(default_factory=dict)
    seen: object = None
    """The cluster's topics that the group was last assigned for."""

    @property
    def type(self) -> str:
        """Kafka's name for this kind of group."""
        return TYPE

    @property
    def protocol_type(self) -> str:
        """What the members have in common."""
        return TYPE

    @property
    def state(self) -> State:
        """What it is doing."""
        return State.STABLE if self.members else State.EMPTY

    @property
    def state_name(self) -> str:
        """Kafka's name for what it is doing."""
        return self.state

    @property
    def is_empty(self) -> bool:
        """Whether nobody is in it."""
        return not self.members

    def topics(self) -> frozenset[str]:
        """Names of the topics that any member subscribed to."""
        return frozenset().union(*(m.topics for m in self.members.values()))

    def member_of(self, member_id: str) -> ShareMember:
        """The member that a request speaks for."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError(f"Member {member_id} is not a member of group {self.id}.")
        return member

    def check_commit(self, who: Committer, version: int, now: float) -> None:
        """Share groups have no offsets to commit."""
        raise GroupIdNotFoundError(f"Group {self.id} is not a consumer group.")

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Share groups have no offsets, which is no error."""

    def check_offset_delete(self) -> None:
        """Share groups have no offsets to delete."""
        raise GroupIdNotFoundError(f"Group {self.id} is not a consumer group.")

    def subscribed(self) -> Subscribed:
        """Which topics the group reads."""
        return self.topics().__contains__

    def retained_since(self, commit_ms: int) -> int | None:
        """There are no offsets to expire."""
        return None

    def next_deadline(self) -> float:
        """When something is due without a request."""
        return min(self.deadlines.values(), default=NEVER)
