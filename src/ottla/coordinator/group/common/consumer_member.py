"""One member of a consumer group: its subscription, and its progress to the target assignment (KIP-848). Also the base
classes that it shares with the members of share and streams groups.

    Stable ──newer target──▶ Unrevoked ──revoked──▶ Unreleased ──others have revoked──▶ Stable

A member skips Unrevoked if it has nothing to revoke, and Unreleased if it does not wait for others. From Unreleased, a
newer target can lead to Unrevoked again.

A member is immutable: every step creates a new object, and is written to the log (`consumer_records`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from ottla.model import TopicIdPartition

JOINING = 0
LEAVE_GROUP_EPOCH = -1
LEAVE_GROUP_STATIC_EPOCH = -2
"""JOINING, LEAVE_GROUP_EPOCH and LEAVE_GROUP_STATIC_EPOCH: the epochs of a member that joins, that leaves, and that
leaves as a static member which will return.
"""


Assignment = frozenset[TopicIdPartition]
NOTHING: Assignment = frozenset()


class MemberState(IntEnum):
    """The states of a member, with Kafka's numbers for them in records."""

    STABLE = 0
    UNREVOKED = 1
    """The member has to revoke partitions."""
    UNRELEASED = 2
    """The member waits for partitions that other members have to revoke."""
    UNKNOWN = 127
    """A state that a newer broker has written."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class Classic(NamedTuple):
    """The additional fields of a member with the classic protocol.

    `protocols`: names and metadata, in the order of preference.
    """

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ModernMember:
    """Base of the members of consumer, share and streams groups."""

    id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    epoch: int = JOINING
    previous_epoch: int = LEAVE_GROUP_EPOCH

    @property
    def label(self) -> str:
        """The member's id, client id and host, for the log."""
        return f"member {self.id} (client_id={self.client_id} {self.client_host})"


@dataclass(frozen=True, slots=True)
class SubscribedMember(ModernMember):
    """Base of the members of consumer groups and share groups. Kafka's `ModernGroupMember`."""

    topics: frozenset[str] = frozenset()
    assigned: Assignment = NOTHING


@dataclass(frozen=True, slots=True)
class ConsumerMember(SubscribedMember):
    """A member of a consumer group. `regex` is empty if the member does not subscribe by a regular expression."""

    instance_id: str | None = None
    regex: str = ""
    rebalance_timeout_ms: int = -1
    """The member's rebalance timeout; -1 if the member has not sent it yet."""
    assignor: str | None = None
    classic: Classic | None = None
    state: MemberState = MemberState.STABLE
    revoking: Assignment = NOTHING

    @property
    def holds(self) -> Assignment:
        """The partitions that the member may still read: those assigned, and those it has to revoke."""
        return self.assigned | self.revoking

    def is_reconciled(self, target_epoch: int) -> bool:
        """Return whether the member has exactly the target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    @property
    def description(self) -> tuple[object, ...]:
        """The fields of a ConsumerGroupMemberMetadata record."""
        return (
            *(self.instance_id, self.rack_id, self.client_id, self.client_host, self.topics, self.regex),
            *(self.rebalance_timeout_ms, self.assignor, self.classic),
        )


def by_topic(partitions: Assignment) -> Iterable[tuple[UUID, list[int]]]:
    """Return partitions grouped by topic id. Topic ids and partitions are sorted."""
    ordered = sorted(partitions, key=lambda p: (p.topic_id.int, p.partition))
    return ((topic_id, [p.partition for p in some]) for topic_id, some in groupby(ordered, lambda p: p.topic_id))


def flatten(topics: Iterable[Any]) -> Assignment:
    """Return the partitions of a message's list of topics: the reverse of `by_topic`."""
    return frozenset(TopicIdPartition(t.topic_id, p) for t in topics for p in t.partitions)
