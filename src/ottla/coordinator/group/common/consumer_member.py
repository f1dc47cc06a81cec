"""One member of a KIP-848 group: what it said about itself, and how far it is on the way to its target assignment.

    Stable ──newer target──▶ Unrevoked ──given up──▶ Stable
                                 │                      ▲
                                 └──▶ Unreleased ───────┘  as the partitions come free

A member is a frozen value; every step makes a new one, and the log holds each (`consumer_records`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

JOINING = 0
LEFT = -1
LEFT_FOR_A_WHILE = -2
"""Member epochs with a meaning: about to join, gone, and gone as a static member that will come back."""


class TopicIdPartition(NamedTuple):
    """One partition of a topic known by its id."""

    topic_id: UUID
    partition: int


Assignment = frozenset[TopicIdPartition]
NOTHING: Assignment = frozenset()


class MemberState(IntEnum):
    """Kafka's numbers in the log for where a member stands."""

    STABLE = 0
    UNREVOKED = 1
    """It has yet to give partitions up."""
    UNRELEASED = 2
    """It waits for partitions that others have yet to give up."""
    UNKNOWN = 127
    """A newer broker's state."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class Classic(NamedTuple):
    """What a member told that speaks the classic protocol: its protocols with their metadata, preferred ones first."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ModernMember:
    """What members of consumer groups and share groups have in common. Kafka's `ModernGroupMember`."""

    id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    epoch: int = JOINING
    previous_epoch: int = LEFT
    assigned: Assignment = NOTHING


@dataclass(frozen=True, slots=True)
class ConsumerMember(ModernMember):
    """A member of a consumer group. Without a regular expression `regex` is empty."""

    instance_id: str | None = None
    regex: str = ""
    rebalance_timeout_ms: int = -1
    """-1: the member has not sent it yet."""
    assignor: str | None = None
    classic: Classic | None = None
    state: MemberState = MemberState.STABLE
    revoking: Assignment = NOTHING

    @property
    def holds(self) -> Assignment:
        """What nobody else may read now."""
        return self.assigned | self.revoking

    def is_reconciled(self, target_epoch: int) -> bool:
        """Whether it has all that the target of this epoch gives it, and no more."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    @property
    def description(self) -> tuple[object, ...]:
        """All that the member said about itself."""
        return (
            *(self.instance_id, self.rack_id, self.client_id, self.client_host, self.topics, self.regex),
            *(self.rebalance_timeout_ms, self.assignor, self.classic),
        )


def by_topic(partitions: Assignment) -> Iterable[tuple[UUID, list[int]]]:
    """Partitions by their topic's id, both in order."""
    ordered = sorted(partitions, key=lambda p: (p.topic_id.int, p.partition))
    return ((topic_id, [p.partition for p in some]) for topic_id, some in groupby(ordered, lambda p: p.topic_id))


def flatten(topics: Iterable[Any]) -> Assignment:
    """The reverse of `by_topic`, from any message's list of topics with their partitions."""
    return frozenset(TopicIdPartition(t.topic_id, p) for t in topics for p in t.partitions)
