"""What both group protocols have in common: `membership` is the classic one, `consumer_membership` that of KIP-848.

The core asks a `Member` the same of either: to be settled before records are handed out, to leave, and who it is.
"""

from __future__ import annotations

import abc
import asyncio
import enum
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from ottla import errors
from ottla.client.consumer.metrics import CoordinatorMetrics
from ottla.client.consumer.subscription import Subscription
from ottla.client.core.coordinator import Coordinator
from ottla.client.core.io_thread import run_at_caller
from ottla.config.consumer import ConsumerConfig
from ottla.errors import CommitFailedError, KafkaError
from ottla.model import TopicPartition

log = logging.getLogger("ottla.client")

NOBODY: Final = -1
"""The generation of who is no member."""
LEAVE_SECONDS: Final = 5.0
"""How long leaving may take at most."""


class Committer(NamedTuple):
    """Who commits: generation (or epoch), member and instance id. A consumer that assigns itself is nobody."""

    generation: int = NOBODY
    member_id: str = ""
    instance_id: str | None = None


class GroupMembershipOperation(enum.Enum):
    """What close() does about the group (KIP-1092): by default a dynamic member leaves and a static one stays."""

    DEFAULT = "default"
    LEAVE_GROUP = "leave"
    REMAIN_IN_GROUP = "remain"


class ConsumerRebalanceListener:
    """Told when partitions come and go, in the thread that polls. An asyncio consumer's may have coroutines.

    What a listener raises does not stop the rebalance; the poll() that it happens in raises it afterwards.
    """

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        """These will be somebody else's: the last moment to commit what was read."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        """These are new: a moment to seek."""

    def on_partitions_lost(self, lost: set[TopicPartition]) -> Any:
        """These are somebody else's already, as this member was thought dead."""
        return self.on_partitions_revoked(lost)


async def do_nothing() -> None:
    """A hook that nobody has set."""


class Membership(abc.ABC):
    """One member of one group. On the loop; `last_poll` is also written by the thread that polls."""

    def __init__(
        self,
        config: ConsumerConfig,
        coordinator: Coordinator,
        subscription: Subscription,
        metrics: CoordinatorMetrics,
    ) -> None:
        self.config = config
        self.coordinator = coordinator
        self.subscription = subscription
        self.group_id = config.group_id or ""
        self.member_id = ""
        self.generation = NOBODY
        """The generation, or the member's epoch, that commits are made in."""
        self.listener: Any = None
        self.before_revoke: Callable[[], Awaitable[None]] = do_nothing
        """Called before partitions are given up: the last automatic commit."""
        self.changed: Callable[[], None] = lambda: None
        """Called when there is something to do for the next poll."""
        self.metrics = metrics
        self.last_poll = time.monotonic()
        self.error: KafkaError | None = None
        """What the next poll has to raise."""
        self._max_poll = config.max_poll_interval_ms / 1000
        self._listener_error: BaseException | None = None

    # What the core asks

    @property
    @abc.abstractmethod
    def has_work(self) -> bool:
        """Whether the next poll has to join, to give up or take over partitions, or to raise."""

    @property
    @abc.abstractmethod
    def is_settled(self) -> bool:
        """Whether the member's generation is the group's, as far as it knows: what it answers there counts."""

    @property
    @abc.abstractmethod
    def group_topics(self) -> frozenset[str]:
        """Topics, beside those of the partitions, whose metadata the membership needs."""

    @abc.abstractmethod
    async def join_if_needed(self, deadline: float) -> bool:
        """Do what has to be done before records are handed out. False when `deadline` comes first.

        Cancelling it does no harm: the next call goes on where it was.
        """

    @abc.abstractmethod
    def metadata_changed(self) -> None:
        """The client has learnt of topics and partitions."""

    @abc.abstractmethod
    def rejoin(self, reason: str) -> None:
        """Call for a rebalance."""

    @abc.abstractmethod
    def handle_error(self, error: type[KafkaError]) -> None:
        """What an error of the coordinator means for this membership."""

    async def finish_rebalance(self, seconds: float) -> None:  # noqa: B027  (only the classic protocol has rounds)
        """Before the end: no round goes on after so many seconds, so that the last commit is taken."""

    @abc.abstractmethod
    async def leave(self, operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT) -> None:
        """Go, and be nobody."""

    @abc.abstractmethod
    def reset(self) -> None:
        """Be nobody: the next poll of a subscription joins as a new member."""

    # What both do the same way

    @property
    def can_commit(self) -> bool:
        """Whether the coordinator would take a commit."""
        return not self.subscription.by_group or (self.generation != NOBODY and self.is_settled)

    def committer(self) -> Committer:
        """In whose name offsets are committed now.

        CommitFailedError for a member that the group has dropped, or that is joining: its next generation is not known.
        """
        if not self.subscription.by_group:
            return Committer()
        if not self.can_commit:
            what = "is rebalancing" if self.generation != NOBODY else "has no such member (any more)"
            raise CommitFailedError(f"group {self.group_id} {what}; poll() completes that")
        return Committer(self.generation, self.member_id, self.config.group_instance_id)

    async def revoke_all(self) -> None:
        """Before leaving on purpose: tell the listener. Raises what it raised."""
        owned = set(self.subscription.partitions)
        if owned:
            await self.notify_listener(
                "on_partitions_lost" if self.generation == NOBODY else "on_partitions_revoked", owned
            )
        self.raise_listener_error()

    async def notify_listener(self, method: str, partitions: set[TopicPartition]) -> None:
        """Call the listener where poll() was called. What it raises is kept for `raise_listener_error`."""
        call = getattr(self.listener, method, None)
        if call is None and method == "on_partitions_lost":
            call = getattr(self.listener, "on_partitions_revoked", None)
        if call is None:
            return
        began = time.monotonic()
        try:
            await run_at_caller(call, partitions)
            self.metrics.listener(method, time.monotonic() - began)
        except Exception as error:  # a user's code must not leave a rebalance half done
            log.exception("group %s: the rebalance listener has failed in %s", self.group_id, method)
            self._listener_error = self._listener_error or error

    def raise_listener_error(self) -> None:
        """The first exception of a listener since the last call: a KafkaError as it is, others inside one."""
        error, self._listener_error = self._listener_error, None
        if isinstance(error, KafkaError):
            raise error
        if error is not None:
            raise KafkaError(f"the rebalance listener has failed: {error!r}") from error

    def fail(self, error: KafkaError) -> None:
        """Have the next poll raise."""
        self.error = error
        self.changed()

    @property
    def poll_seconds_left(self) -> float:
        """Until the caller has not polled for max.poll.interval.ms."""
        return self.last_poll + self._max_poll - time.monotonic()

    async def back_off(self, seconds: float, hurry: asyncio.Event) -> bool:
        """Wait between heartbeats, or until there is a hurry. False when the caller has not polled for too long."""
        left = self.poll_seconds_left
        if left > 0:
            try:
                async with asyncio.timeout(max(0.0, min(seconds, left))):
                    await hurry.wait()
            except TimeoutError:
                pass
            hurry.clear()
        if self.poll_seconds_left > 0:
            return True
        log.warning("group %s: poll() was not called within max.poll.interval.ms; leaving", self.group_id)
        return False


def fenced_instance(instance_id: str | None) -> KafkaError:
    """Somebody else has taken a static member's name."""
    return errors.FencedInstanceIdError(f"another member has joined as {instance_id}")
