"""Membership in a classic group: join, stay alive, leave. Kafka's `ConsumerCoordinator`.

Joining happens while the consumer's caller waits in poll(), since his listener takes part in it; heartbeats happen on
the loop by themselves. A member whose caller does not poll for max.poll.interval.ms leaves.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from ottla import errors
from ottla.client.consumer.group import consumer_protocol as protocol
from ottla.client.consumer.group.assignors import Assignor, make_assignors
from ottla.client.consumer.group.membership import (
    LEAVE_SECONDS,
    NOBODY,
    GroupMembershipOperation,
    Membership,
    fenced_instance,
)
from ottla.client.consumer.metrics import CoordinatorMetrics
from ottla.client.consumer.subscription import Subscription
from ottla.client.core.coordinator import Coordinator, group_error
from ottla.client.core.metadata import Metadata
from ottla.config.consumer import ConsumerConfig
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

log = logging.getLogger("ottla.client")

PROTOCOL: Final = "consumer"
JOIN_MARGIN: Final = 5.0
"""Seconds that the answer to JoinGroup may take beyond the rebalance timeout."""

HOLD_SECONDS: Final = 0.5
"""How long close() waits for a round: when the group goes on first, what was read since the last commit comes twice."""
MAX_REASON: Final = 255
"""Characters of a reason that brokers keep."""
FENCED: Final = (errors.UnknownMemberIdError, errors.IllegalGenerationError, errors.FencedInstanceIdError)


class ClassicMembership(Membership):
    """One member of one classic group."""

    def __init__(
        self,
        config: ConsumerConfig,
        coordinator: Coordinator,
        metadata: Metadata,
        subscription: Subscription,
        metrics: CoordinatorMetrics,
    ) -> None:
        super().__init__(config, coordinator, subscription, metrics)
        self.metadata = metadata
        self.assignors = make_assignors(config.partition_assignment_strategy)
        # As in Java: only when every assignor is cooperative, partitions are kept through a rebalance.
        self.cooperative = all(a.cooperative for a in self.assignors)
        self.needs_join = True
        """The group wants (or this member needs) a rebalance: the next poll joins."""
        self._reason = ""
        """Why it is wanted, as the broker is told (KIP-800)."""
        self._heartbeats: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._joining: asyncio.Task[set[TopicPartition]] | None = None
        self._assigned: set[TopicPartition] | None = None
        """What a round has brought, until it is taken over."""
        self._last_assigned: protocol.LastRound = (NOBODY, set())
        self._joined_topics: frozenset[str] = frozenset()
        self._assigned_counts: dict[str, int] | None = None
        self._lost = False

    def handle_error(self, error: type[KafkaError]) -> None:
        """What an error of the coordinator means for this membership."""
        self.coordinator.handle_error(error)
        if issubclass(error, errors.RebalanceInProgressError):
            self.needs_join = True
        elif issubclass(error, FENCED):
            if not issubclass(error, errors.IllegalGenerationError):
                self.member_id = ""
            self.generation = NOBODY
            self.needs_join = True
            self._lost = True
            if issubclass(error, errors.FencedInstanceIdError):
                self.fail(fenced_instance(self.config.group_instance_id))
        self.changed()

    @property
    def is_settled(self) -> bool:
        """Whether no round is on its way."""
        return self._joining is None

    @property
    def group_topics(self) -> frozenset[str]:
        """As the leader: what all members have subscribed to."""
        return frozenset(self._assigned_counts or ())

    # Joining

    @property
    def has_work(self) -> bool:
        """Whether the next poll has to join, or to raise."""
        if self.error is not None:
            return True
        has_joined = self._assigned is not None or (self._joining is not None and self._joining.done())
        return self.subscription.by_group and (
            self.needs_join or has_joined or self._joined_topics != self.subscription.topics
        )

    def rejoin(self, reason: str) -> None:
        """Call for a rebalance with the next poll."""
        self._reason = reason
        self.needs_join = True
        self.changed()

    def metadata_changed(self) -> None:
        """The leader of the group answers for all: when topics got more partitions, it calls for a rebalance."""
        if self._assigned_counts is None or self.needs_join:
            return
        cluster = self.metadata.cluster
        now = {topic: len(cluster.partitions_of(topic)) for topic in self._assigned_counts}
        if any(now[topic] and now[topic] != count for topic, count in self._assigned_counts.items()):
            log.info("group %s: the partitions of its topics have changed", self.group_id)
            self.rejoin("the partitions of the topics have changed")

    async def join_if_needed(self, deadline: float) -> bool:
        """Be a member with an assignment. False when `deadline` comes first: joining goes on, see at the next poll."""
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        while self.has_work or self._joining is not None:
            if self._assigned is not None:
                await self._adopt_assignment(self._assigned)
                continue
            if self._joining is None:
                self.metrics.rebalance_began()
                await self._cancel_join()
                self._joining = asyncio.get_running_loop().create_task(self._rejoin(self.subscription.topics))
                self._joining.add_done_callback(lambda _: self.changed())
            joining = self._joining
            await asyncio.wait({joining}, timeout=max(0.0, deadline - time.monotonic()))
            if not joining.done():
                return False
            self._joining = None
            if not await self._joined(joining, deadline):
                return False
        self.raise_listener_error()
        return True

    async def _joined(self, joining: asyncio.Task[set[TopicPartition]], deadline: float) -> bool:
        """What a round has brought; False when it has failed and there is no time to try again."""
        try:
            self._assigned = joining.result()
        except KafkaError as error:
            self.handle_error(type(error))
            if isinstance(error, errors.MemberIdRequiredError):
                return True
            self.metrics.rebalance_failed()
            if not error.retriable and not isinstance(error, (*FENCED, errors.RebalanceInProgressError)):
                raise
            log.debug("group %s could not be joined: %s", self.group_id, error)
            return time.monotonic() < deadline
        return True

    async def _cancel_join(self) -> None:
        """Tell the listener what is lost, or (unless cooperative) given up for the rebalance."""
        owned = set(self.subscription.partitions)
        if self._lost and owned:
            self.subscription.assign(())
            self._lost = False
            await self.notify_listener("on_partitions_lost", owned)
        elif not self.cooperative and owned:
            await self.before_revoke()
            # When the group has gone on while that was tried, they are lost already.
            await self.notify_listener("on_partitions_lost" if self._lost else "on_partitions_revoked", owned)
            self.subscription.assign(())
        self._lost = False

    async def _rejoin(self, topics: frozenset[str]) -> set[TopicPartition]:
        """One round: join and sync; what was assigned. It may outlive the poll that began it."""
        deadline = time.monotonic() + self.config.max_poll_interval_ms / 1000 + JOIN_MARGIN
        self._stop_heartbeats()
        self.needs_join = False
        try:
            joined = await self._join_group(topics, deadline)
            data = await self._sync_group(joined, deadline)
        except errors.MemberIdRequiredError:
            self.needs_join = True
            raise
        except KafkaError:
            self.needs_join = True
            await asyncio.sleep(self.coordinator.retry_backoff)  # the next round follows at once
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
        response = await self.coordinator.send(request, deadline, timeout=rebalance_timeout / 1000 + JOIN_MARGIN)
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

    def _subscription(self, assignor: Assignor, topics: frozenset[str]) -> bytes:
        owned = sorted(self.subscription.partitions)
        rack = self.config.client_rack or None
        return protocol.subscription(assignor, topics, owned, self.generation, self._last_assigned, rack)

    async def _sync_group(self, joined: JoinGroupResponse, deadline: float) -> bytes:
        assignments = []
        self._assigned_counts = None
        if joined.leader == joined.member_id and not joined.skip_assignment:
            decided = await self._decide(joined, deadline)
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

    async def _decide(self, joined: JoinGroupResponse, deadline: float) -> dict[str, bytes]:
        """The leader's duty: everybody's partitions."""
        assignor = next((a for a in self.assignors if a.name == joined.protocol_name), None)
        if assignor is None:
            raise errors.InconsistentGroupProtocolError(f"the group has chosen {joined.protocol_name!r}")
        members = protocol.members(joined.members)
        topics = {topic for member in members.values() for topic in member.topics}
        self.metadata.add_topics(topics)
        if not all(self.metadata.cluster.partitions_of(topic) for topic in topics):
            await self.metadata.refresh(max(0.1, deadline - time.monotonic()))
        cluster = self.metadata.cluster
        counts = {topic: len(cluster.partitions_of(topic)) for topic in topics}
        self._assigned_counts = counts
        decided = assignor.assign(members, {topic: count for topic, count in counts.items() if count})
        return protocol.assignments(decided)

    async def _adopt_assignment(self, assigned: set[TopicPartition]) -> None:
        """Make the assignment ours. A cooperative member that has to give something up joins again afterwards."""
        owned = set(self.subscription.partitions)
        revoked, added = owned - assigned, assigned - owned
        if revoked and not self._lost:
            await self.before_revoke()
            await self.notify_listener("on_partitions_revoked", revoked)
            self.subscription.assign(owned & assigned)
            self.rejoin("partitions were given up")
        self._assigned = None
        if self._lost:  # the group has gone on meanwhile: `_give_up` tells
            return
        self._last_assigned = (self.generation, assigned)
        self.subscription.assign(assigned)
        log.info("group %s, generation %d: %s", self.group_id, self.generation, ", ".join(map(str, sorted(assigned))))
        self.metrics.rebalance_ended()
        await self.notify_listener("on_partitions_assigned", added if self.cooperative else assigned)

    # Staying

    def _start_heartbeats(self) -> None:
        self._heartbeats = asyncio.get_running_loop().create_task(self._heartbeat_loop())

    def _stop_heartbeats(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            self._heartbeats = None

    async def _heartbeat_loop(self) -> None:
        """Tell the coordinator that we live, until we do not: polls are missing, or it has dropped us."""
        session = self.config.session_timeout_ms / 1000
        heard = time.monotonic()
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
            except KafkaError as error:
                log.debug("heartbeat: %s", error)
                if time.monotonic() - heard > session:
                    self.handle_error(errors.UnknownMemberIdError)
                    return
                continue
            self.metrics.record_heartbeat(time.monotonic() - began)
            if not response.error_code:
                heard = time.monotonic()
                continue
            error_class = errors.for_code(response.error_code)
            log.debug("heartbeat: %s", error_class.name)
            self.handle_error(error_class)
            if error_class is errors.RebalanceInProgressError:
                heard = time.monotonic()
            elif issubclass(error_class, FENCED):
                return
            elif not error_class.retriable:
                self.fail(group_error(response.error_code, self.group_id))
                return

    # Leaving

    async def finish_rebalance(self, seconds: float) -> None:
        """Let a round that is on its way end soon, or give it up: then commits of the generation before are taken."""
        if self._joining is not None:
            await asyncio.wait({self._joining}, timeout=max(0.0, min(HOLD_SECONDS, seconds)))
            self._cancel_round()

    def _cancel_round(self) -> None:
        if self._joining is not None:
            if not self._joining.done():
                self._joining.cancel()
                self.coordinator.disconnect()
            elif not self._joining.cancelled():
                self._joining.exception()  # nobody wants to hear of it any more
            self._joining = None

    async def leave(self, operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT) -> None:
        """Go, unless the member is static: then it may come back within the session timeout."""
        self._stop_heartbeats()
        self._cancel_round()
        goes = self.config.group_instance_id is None
        if operation is not GroupMembershipOperation.DEFAULT:
            goes = operation is GroupMembershipOperation.LEAVE_GROUP
        if self.member_id and goes:
            await self._send_leave("the consumer is being closed or unsubscribed")
        self.reset()

    async def _send_leave(self, reason: str) -> None:
        if self.coordinator.node is None or not self.member_id:
            return

        def request(version: int) -> LeaveGroupRequest:
            if version < 3:
                return LeaveGroupRequest(group_id=self.group_id, member_id=self.member_id)
            me = MemberIdentity(
                member_id=self.member_id, group_instance_id=self.config.group_instance_id, reason=reason
            )
            return LeaveGroupRequest(group_id=self.group_id, members=[me])

        try:
            await self.coordinator.send(
                request, time.monotonic() + LEAVE_SECONDS, of=LeaveGroupRequest, timeout=LEAVE_SECONDS
            )
        except KafkaError as error:
            log.debug("leaving the group: %s", error)

    def reset(self) -> None:
        """Be nobody: the next poll of a subscription joins as a new member."""
        self._stop_heartbeats()
        self._cancel_round()
        self.member_id = ""
        self.generation = NOBODY
        self.needs_join = True
        self.error = None
        self._lost = False
        self._assigned = None
        self._last_assigned = (NOBODY, set())
        self._joined_topics = frozenset()
        self._assigned_counts = None
