"""The interface of all groups that offsets and admin requests use. Kafka's `Group`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

from ottla.model import TopicPartition

NO_EPOCH = -1
"""The generation or member epoch of a client that is not a member of the group."""

Subscribed = Callable[[str], bool]
"""Predicate: whether a group subscribes to the topic of this name."""


class Committer(NamedTuple):
    """The client that commits offsets.

    `epoch`: its generation or member epoch, or NO_EPOCH. `partitions`: the partitions of the request.
    """

    member_id: str
    instance_id: str | None
    epoch: int
    transactional: bool = False
    partitions: Collection[TopicPartition] = ()

    @property
    def is_anonymous_producer(self) -> bool:
        """Whether the commit belongs to a transaction and names no member, as TxnOffsetCommit of producers before
        KIP-447.
        """
        return self.transactional and self.epoch < 0 and not self.member_id and self.instance_id is None


class Group(Protocol):
    """A classic, consumer, share or streams group."""

    id: str

    @property
    def protocol_type(self) -> str | None:
        """The protocol type, such as `consumer` or `connect`; None for a classic group before its first member."""
        ...

    @property
    def type(self) -> str:
        """The type of the group: `classic`, `consumer`, `share` or `streams`."""
        ...

    @property
    def state_name(self) -> str:
        """Kafka's name of the state."""
        ...

    @property
    def member_count(self) -> int:
        """The number of members."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members, and none that are joining."""
        ...

    def check_commit(self, committer: Committer, version: int, now: float) -> None:
        """Raise an error if this client may not commit offsets.

        `version`: the version of the OffsetCommit or TxnOffsetCommit request. `now`: in seconds of the clock's
        `monotonic`.
        """
        ...

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise an error if a client may not read offsets. `member_id`: None for a client that is not a member."""
        ...

    def check_offset_delete(self) -> None:
        """Raise an error if no offset of the group can be deleted."""
        ...

    def subscribed(self) -> Subscribed:
        """Return a predicate: whether the group subscribes to a topic, as far as the broker knows."""
        ...

    def retained_since(self, commit_ms: int) -> int | None:
        """Return the time in ms since 1970 from which the retention of an offset counts; None if it must not expire
        (KIP-211). `commit_ms`: the time of its commit.
        """
        ...

    def next_deadline(self) -> float:
        """Return when the next timeout is due, in seconds of the clock's `monotonic`; infinity if there is none."""
        ...
