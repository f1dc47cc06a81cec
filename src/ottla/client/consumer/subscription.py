"""The subscription and the state of assigned partitions, like Kafka's `SubscriptionState`.

The event loop changes the assignment, but only while the application is waiting in a call. The application's thread
advances `position` as poll() returns records. The event loop advances `fetch_from`, because it fetches ahead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.errors import IllegalStateError
from ottla.model import TopicPartition

NO_EPOCH: Final = -1


class SubscriptionPattern(NamedTuple):
    """A regular expression in RE2's syntax that the broker evaluates. For `subscribe` with group.protocol=consumer."""

    pattern: str


class PartitionState:
    """The state of one assigned partition."""

    __slots__ = (
        "at_end",
        "epoch",
        "fetch_epoch",
        "fetch_from",
        "fetch_suspended",
        "fetched_bytes",
        "generation",
        "high_watermark",
        "in_flight",
        "last_stable_offset",
        "log_start_offset",
        "paused",
        "position",
        "preferred_replica",
        "reset_to",
        "served",
        "taken_bytes",
        "tp",
        "validated",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.position: int | None = None
        """The offset of the next record to return; None until it has been determined."""
        self.fetch_from: int | None = None
        """The offset of the next record to fetch; None until the position has been determined."""
        self.epoch = NO_EPOCH
        """The leader epoch of the record before `position`; NO_EPOCH if unknown."""
        self.fetch_epoch = NO_EPOCH
        """The leader epoch of the record before `fetch_from`; NO_EPOCH if unknown."""
        self.validated: int | None = None
        """The leader epoch for which `fetch_from` needs no (further) validation (KIP-320); None if there is none."""
        self.reset_to: int | None = None
        """The timestamp (-2 earliest, -1 latest, or ms since 1970) whose offset will be the position; None without a
        pending reset.
        """
        self.generation = 0
        """Incremented by each seek, reset and restarted fetch, and when the partition is no longer assigned. Data of an
        earlier generation is dropped.
        """
        self.paused = False
        self.at_end = False
        """Whether the current or last poll has left fetched data because it is at or after the offset in `until`."""
        self.in_flight = False
        self.fetch_suspended = False
        """Whether fetching is suspended because enough data is buffered. A poll that returns this data resumes it."""
        self.fetched_bytes = 0
        self.taken_bytes = 0
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None
        """The first offset of the log according to the last fetch; None if unknown."""
        self.preferred_replica: tuple[int, float] | None = None
        """The preferred read replica, and the monotonic time in seconds until which it may be used; None if unset."""
        self.served = 0
        """A counter value that shows when data of the partition last arrived: the counter increases with the data of
        each partition. The partitions with the lowest values come first in the next request.
        """

    @property
    def is_paused(self) -> bool:
        """Whether poll leaves the fetched data in the buffer: the partition is paused, or `at_end` is set."""
        return self.paused or self.at_end

    def set_position(self, offset: int, epoch: int, validated: int | None = None) -> None:
        """Set the position to an offset that was looked up.

        `validated`: the epoch of the leader that returned it, if known.
        """
        self.position = self.fetch_from = offset
        self.epoch = self.fetch_epoch = epoch
        self.validated = validated
        self.reset_to = None

    def is_validated(self, leader_epoch: int) -> bool:
        """Return whether `fetch_from` needs no (further) validation with the leader of this epoch. If an epoch is
        unknown, so that validation is impossible, record `leader_epoch` as validated.
        """
        if self.validated != leader_epoch:
            if self.fetch_epoch != NO_EPOCH and leader_epoch != NO_EPOCH:
                return False
            self.validated = leader_epoch
        return True

    def seek(self, offset: int | None, epoch: int = NO_EPOCH) -> None:
        """Continue at `offset`. With None, the position has to be looked up."""
        self.generation += 1
        self.position = offset
        self.fetch_from = offset
        self.epoch = self.fetch_epoch = epoch
        self.validated = None
        self.reset_to = None
        self.taken_bytes = self.fetched_bytes
        self.preferred_replica = None

    def restart_fetch(self) -> None:
        """Drop data that was fetched ahead, and fetch again from `position`."""
        validated = self.validated
        self.seek(self.position, self.epoch)
        self.validated = validated

    def reset(self, timestamp: int) -> None:
        """Drop the position. The consumer will look up the offset of `timestamp` and continue there."""
        self.seek(None)
        self.reset_to = timestamp


class Subscription:
    """The topics or pattern that the consumer is subscribed to, and its assigned partitions."""

    def __init__(self) -> None:
        self.topics: frozenset[str] = frozenset()
        """The subscribed topics; with `pattern`, those that matched it in the last metadata update; with
        `remote_pattern`, none.
        """
        self.pattern: re.Pattern[str] | None = None
        self.remote_pattern: str | None = None
        """The regular expression that the group coordinator evaluates."""
        self.manual = False
        """Whether partitions were assigned with assign() instead of by subscription."""
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.version = 0
        """Incremented whenever the assignment is replaced."""

    @property
    def has_subscription(self) -> bool:
        """Whether the consumer is subscribed to topics or to a pattern."""
        return bool(self.topics) or self.pattern is not None or self.remote_pattern is not None

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics, instead of the previous subscription. Raises IllegalStateError if `manual` is set."""
        self._check_mode(manual=False)
        self.pattern = self.remote_pattern = None
        self.topics = frozenset(topics)

    def subscribe_pattern(self, pattern: str | re.Pattern[str] | SubscriptionPattern) -> None:
        """Subscribe to all topics that match a pattern, instead of the previous subscription. Raises IllegalStateError
        if `manual` is set.
        """
        self._check_mode(manual=False)
        remote = isinstance(pattern, SubscriptionPattern)
        self.remote_pattern = pattern.pattern if isinstance(pattern, SubscriptionPattern) else None
        self.pattern = None if remote else re.compile(pattern)  # type: ignore[arg-type]
        self.topics = frozenset()

    def assign_manually(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign exactly these partitions, without a subscription. If there are none, do the same as `unsubscribe`.
        Raises IllegalStateError if there is a subscription.
        """
        self._check_mode(manual=True)
        self.assign(partitions)
        self.manual = bool(self.partitions)

    def _check_mode(self, manual: bool) -> None:
        if manual and self.has_subscription:
            raise IllegalStateError("assign() after subscribe(): call unsubscribe() first")
        if not manual and self.manual:
            raise IllegalStateError("subscribe() after assign(): call unsubscribe() first")

    def unsubscribe(self) -> None:
        """Clear the subscription and the assignment."""
        self.topics = frozenset()
        self.pattern = self.remote_pattern = None
        self.manual = False
        self.assign(())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment. Partitions that are assigned already keep their state."""
        before = self.partitions
        self.partitions = {tp: before.get(tp) or PartitionState(tp) for tp in partitions}
        self.version += 1
        for tp, state in before.items():
            if tp not in self.partitions:
                state.seek(None)

    def state(self, tp: TopicPartition) -> PartitionState:
        """Return the state of a partition. Raises IllegalStateError if the partition is not assigned."""
        state = self.partitions.get(tp)
        if state is None:
            raise IllegalStateError(f"{tp} is not assigned to this consumer")
        return state
