"""What both kinds of group, classic and KIP-848, answer to: the interface that offsets and admin requests use."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

NO_EPOCH = -1
"""Generation or member epoch of a request that comes from outside the group."""

Subscribed = Callable[[str], bool]
"""Whether a group reads the topic of this name."""


class Committer(NamedTuple):
    """For whom offsets are committed. `epoch` is a generation or a member epoch, or NO_EPOCH."""

    member_id: str
    instance_id: str | None
    epoch: int
    transactional: bool = False

    @property
    def is_anonymous_producer(self) -> bool:
        """Whether it is a transaction without a member: producers before KIP-447 name none in TxnOffsetCommit."""
        return self.transactional and self.epoch < 0 and not self.member_id and self.instance_id is None


class Group(Protocol):
    """A group of either kind."""

    id: str

    @property
    def protocol_type(self) -> str | None:
        """What the members have in common: `consumer`, `connect`, …; None before anybody joined."""
        ...

    @property
    def type(self) -> str:
        """Kafka's name for the kind: `classic` or `consumer`."""
        ...

    @property
    def state_name(self) -> str:
        """Kafka's name for what the group is doing."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether nobody is in it or about to join."""
        ...

    def check_commit(self, committer: Committer, version: int, now: float) -> None:
        """Raise why offsets cannot be committed like this; `version` is OffsetCommit's."""
        ...

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise why a member may not read offsets; None for somebody from outside."""
        ...

    def check_offset_delete(self) -> None:
        """Raise why no offset of the group can be deleted."""
        ...

    def subscribed(self) -> Subscribed:
        """Which topics the group reads, as far as can be told."""
        ...

    def retained_since(self, commit_ms: int) -> int | None:
        """From when on the retention of an offset counts; None while it must not expire (KIP-211)."""
        ...

    def next_deadline(self) -> float:
        """When something is due without a request, in monotonic seconds."""
        ...
