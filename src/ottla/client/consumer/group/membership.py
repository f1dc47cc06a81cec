"""The base class of the memberships in `classic_membership` and `consumer_membership` (KIP-848), and the types in their
API, such as the rebalance listener.
"""

from __future__ import annotations

import abc
import asyncio
import enum
import itertools
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from ottla import errors
from ottla.client.consumer.metrics import CoordinatorMetrics
from ottla.client.consumer.poll_trigger import PollTrigger
from ottla.client.consumer.subscription import Subscription
from ottla.client.core.coordinator import MOVED, Coordinator
from ottla.client.core.io_thread import run_at_caller
from ottla.config.consumer import ConsumerConfig
from ottla.model import TopicPartition
from ottla.protocol.message import Request

log = logging.getLogger("ottla.client")

NO_GENERATION: Final = -1
"""The generation of a consumer that is not a member of its group."""
LEAVE_SECONDS: Final = 5.0
"""Maximum time in seconds for leaving the group."""


class Committer(NamedTuple):
    """The identity in an OffsetCommit request: generation (or member epoch), member id and instance id. The defaults
    are those of a consumer that assigns partitions itself, without being a member.
    """

    generation: int = NO_GENERATION
    member_id: str = ""
    instance_id: str | None = None


class GroupMembershipOperation(enum.Enum):
    """Whether close() leaves the group (KIP-1092). By default a dynamic member leaves, and a static one stays."""

    DEFAULT = "default"
    LEAVE_GROUP = "leave"
    REMAIN_IN_GROUP = "remain"


class ConsumerRebalanceListener:
    """Handles changes of the assignment. The consumer calls the methods in the thread that calls poll(), unsubscribe()
    or close(). For an asyncio consumer they may be coroutines.

    Errors of a listener do not stop the rebalance. The first one is raised afterwards, by that call or a later
    poll(), wrapped in a KafkaError if it is not one.
    """

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        """Handle the revocation of partitions. This is the last opportunity to commit their offsets."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        """Handle new partitions. This is an opportunity to seek."""

    def on_partitions_lost(self, lost: set[TopicPartition]) -> Any:
        """Handle partitions that may already belong to other members, because this member was removed from the group.
        By default the same as on_partitions_revoked.
        """
        return self.on_partitions_revoked(lost)


class Membership(abc.ABC):
    """A member of a group. Event loop only, except for `last_poll` and `has_work`: the polling thread writes the former
    and reads the latter.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        coordinator: Coordinator,
        subscription: Subscription,
        metrics: CoordinatorMetrics,
        poll_trigger: PollTrigger,
        before_revoke: Callable[[], Awaitable[None]],
    ) -> None:
        self.config = config
        self.coordinator = coordinator
        self.subscription = subscription
        self.group_id = config.group_id or ""
        self.member_id = ""
        self.generation = NO_GENERATION
        """The generation or member epoch, which commits contain."""
        self.listener: Any = None
        self.before_revoke = before_revoke
        """Called before partitions are revoked, for example to commit their offsets."""
        self.poll_trigger = poll_trigger
        self.metrics = metrics
        self.last_poll = time.monotonic()
        self.error: errors.KafkaError | None = None
        """The error that the next poll raises."""
        self.is_closing = False
        """Whether the consumer is being closed. A poll of another task must not join the group again after that."""
        self._max_poll = config.max_poll_interval_ms / 1000
        self._listener_error: BaseException | None = None

    # Calls of the core

    @property
    @abc.abstractmethod
    def has_work(self) -> bool:
        """Whether the next poll must join the group, revoke or adopt partitions, or raise an error."""

    @property
    @abc.abstractmethod
    def is_settled(self) -> bool:
        """Whether no join is in progress or, if the broker assigns, the consumer is a member, as far as it knows."""

    @property
    @abc.abstractmethod
    def group_topics(self) -> frozenset[str]:
        """Topics whose metadata the membership needs, besides those of the assigned partitions."""

    @abc.abstractmethod
    async def join_if_needed(self, deadline: float) -> bool:
        """Join the group and reconcile, if necessary. Return False if joining a classic group is not done at
        the deadline.

        May be cancelled: the next call continues.
        """

    @abc.abstractmethod
    def metadata_changed(self) -> None:
        """Handle new metadata: request a rebalance if topics have changed, or resolve topic ids that were unknown."""

    @abc.abstractmethod
    def rejoin(self, reason: str) -> None:
        """Request a rebalance. `reason` is sent to the broker. If the broker assigns the
        partitions, only log that this has no effect.
        """

    @abc.abstractmethod
    def handle_error(self, error: type[errors.KafkaError]) -> None:
        """Handle an error of the coordinator: let the member look it up again, or rejoin, if necessary."""

    async def finish_rebalance(self, seconds: float) -> None:  # noqa: B027  (only the classic protocol has rounds)
        """Wait up to `seconds` for a rebalance in progress before closing, so that the last commit is accepted."""

    @abc.abstractmethod
    async def leave(self, operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT) -> None:
        """Leave the group unless `operation` keeps the member in it, and forget the membership."""

    @abc.abstractmethod
    def reset(self) -> None:
        """Forget the membership: the next poll with a subscription joins as a new member."""

    # Common parts

    @property
    def can_commit(self) -> bool:
        """Whether the coordinator would accept a commit now, as far as the consumer knows."""
        return not self.subscription.has_subscription or (self.generation != NO_GENERATION and self.is_settled)

    def committer(self) -> Committer:
        """Return the identity for commits.

        Raises CommitFailedError if the consumer is subscribed, but is not a member of the group at the moment, or is
        rebalancing.
        """
        if not self.subscription.has_subscription:
            return Committer()
        if not self.can_commit:
            what = "is rebalancing" if self.generation != NO_GENERATION else "has no such member (any more)"
            raise errors.CommitFailedError(f"group {self.group_id} {what}; poll() completes that")
        return Committer(self.generation, self.member_id, self.config.group_instance_id)

    async def revoke_all(self) -> None:
        """Call the listener for all partitions, before the consumer leaves the group. Raises its first error."""
        owned = set(self.subscription.partitions)
        if owned:
            await self.notify_listener(
                "on_partitions_lost" if self.generation == NO_GENERATION else "on_partitions_revoked", owned
            )
        self.raise_listener_error()

    async def send_leave(
        self, request: Request[Any] | Callable[[int], Request[Any]], of: type[Request[Any]] | None = None
    ) -> None:
        """Send the last request of a member to the coordinator, unless that is unknown. If the coordinator has moved or
        is loading the group, look it up and send the request again, for LEAVE_SECONDS. Java's consumers send it once.
        """
        if self.coordinator.node is None:
            return
        deadline = time.monotonic() + LEAVE_SECONDS
        try:
            for tries in itertools.count():
                response = await self.coordinator.send(request, deadline, of=of, timeout=LEAVE_SECONDS)
                reason = errors.for_code(response.error_code) if response.error_code else None
                if reason is None or not issubclass(reason, MOVED):
                    return
                self.coordinator.handle_error(reason)
                await self.coordinator.back_off(deadline, "the coordinator has moved", reason(), tries)
        except errors.KafkaError as error:
            log.debug(
                "group %s: leaving was not confirmed; the coordinator removes the member at the latest after its "
                "session timeout: %s",
                self.group_id,
                error,
            )

    async def notify_listener(self, method: str, partitions: set[TopicPartition]) -> None:
        """Call a method of the listener in the thread that called the consumer. `raise_listener_error` raises its error
        later.
        """
        call = getattr(self.listener, method, None)
        if call is None and method == "on_partitions_lost":
            call = getattr(self.listener, "on_partitions_revoked", None)
        if call is None:
            return
        began = time.monotonic()
        try:
            await run_at_caller(call, partitions)
            self.metrics.listener(method, time.monotonic() - began)
        except Exception as error:  # user code must not break a rebalance
            log.exception(
                "group %s: %s() of the rebalance listener raised an exception; the consumer continues, and raises the "
                "first exception of the listener afterwards",
                self.group_id,
                method,
            )
            self._listener_error = self._listener_error or error

    def raise_listener_error(self) -> None:
        """Raise the first error of the listener since the last call. Errors other than KafkaError are wrapped in
        one.
        """
        error, self._listener_error = self._listener_error, None
        if isinstance(error, errors.KafkaError):
            raise error
        if error is not None:
            raise errors.KafkaError(f"the rebalance listener raised {error!r}") from error

    def fail(self, error: errors.KafkaError) -> None:
        """Let the next poll raise `error`."""
        self.error = error
        self.poll_trigger.set()

    @property
    def poll_seconds_left(self) -> float:
        """Seconds until max.poll.interval.ms expires; negative if it has expired."""
        return self.last_poll + self._max_poll - time.monotonic()

    async def back_off(self, seconds: float, hurry: asyncio.Event) -> bool:
        """Wait for `seconds` between heartbeats, or until `hurry` is set. Return False if max.poll.interval.ms has
        expired.
        """
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
        log.warning(
            "group %s: poll() was not called within max.poll.interval.ms=%d, so this member gives up its partitions; "
            "the next poll() joins again. If processing the records of one poll takes that long, lower "
            "max.poll.records (now %d), or raise max.poll.interval.ms",
            self.group_id,
            self.config.max_poll_interval_ms,
            self.config.max_poll_records,
        )
        return False


def fenced_instance(instance_id: str | None) -> errors.KafkaError:
    """Return the error of a static member after another member has joined with the same instance id."""
    return errors.FencedInstanceIdError(f"another member has joined as {instance_id}")
