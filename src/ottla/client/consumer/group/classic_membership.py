"""Membership in a classic group: joining, heartbeats, leaving. Kafka's `ConsumerCoordinator`.

A rebalance begins and ends while the application is in poll(), because the listener has to be called. In between, its
requests are sent in the background. So are the heartbeats between rebalances. A member whose application does not call
poll() for max.poll.interval.ms leaves the group; a static member does not leave, but stops its heartbeats.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from ottla import errors
from ottla.client.consumer.group import consumer_protocol as protocol
from ottla.client.consumer.group.assignors import Assignor, MemberSubscription, make_assignors
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
from ottla.logs import listed
from ottla.model import TopicPartition
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

log = logging.getLogger("ottla.client")

PROTOCOL: Final = "consumer"
JOIN_MARGIN: Final = 5.0
"""Seconds that JoinGroup and SyncGroup may take in addition to the rebalance timeout, which is max.poll.interval.ms."""
SLOW_JOIN_SECONDS: Final = 5.0
"""Time in seconds without a response to JoinGroup after which the member logs what it waits for. A new group takes
group.initial.rebalance.delay.ms, which is 3 s in Kafka.
"""
HOLD_SECONDS: Final = 0.5
"""Maximum time in seconds for which close() waits for a rebalance to complete. Without waiting, the last automatic
commit would be rejected, and the records since the previous one would be read twice.
"""
MAX_REASON: Final = 255
"""The maximum number of characters of the reason for a rebalance; longer reasons are cut."""
FENCED: Final = (errors.UnknownMemberIdError, errors.IllegalGenerationError, errors.FencedInstanceIdError)


class ClassicMembership(Membership):
    """A member of a classic group."""

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
        self.assignors = make_assignors(config.partition_assignment_strategy)
        # As in Java: partitions are kept through a rebalance only if all assignors are cooperative.
        self.cooperative = all(a.cooperative for a in self.assignors)
        self.needs_join = True
        """Whether the next poll must join, because the group is rebalancing or this member needs a rebalance."""
        self._reason = ""
        """The reason for the rebalance, which is sent to the broker (KIP-800)."""
        self._heartbeats: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._joining: asyncio.Task[set[TopicPartition]] | None = None
        self._assigned: set[TopicPartition] | None = None
        """The assignment of a completed rebalance, until `_adopt_assignment` applies or drops it."""
        self._last_assigned: protocol.LastAssignment = (NO_GENERATION, set())
        self._joined_topics: frozenset[str] = frozenset()
        self._assigned_counts: dict[str, int] | None = None
        self._lost = False

    def handle_error(self, error: type[errors.KafkaError]) -> None:
        """Handle an error of the coordinator: some mean that the member has to rejoin or has lost its partitions."""
        self.coordinator.handle_error(error)
        if issubclass(error, errors.RebalanceInProgressError):
            self.needs_join = True
        elif issubclass(error, FENCED):
            if not issubclass(error, errors.IllegalGenerationError):
                self.member_id = ""
            self.generation = NO_GENERATION
            self.needs_join = True
            self._lost = True
            if issubclass(error, errors.FencedInstanceIdError):
                self.fail(fenced_instance(self.config.group_instance_id))
        self.poll_trigger.set()

    @property
    def is_settled(self) -> bool:
        """Whether this member is not joining the group at the moment."""
        return self._joining is None

    @property
    def group_topics(self) -> frozenset[str]:
        """The topics of all members' subscriptions if this member is the leader, otherwise none."""
        return frozenset(self._assigned_counts or ())

    # Joining

    @property
    def has_work(self) -> bool:
        """Whether the next poll must join, adopt an assignment, or raise an error."""
        if self.error is not None:
            return True
        has_joined = self._assigned is not None or (self._joining is not None and self._joining.done())
        return self.subscription.has_subscription and (
            self.needs_join or has_joined or self._joined_topics != self.subscription.topics
        )

    def rejoin(self, reason: str) -> None:
        """Let the next poll start a rebalance."""
        self._reason = reason
        self.needs_join = True
        self.poll_trigger.set()

    def metadata_changed(self) -> None:
        """Let the next poll start a rebalance if this member is the leader, and the number of partitions of a topic has
        changed. Deleted topics do not count.
        """
        if self._assigned_counts is None or self.needs_join:
            return
        cluster = self.metadata.cluster
        now = {topic: len(cluster.partitions_of(topic)) for topic in self._assigned_counts}
        changed = [topic for topic, count in self._assigned_counts.items() if now[topic] and now[topic] != count]
        if changed:
            log.info(
                "group %s: the number of partitions has changed for %s; poll() starts a rebalance",
                self.group_id,
                listed(sorted(changed)),
            )
            self.rejoin("the partitions of the topics have changed")

    async def join_if_needed(self, deadline: float) -> bool:
        """Join until there is an assignment. Return False at the deadline; a join in progress continues in the
        background, and the next poll takes its result.
        """
        while self.has_work or self._joining is not None:
            self._raise_error()
            if self._assigned is not None:
                await self._adopt_assignment(self._assigned)
                continue
            if self._joining is None:
                self.metrics.rebalance_began()
                await self._prepare_join()
                if self.is_closing:
                    return False
                self._joining = asyncio.get_running_loop().create_task(self._rejoin(self.subscription.topics))
                self._joining.add_done_callback(lambda _: self.poll_trigger.set())
            joining = self._joining
            await asyncio.wait({joining}, timeout=max(0.0, deadline - time.monotonic()))
            if not joining.done():
                return False
            self._joining = None
            if joining.cancelled():  # by close() or unsubscribe() in another task
                return False
            if not await self._joined(joining, deadline):
                return False
        self.raise_listener_error()
        return True

    def _raise_error(self) -> None:
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    async def _joined(self, joining: asyncio.Task[set[TopicPartition]], deadline: float) -> bool:
        """Take the result of a finished rebalance. Return False if it has failed and no time is left for another
        attempt. Raises errors after which another attempt would fail, too.
        """
        try:
            self._assigned = joining.result()
        except errors.KafkaError as error:
            self.handle_error(type(error))
            if isinstance(error, errors.MemberIdRequiredError):
                return True
            self.metrics.rebalance_failed()
            self._raise_error()  # another attempt would fence the member that has replaced this one
            if not error.retriable and not isinstance(error, (*FENCED, errors.RebalanceInProgressError)):
                raise
            if time.monotonic() < deadline:
                log.debug("Could not join group %s; joining again: %s", self.group_id, error)
                return True
            log.debug(
                "Could not join group %s before poll() ended; the next poll() tries again: %s", self.group_id, error
            )
            return False
        return True

    async def _prepare_join(self) -> None:
        """Give up partitions before joining, and call the listener. Unless they are lost, a member whose assignors are
        all cooperative keeps them.
        """
        owned = set(self.subscription.partitions)
        if self._lost and owned:
            self.subscription.assign(())
            self._lost = False
            await self.notify_listener("on_partitions_lost", owned)
        elif not self.cooperative and owned:
            await self.before_revoke()
            # If the group has rebalanced in the meantime, they are lost already.
            await self.notify_listener("on_partitions_lost" if self._lost else "on_partitions_revoked", owned)
            self.subscription.assign(())
        self._lost = False

    async def _rejoin(self, topics: frozenset[str]) -> set[TopicPartition]:
        """Run one rebalance (JoinGroup and SyncGroup), and return this member's assignment. It may outlast the poll
        that started it.
        """
        deadline = time.monotonic() + self.config.max_poll_interval_ms / 1000 + JOIN_MARGIN
        self._stop_heartbeats()
        self.needs_join = False
        try:
            joined = await self._join_group(topics, deadline)
            data = await self._sync_group(joined, deadline)
        except errors.MemberIdRequiredError:
            self.needs_join = True
            raise
        except errors.KafkaError:
            self.needs_join = True
            await asyncio.sleep(self.coordinator.retry_backoff)  # the next rebalance follows at once
            raise
        except BaseException:
            self.needs_join = True
            raise
        self._joined_topics = topics
        self._start_heartbeats()
        return protocol.assigned(data)

    async def _join_group(self, topics: frozenset[str], deadline: float) -> JoinGroupResponse:
        rebalance_timeout = self.config.max_poll_interval_ms
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.config.session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout,
            member_id=self.member_id,
            group_instance_id=self.config.group_instance_id,
            protocol_type=PROTOCOL,
            protocols=[
                JoinGroupRequestProtocol(name=assignor.name, metadata=self._subscription(assignor, topics))
                for assignor in self.assignors
            ],
            reason=self._reason[:MAX_REASON] or None,
        )
        began = time.monotonic()
        notice = asyncio.get_running_loop().call_later(SLOW_JOIN_SECONDS, self._log_slow_join)
        try:
            response = await self.coordinator.send(request, deadline, timeout=rebalance_timeout / 1000 + JOIN_MARGIN)
        finally:
            notice.cancel()
        self.metrics.joins.record((time.monotonic() - began) * 1000)
        if response.error_code:
            error = errors.for_code(response.error_code)
            if error is errors.MemberIdRequiredError:
                self.member_id = response.member_id
            raise group_error(response.error_code, self.group_id)
        self.member_id = response.member_id
        self.generation = response.generation_id
        self._reason = ""
        return response

    def _log_slow_join(self) -> None:
        if self.coordinator.node is not None:  # otherwise the search for the coordinator takes long, which is logged
            log.info(
                "group %s: waiting for the other members to rejoin; one that died is removed after its "
                "session.timeout.ms",
                self.group_id,
            )

    def _subscription(self, assignor: Assignor, topics: frozenset[str]) -> bytes:
        owned = sorted(self.subscription.partitions)
        rack = self.config.client_rack or None
        return protocol.subscription(assignor, topics, owned, self.generation, self._last_assigned, rack)

    async def _sync_group(self, joined: JoinGroupResponse, deadline: float) -> bytes:
        assignments = []
        self._assigned_counts = None
        if joined.leader == joined.member_id:
            members = protocol.members(joined.members)
            self._assigned_counts = await self._partition_counts(members, deadline)
            if not joined.skip_assignment:
                decided = self._assign_all(joined.protocol_name, members, self._assigned_counts)
                assignments = [SyncGroupRequestAssignment(member_id=m, assignment=data) for m, data in decided.items()]
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.config.group_instance_id,
            protocol_type=PROTOCOL,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        timeout = self.config.max_poll_interval_ms / 1000 + JOIN_MARGIN
        began = time.monotonic()
        response = await self.coordinator.send(request, deadline, timeout=timeout)
        self.metrics.syncs.record((time.monotonic() - began) * 1000)
        if response.error_code:
            raise group_error(response.error_code, self.group_id)
        return response.assignment

    async def _partition_counts(self, members: Mapping[str, MemberSubscription], deadline: float) -> dict[str, int]:
        """Return the numbers of partitions of the topics that the members subscribe to; 0 for unknown topics."""
        topics = {topic for member in members.values() for topic in member.topics}
        self.metadata.add_topics(topics)
        if not all(self.metadata.cluster.partitions_of(topic) for topic in topics):
            await self.metadata.refresh(max(0.1, deadline - time.monotonic()))
        cluster = self.metadata.cluster
        return {topic: len(cluster.partitions_of(topic)) for topic in topics}

    def _assign_all(
        self, name: str | None, members: Mapping[str, MemberSubscription], counts: Mapping[str, int]
    ) -> dict[str, bytes]:
        """Return the encoded assignments of all members, by member id."""
        assignor = next((a for a in self.assignors if a.name == name), None)
        if assignor is None:
            raise errors.InconsistentGroupProtocolError(
                f"the group has selected {name!r}, which this member does not support"
            )
        decided = assignor.assign(members, {topic: count for topic, count in counts.items() if count})
        return protocol.assignments(decided)

    async def _adopt_assignment(self, assigned: set[TopicPartition]) -> None:
        """Replace the owned partitions with an assignment, unless they were lost in the meantime, and call the
        listener. A cooperative member that revokes partitions joins again.
        """
        owned = set(self.subscription.partitions)
        revoked, added = owned - assigned, assigned - owned
        if revoked and not self._lost:
            await self.before_revoke()
            await self.notify_listener("on_partitions_revoked", revoked)
            self.subscription.assign(owned & assigned)
            self.rejoin("partitions were revoked")
        self._assigned = None
        if self._lost:  # the group has rebalanced in the meantime: `_prepare_join` calls the listener
            return
        self._last_assigned = (self.generation, assigned)
        self.subscription.assign(assigned)
        log.info(
            "group %s: partitions assigned in generation %d: %s",
            self.group_id,
            self.generation,
            ", ".join(map(str, sorted(assigned))) or "none",
        )
        self.metrics.rebalance_ended()
        await self.notify_listener("on_partitions_assigned", added if self.cooperative else assigned)

    # Heartbeats

    def _start_heartbeats(self) -> None:
        self._heartbeats = asyncio.get_running_loop().create_task(self._heartbeat_loop())

    def _stop_heartbeats(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            self._heartbeats = None

    async def _heartbeat_loop(self) -> None:
        """Send heartbeats until poll() has not been called for max.poll.interval.ms, the session has expired, or the
        coordinator responds with an error after which they cannot continue.
        """
        session = self.config.session_timeout_ms / 1000
        last_response = time.monotonic()
        while True:
            if not await self.back_off(self.config.heartbeat_interval_ms / 1000, self._hurry):
                if self.config.group_instance_id is None:
                    await self._send_leave("consumer poll timeout has expired.")
                self.handle_error(errors.UnknownMemberIdError)
                return
            began = time.monotonic()
            try:
                response = await self.coordinator.send(
                    HeartbeatRequest(
                        group_id=self.group_id,
                        generation_id=self.generation,
                        member_id=self.member_id,
                        group_instance_id=self.config.group_instance_id,
                    ),
                    time.monotonic() + session,
                    timeout=min(session, self.config.request_timeout_ms / 1000),
                )
            except errors.KafkaError as error:
                if time.monotonic() - last_response > session:
                    log.warning(
                        "group %s: no heartbeat has succeeded for session.timeout.ms=%d, so this member gives up its "
                        "partitions; poll() joins again: %s",
                        self.group_id,
                        self.config.session_timeout_ms,
                        error,
                    )
                    self.handle_error(errors.UnknownMemberIdError)
                    return
                log.debug(
                    "group %s: a heartbeat failed; sending the next one after heartbeat.interval.ms=%d: %s",
                    self.group_id,
                    self.config.heartbeat_interval_ms,
                    error,
                )
                continue
            self.metrics.record_heartbeat(time.monotonic() - began)
            if not response.error_code:
                last_response = time.monotonic()
                continue
            error_class = errors.for_code(response.error_code)
            if not self._may_continue_heartbeats(error_class):
                return
            if error_class is errors.RebalanceInProgressError:
                last_response = time.monotonic()

    def _may_continue_heartbeats(self, error: type[errors.KafkaError]) -> bool:
        """Handle the error in a response to a heartbeat. Return whether heartbeats continue."""
        self.handle_error(error)
        if error is errors.RebalanceInProgressError:
            log.debug("group %s: the group is rebalancing; poll() joins again", self.group_id)
            return True
        if issubclass(error, errors.FencedInstanceIdError):
            log.debug("group %s: heartbeats stop, and poll() raises the error: %s", self.group_id, error.name)
            return False
        if issubclass(error, FENCED):
            log.info(
                "group %s: this member was fenced (%s) and gives up its partitions; poll() joins again",
                self.group_id,
                error.name,
            )
            return False
        if not error.retriable:
            log.debug("group %s: heartbeats stop, and poll() raises the error: %s", self.group_id, error.name)
            self.fail(group_error(error.code or 0, self.group_id))
            return False
        log.debug(
            "group %s: the coordinator rejected a heartbeat; sending the next one after heartbeat.interval.ms=%d: %s",
            self.group_id,
            self.config.heartbeat_interval_ms,
            error.name,
        )
        return True

    # Leaving

    async def finish_rebalance(self, seconds: float) -> None:
        """Wait for a rebalance in progress, for the shorter of `seconds` and HOLD_SECONDS, then cancel it if it is not
        done, so that the last commit is not rejected.
        """
        if self._joining is not None:
            await asyncio.wait({self._joining}, timeout=max(0.0, min(HOLD_SECONDS, seconds)))
            self._cancel_join()

    def _cancel_join(self) -> None:
        if self._joining is not None:
            if not self._joining.done():
                self._joining.cancel()
                self.coordinator.disconnect()
            elif not self._joining.cancelled():
                self._joining.exception()  # marks the exception as retrieved
            self._joining = None

    async def leave(self, operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT) -> None:
        """Leave the group. By default a static member stays in it, because it may come back within the session
        timeout.
        """
        self._stop_heartbeats()
        self._cancel_join()
        leaves = self.config.group_instance_id is None
        if operation is not GroupMembershipOperation.DEFAULT:
            leaves = operation is GroupMembershipOperation.LEAVE_GROUP
        try:
            if self.member_id and leaves:
                await self._send_leave("the consumer is being closed or unsubscribed")
        finally:
            self.reset()  # also if the caller's timeout cancels this: without heartbeats, it is no longer a member

    async def _send_leave(self, reason: str) -> None:
        if not self.member_id:
            return

        def request(version: int) -> LeaveGroupRequest:
            if version < 3:
                return LeaveGroupRequest(group_id=self.group_id, member_id=self.member_id)
            me = MemberIdentity(
                member_id=self.member_id, group_instance_id=self.config.group_instance_id, reason=reason
            )
            return LeaveGroupRequest(group_id=self.group_id, members=[me])

        await self.send_leave(request, LeaveGroupRequest)

    def reset(self) -> None:
        """Forget the member id and the generation: the next poll of a subscription joins as a new member."""
        self._stop_heartbeats()
        self._cancel_join()
        self.member_id = ""
        self.generation = NO_GENERATION
        self.needs_join = True
        self.error = None
        self._lost = False
        self._assigned = None
        self._last_assigned = (NO_GENERATION, set())
        self._joined_topics = frozenset()
        self._assigned_counts = None
