"""Membership in a group of the consumer protocol (KIP-848), in which the broker assigns the partitions. Kafka's
`ConsumerMembershipManager`.

The event loop sends heartbeats. They announce joining and the current assignment, and their responses contain the
target assignment. Reconciliation (commit, revoke, adopt, acknowledge) happens while the application is in poll(),
because its listener has to be called. The table MOVES contains the legal transitions.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla import errors
from ottla.client.consumer.group.group_heartbeat import GroupHeartbeat
from ottla.client.consumer.group.membership import (
    NO_GENERATION,
    GroupMembershipOperation,
    Membership,
    fenced_instance,
)
from ottla.client.consumer.metrics import CoordinatorMetrics
from ottla.client.consumer.poll_trigger import PollTrigger
from ottla.client.consumer.subscription import Subscription
from ottla.client.core.coordinator import Coordinator, group_error
from ottla.client.core.metadata import Metadata
from ottla.config.consumer import ConsumerConfig
from ottla.model import TopicPartition
from ottla.protocol.message import Request
from ottla.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from ottla.protocol.messages.share_group_heartbeat import Assignment as ShareAssignment
    from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse

log = logging.getLogger("ottla.client")

LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
"""The epoch in the last heartbeat of a static member that may come back."""
FIRST_INTERVAL: Final = 5.0
"""Seconds between heartbeats until the broker has sent its interval."""
UNKNOWN_TOPICS_PAUSE: Final = 1.0
"""Seconds until metadata is requested again when it lacks a topic of the assignment."""

FENCED: Final = (errors.FencedMemberEpochError, errors.UnknownMemberIdError)


class State(enum.Enum):
    """The state of a member. `MOVES` describes the states, and contains the legal transitions."""

    OUTSIDE = "outside"
    JOINING = "joining"
    STABLE = "stable"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    FENCED = "fenced"
    STALE = "stale"
    FAILED = "failed"


MOVES: Final[Mapping[State, frozenset[State]]] = {
    # The next poll joins.
    State.OUTSIDE: frozenset({State.JOINING}),
    # Heartbeats of epoch 0 are sent until one succeeds.
    State.JOINING: frozenset({State.STABLE, State.RECONCILING, State.FENCED, State.STALE, State.FAILED, State.OUTSIDE}),
    # The current assignment is the target assignment.
    State.STABLE: frozenset({State.RECONCILING, State.FENCED, State.STALE, State.FAILED, State.OUTSIDE}),
    # The target assignment differs: the next poll reconciles.
    State.RECONCILING: frozenset(
        {State.ACKNOWLEDGING, State.STABLE, State.FENCED, State.STALE, State.FAILED, State.OUTSIDE}
    ),
    # Reconciled; the next heartbeat, sent at once, acknowledges it.
    State.ACKNOWLEDGING: frozenset(
        {State.STABLE, State.RECONCILING, State.FENCED, State.STALE, State.FAILED, State.OUTSIDE}
    ),
    # The broker has fenced the member: the next poll calls on_partitions_lost and rejoins.
    State.FENCED: frozenset({State.JOINING, State.OUTSIDE}),
    # The member has left because poll() was not called: as FENCED.
    State.STALE: frozenset({State.JOINING, State.OUTSIDE}),
    # A fatal error; every poll raises it, until unsubscribe().
    State.FAILED: frozenset({State.OUTSIDE}),
}
NEEDS_POLL: Final = (State.OUTSIDE, State.FENCED, State.STALE, State.RECONCILING)
IS_MEMBER: Final = (State.STABLE, State.RECONCILING, State.ACKNOWLEDGING)


class ConsumerMembership(Membership):
    """A member of a group in which the broker assigns the partitions: a consumer group or, with the requests of the
    subclass `ShareMembership`, a share group.
    """

    unsupported: str = "the cluster does not support group.protocol=consumer; use classic"
    """The error text for a cluster without the heartbeat API."""

    def __init__(
        self,
        config: ConsumerConfig,
        coordinator: Coordinator,
        metadata: Metadata,
        subscription: Subscription,
        metrics: CoordinatorMetrics,
        poll_trigger: PollTrigger,
        before_revoke: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(config, coordinator, subscription, metrics, poll_trigger, before_revoke)
        self.metadata = metadata
        self.state = State.OUTSIDE
        self.interval = FIRST_INTERVAL
        """Seconds between heartbeats, set by the broker."""
        self._heartbeats: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._beats = GroupHeartbeat(config, subscription)
        self._unresolved: Assignment | ShareAssignment | None = None
        """The last assignment, as long as some of its topic ids are not in the metadata."""
        self._target: dict[TopicPartition, uuid.UUID] = {}
        """The target assignment: the topic id of each partition. A topic that was deleted and created again has another
        id.
        """
        self._owned: dict[TopicPartition, uuid.UUID] = {}
        """The current assignment in the form of `_target`."""
        self._names: dict[uuid.UUID, str] = {}
        """The names of all topics that have ever been assigned, by topic id."""
        self._retry: asyncio.TimerHandle | None = None

    def _move(self, state: State) -> None:
        if state is not self.state:
            assert state in MOVES[self.state], f"illegal transition from {self.state} to {state}"
            self.state = state

    # Calls of the core

    @property
    def has_work(self) -> bool:
        """Whether the next poll must join, reconcile or raise an error."""
        if self.error is not None:
            return True
        return self.subscription.has_subscription and self.state in NEEDS_POLL

    @property
    def is_settled(self) -> bool:
        """Whether the consumer is a member, as far as it knows."""
        return self.state in IS_MEMBER

    @property
    def owned(self) -> Mapping[TopicPartition, uuid.UUID]:
        """The current assignment: the topic id of each partition."""
        return self._owned

    @property
    def group_topics(self) -> frozenset[str]:
        """The topics of the target assignment."""
        return frozenset(tp.topic for tp in self._target)

    async def join_if_needed(self, deadline: float) -> bool:
        """Join the group, and reconcile the assignment. Waits only for the listener and for the commit before a
        revocation, not for an assignment, and always returns True.
        """
        self._raise_error()
        if self.state in (State.OUTSIDE, State.FENCED, State.STALE):
            await self._lose_partitions()
            if self.is_closing:
                return True
            self._join()
        while self._is_reconciling():
            await self._reconcile(self._target)
        if self._beats.has_changes:
            self._hurry.set()
        self.raise_listener_error()
        return True

    def _raise_error(self) -> None:
        if self.error is not None:
            error = self.error
            if self.state is not State.FAILED:
                self.error = None
            raise error

    def rejoin(self, reason: str) -> None:
        """Log a warning that enforce_rebalance() has no effect: only the broker starts rebalances, as in Java."""
        log.warning(
            "group %s: ignoring enforce_rebalance(), because with group.protocol=consumer only the coordinator starts "
            "rebalances",
            self.group_id,
        )

    def metadata_changed(self) -> None:
        """Resolve topic ids of the assignment that the metadata did not contain before."""
        if self._unresolved is not None and self.state in IS_MEMBER:
            self._resolve()

    def handle_error(self, error: type[errors.KafkaError]) -> None:
        """Handle an error of the coordinator. If the member was fenced, the next poll rejoins; if its epoch is stale,
        send a heartbeat at once.
        """
        self.coordinator.handle_error(error)
        if issubclass(error, FENCED):
            if self.state in (*IS_MEMBER, State.JOINING):
                self._stop_membership(State.FENCED)
        elif issubclass(error, errors.StaleMemberEpochError):
            self._hurry.set()

    # Fencing and joining

    def _stop_membership(self, state: State) -> None:
        """Stop heartbeats and enter `state`, in which the consumer is not a member.

        The next poll() rejoins or, in the state FAILED, raises the error.
        """
        if self.state is State.RECONCILING:
            self.metrics.rebalance_failed()
        self._move(state)
        self.generation = NO_GENERATION
        self._stop_heartbeats()
        self.poll_trigger.set()

    def _fail(self, error: errors.KafkaError) -> None:
        log.debug("group %s: heartbeats stop, and poll() raises the error: %s", self.group_id, error)
        self._stop_membership(State.FAILED)
        self.fail(error)

    async def _lose_partitions(self) -> None:
        owned = set(self.subscription.partitions)
        self.subscription.assign(())
        if owned:
            await self.notify_listener("on_partitions_lost", owned)

    def _join(self) -> None:
        # The client generates the member id (KIP-1082), so that a lost first response does not create two members.
        self.member_id = self.member_id or str(uuid.uuid4())
        self._unresolved, self._target, self._owned = None, {}, {}
        self._beats.reset()
        self._move(State.JOINING)
        self._hurry.set()
        self._stop_heartbeats()
        self._heartbeats = asyncio.get_running_loop().create_task(self._heartbeat_loop())

    # Reconciliation

    def _is_reconciling(self) -> bool:
        """Return whether to continue the reconciliation: the broker may have fenced the member during a listener call
        or commit.
        """
        return self.state is State.RECONCILING

    async def _reconcile(self, target: dict[TopicPartition, uuid.UUID]) -> None:
        """Revoke partitions, adopt new ones, call the listener, and acknowledge the assignment."""
        self.metrics.rebalance_began()
        revoked = {tp for tp, topic_id in self._owned.items() if target.get(tp) != topic_id}
        if revoked:
            await self.before_revoke()
            if not self._is_reconciling():
                return
            await self.notify_listener("on_partitions_revoked", revoked)
            if not self._is_reconciling():
                return
            self._owned = {tp: topic_id for tp, topic_id in self._owned.items() if tp not in revoked}
            self.subscription.assign(self._owned)
        added = target.keys() - self._owned.keys()
        self._owned = target
        self.subscription.assign(target)
        log.info(
            "group %s: partitions assigned in member epoch %d: %s",
            self.group_id,
            self.generation,
            ", ".join(map(str, sorted(target))) or "none",
        )
        self.metrics.rebalance_ended()
        await self.notify_listener("on_partitions_assigned", set(added))
        if self._is_reconciling() and target == self._target:
            self._acknowledge()

    def _acknowledge(self) -> None:
        self._move(State.ACKNOWLEDGING)
        self._hurry.set()

    def _resolve(self) -> None:
        """Translate the topic ids of an assignment into names. Request metadata if some are missing."""
        assignment = self._unresolved
        assert assignment is not None
        names = {info.topic_id: name for name, info in self.metadata.cluster.topics.items()}
        self._names.update({t.topic_id: names[t.topic_id] for t in assignment.topic_partitions if t.topic_id in names})
        resolved = [t for t in assignment.topic_partitions if t.topic_id in self._names]
        self._target = {TopicPartition(self._names[t.topic_id], p): t.topic_id for t in resolved for p in t.partitions}
        self.metadata.add_topics({self._names[t.topic_id] for t in resolved})
        complete = len(resolved) == len(assignment.topic_partitions)
        if complete:
            self._unresolved = None
            self.metadata.all_topics = self.subscription.pattern is not None
        elif self._retry is None:
            self._request_topic_metadata()
            self._retry = asyncio.get_running_loop().call_later(UNKNOWN_TOPICS_PAUSE, self._retry_topics)
        # The first assignment is reconciled, and the listener called, even if it is empty.
        if self._target != self._owned or (complete and self.state is State.JOINING):
            self._move(State.RECONCILING)
            self.poll_trigger.set()
        elif self.state in (State.JOINING, State.RECONCILING):
            self._move(State.STABLE)

    def _request_topic_metadata(self) -> None:
        # The client does not know the topics of a pattern that the broker evaluates.
        self.metadata.all_topics = self.subscription.pattern is not None or self.subscription.remote_pattern is not None
        self.metadata.request_update()

    def _retry_topics(self) -> None:
        self._retry = None
        if self._unresolved is not None and self.state in IS_MEMBER:
            self._resolve()

    # Heartbeats

    def _stop_heartbeats(self) -> None:
        if self._heartbeats is not None and self._heartbeats is not asyncio.current_task():
            self._heartbeats.cancel()
        self._heartbeats = None

    async def _heartbeat_loop(self) -> None:
        """Send heartbeats until the consumer is no longer a member, or joins again."""
        me = self._heartbeats
        while self._heartbeats is me:
            if not await self.back_off(self.interval, self._hurry):
                await self.send_leave(self._leave_request(self._leave_epoch()))
                if self._heartbeats is me:
                    self._stop_membership(State.STALE)
                return
            try:
                self._handle_response(await self._send())
            except errors.UnsupportedVersionError as error:
                self._fail(errors.UnsupportedVersionError(f"{self.unsupported}: {error}"))
            except errors.KafkaError as error:
                self._beats.reset()
                if not error.retriable:
                    self._fail(error)
                else:
                    log.debug(
                        "group %s: a heartbeat failed; retrying in %g s: %s",
                        self.group_id,
                        self.coordinator.retry_backoff,
                        error,
                    )
                    await asyncio.sleep(self.coordinator.retry_backoff)
                    self._hurry.set()

    async def _send(self) -> ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse:
        request = self._request()
        if self.state is State.ACKNOWLEDGING:
            self._move(State.STABLE)
        limit = self.config.request_timeout_ms / 1000
        began = time.monotonic()
        response: ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse
        response = await self.coordinator.send(request, began + limit, timeout=limit)
        self.metrics.record_heartbeat(time.monotonic() - began)
        return response

    def _request(self) -> Request[Any]:
        if self.state is State.JOINING:
            return self._beats.join_request(self.member_id)
        acknowledges = self.state is State.ACKNOWLEDGING
        return self._beats.next_request(self.member_id, self.generation, self._owned, acknowledges=acknowledges)

    def _handle_response(self, response: ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse) -> None:
        if response.error_code:
            self._handle_error(errors.for_code(response.error_code), response.error_message)
            return
        if self.state not in (*IS_MEMBER, State.JOINING):
            return
        self.interval = response.heartbeat_interval_ms / 1000 or self.interval
        self.generation = response.member_epoch
        self.member_id = response.member_id or self.member_id
        if response.assignment is not None:
            self._unresolved = response.assignment
            self._resolve()
        elif self.state is State.JOINING:
            self._move(State.STABLE)

    def _handle_error(self, error: type[errors.KafkaError], message: str | None) -> None:
        """Handle an error in the response to a heartbeat."""
        self._beats.reset()
        if issubclass(error, FENCED):
            log.info(
                "group %s: this member was fenced (%s) and gives up its partitions; poll() joins again",
                self.group_id,
                error.name,
            )
            self.handle_error(error)
        elif issubclass(error, errors.FencedInstanceIdError):
            self._fail(fenced_instance(self.config.group_instance_id))
        elif issubclass(error, errors.TopicAuthorizationFailedError):
            rejection = error(message)
            log.debug(
                "group %s: the coordinator rejected a heartbeat; poll() raises the error, and heartbeats continue: %s",
                self.group_id,
                rejection,
            )
            self.fail(rejection)
        elif error.retriable:
            log.debug(
                "group %s: the coordinator rejected a heartbeat; retrying in %g s: %s",
                self.group_id,
                self.coordinator.retry_backoff,
                error.name,
            )
            self.coordinator.handle_error(error)
            asyncio.get_running_loop().call_later(self.coordinator.retry_backoff, self._hurry.set)
        else:
            self._fail(group_error(error.code or 0, self.group_id, message))

    # Leaving

    def _leave_epoch(self, operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT) -> int:
        if operation is GroupMembershipOperation.LEAVE_GROUP or self.config.group_instance_id is None:
            return LEAVE_EPOCH
        return LEAVE_STATIC_EPOCH

    async def leave(self, operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT) -> None:
        """Leave the group with a last heartbeat. By default, a static member sends an epoch with which the broker keeps
        the assignment until the session timeout. A dynamic member with REMAIN_IN_GROUP sends no heartbeat.
        """
        self._stop_heartbeats()
        stays = operation is GroupMembershipOperation.REMAIN_IN_GROUP and self.config.group_instance_id is None
        try:
            if self.state in (*IS_MEMBER, State.JOINING) and not stays:
                await self.send_leave(self._leave_request(self._leave_epoch(operation)))
        finally:
            self.reset()  # also if the caller's timeout cancels this: without heartbeats, it is no longer a member

    def _leave_request(self, epoch: int) -> Request[Any]:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.config.group_instance_id,
        )

    def reset(self) -> None:
        """Forget the member id, the epoch and the assignment: the next poll of a subscription joins as a new member."""
        self._stop_heartbeats()
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self.state = State.OUTSIDE
        self.member_id = ""
        self.generation = NO_GENERATION
        self.error = None
        self._unresolved, self._target, self._owned = None, {}, {}
        self._beats.reset()
