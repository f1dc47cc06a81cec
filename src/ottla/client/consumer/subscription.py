"""Which partitions a consumer reads, and how far it is in each. Kafka's `SubscriptionState`.

The assignment changes on the loop, and only while the consumer's caller waits for the loop. In between, `position`
belongs to the caller's thread, which moves it as it takes records, and `fetch_from` to the loop, which runs ahead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.errors import IllegalStateError
from ottla.model import TopicPartition

NO_EPOCH: Final = -1


class SubscriptionPattern(NamedTuple):
    """A regular expression in RE2's syntax that the broker evaluates; for `subscribe` with group.protocol=consumer."""

    pattern: str


class PartitionState:
    """How far the consumer is in one partition."""

    __slots__ = (
        "begin",
        "epoch",
        "fetch_epoch",
        "fetch_from",
        "fetched_bytes",
        "generation",
        "held",
        "high_watermark",
        "in_flight",
        "last_stable_offset",
        "paused",
        "position",
        "preferred",
        "reset_to",
        "served",
        "taken_bytes",
        "tp",
        "validated",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.position: int | None = None
        """The next offset to return; None until it is known."""
        self.fetch_from: int | None = None
        """The next offset to ask for: behind what is fetched already."""
        self.epoch = NO_EPOCH
        """Leader epoch of the last record before `position`, as far as it is known…"""
        self.fetch_epoch = NO_EPOCH
        """… and of the last one before `fetch_from`."""
        self.validated: int | None = None
        """The leader's epoch in which `fetch_from` was last found to lie on the leader's log (KIP-320)."""
        self.reset_to: int | None = None
        """The timestamp (-2 earliest, -1 latest) whose offset is to become the position."""
        self.generation = 0
        """Counts the jumps: what was fetched before one is of no use after it."""
        self.paused = False
        self.in_flight = False
        self.held = False
        """Not fetched at present, as enough of it is here; who takes from it wakes the fetcher."""
        self.fetched_bytes = 0
        self.taken_bytes = 0
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.begin: int | None = None
        self.preferred: tuple[int, float] | None = None
        """A replica to read from instead of the leader, and until when (monotonic seconds)."""
        self.served = 0
        """When this partition's turn was last, among all: those that waited longer come first in a request."""

    def set_position(self, offset: int, epoch: int, validated: int | None = None) -> None:
        """Begin to read at `offset`, which was found out: from the leader of epoch `validated`, where it was asked."""
        self.position = self.fetch_from = offset
        self.epoch = self.fetch_epoch = epoch
        self.validated = validated
        self.reset_to = None

    def needs_check(self, leader_epoch: int) -> bool:
        """Whether `fetch_from` is known to lie on the log of the leader of this epoch, or cannot be checked."""
        if self.validated != leader_epoch:
            if self.fetch_epoch != NO_EPOCH and leader_epoch != NO_EPOCH:
                return False
            self.validated = leader_epoch
        return True

    def seek(self, offset: int | None, epoch: int = NO_EPOCH) -> None:
        """Go on reading at `offset`; with None at a place that is to be found out."""
        self.generation += 1
        self.position = offset
        self.fetch_from = offset
        self.epoch = self.fetch_epoch = epoch
        self.validated = None
        self.reset_to = None
        self.taken_bytes = self.fetched_bytes
        self.preferred = None

    def restart_fetch(self) -> None:
        """Fetch again from `position`: what was fetched ahead is not wanted any more."""
        validated = self.validated
        self.seek(self.position, self.epoch)
        self.validated = validated

    def reset(self, timestamp: int) -> None:
        """Go on reading where the offset of `timestamp` will be found."""
        self.seek(None)
        self.reset_to = timestamp


class Subscription:
    """What the user asked for, and the partitions that came of it."""

    def __init__(self) -> None:
        self.topics: frozenset[str] = frozenset()
        """Topics asked for by name, or those that match the pattern at present."""
        self.pattern: re.Pattern[str] | None = None
        self.remote_pattern: str | None = None
        """A pattern that the group's coordinator evaluates."""
        self.manual = False
        """The user assigns partitions himself."""
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.version = 0
        """Counts the assignments."""

    @property
    def by_group(self) -> bool:
        """Whether a group decides about the partitions."""
        return bool(self.topics) or self.pattern is not None or self.remote_pattern is not None

    def subscribe(self, topics: Iterable[str]) -> None:
        """Ask for topics by name, instead of what was asked for before."""
        self._only_one_way(manual=False)
        self.pattern = self.remote_pattern = None
        self.topics = frozenset(topics)

    def subscribe_pattern(self, pattern: str | re.Pattern[str] | SubscriptionPattern) -> None:
        """Ask for every topic whose name matches."""
        self._only_one_way(manual=False)
        remote = isinstance(pattern, SubscriptionPattern)
        self.remote_pattern = pattern.pattern if isinstance(pattern, SubscriptionPattern) else None
        self.pattern = None if remote else re.compile(pattern)  # type: ignore[arg-type]
        self.topics = frozenset()

    def assign_manually(self, partitions: Iterable[TopicPartition]) -> None:
        """Take exactly these partitions, without a group's say."""
        self._only_one_way(manual=True)
        self.manual = True
        self.assign(partitions)

    def _only_one_way(self, manual: bool) -> None:
        if manual and self.by_group:
            raise IllegalStateError("assign() after subscribe(): unsubscribe() first")
        if not manual and self.manual:
            raise IllegalStateError("subscribe() after assign(): unsubscribe() first")

    def unsubscribe(self) -> None:
        """Ask for nothing."""
        self.topics = frozenset()
        self.pattern = self.remote_pattern = None
        self.manual = False
        self.assign(())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """These are the partitions now; those that stay keep their state."""
        before = self.partitions
        self.partitions = {tp: before.get(tp) or PartitionState(tp) for tp in partitions}
        self.version += 1
        for tp, state in before.items():
            if tp not in self.partitions:
                state.seek(None)

    def state(self, tp: TopicPartition) -> PartitionState:
        """The state of an assigned partition; IllegalStateError for another one."""
        found = self.partitions.get(tp)
        if found is None:
            raise IllegalStateError(f"{tp} is not assigned to this consumer")
        return found
