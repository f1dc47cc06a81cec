"""Membership in a classic group: join, stay alive, leave; and the group's offsets. Kafka's `ConsumerCoordinator`.

Joining happens while the consumer's caller waits in poll(), since his listener takes part in it; heartbeats happen on
the loop by themselves. A member whose caller does not poll for max.poll.interval.ms leaves.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from ottla import errors
from ottla.client.assignors import Assignor, MemberSubscription, group_by_topic, make_assignors
from ottla.client.connections import GROUP, Connections
from ottla.client.io_thread import run_at_caller
from ottla.client.metadata import Metadata
from ottla.client.subscription import Subscription
from ottla.config.consumer import ConsumerConfig
from ottla.errors import CommitFailedError, InvalidGroupIdError, KafkaError, KafkaTimeoutError
from ottla.model import OffsetAndMetadata, TopicPartition
from ottla.protocol.message import Request, Response
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.versioned import decode_versioned, encode_versioned

log = logging.getLogger("ottla.client")

R = TypeVar("R", bound=Response)

PROTOCOL: Final = "consumer"
SUBSCRIPTION_VERSION: Final = 3
NEWEST_COMMIT: Final = 9
NEWEST_OFFSET_FETCH: Final = 9
JOIN_MARGIN: Final = 5.0
"""Seconds that the answer to JoinGroup may take beyond the rebalance timeout."""
LEAVE_SECONDS: Final = 5.0

FENCED: Final = (errors.UnknownMemberIdError, errors.IllegalGenerationError, errors.FencedInstanceIdError)
COORDINATOR_MOVED: Final = (
    errors.NotCoordinatorError,
    errors.CoordinatorNotAvailableError,
    errors.CoordinatorLoadInProgressError,
)
NOBODY: Final = -1


class ConsumerRebalanceListener:
    """Told when partitions come and go, in the thread that polls. An asyncio consumer's may have coroutines."""

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        """These will be somebody else's: the last moment to commit what was read."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        """These are new: a moment to seek."""

    def on_partitions_lost(self, lost: set[TopicPartition]) -> Any:
        """These are somebody else's already, as this member was thought dead."""
        return self.on_partitions_revoked(lost)


class Membership:
    """One member of one group."""

    def __init__(
        self, config: ConsumerConfig, connections: Connections, metadata: Metadata, subscription: Subscription
    ) -> None:
        self.config = config
        self.connections = connections
        self.metadata = metadata
        self.subscription = subscription
        self.group_id = config.group_id
        self.assignors = make_assignors(config.partition_assignment_strategy)
        # As in Java: only when every assignor is cooperative, partitions are kept through a rebalance.
        self.cooperative = all(a.cooperative for a in self.assignors)
        self.member_id = ""
        self.generation = NOBODY
        self.needs_join = True
        """The group wants (or this member needs) a rebalance: the next poll joins."""
        self.listener: Any = None
        self.before_revoke: Callable[[], Awaitable[None]] | None = None
        """Called before partitions are given up: the last automatic commit."""
        self.last_poll = time.monotonic()
        self.error: KafkaError | None = None
        """What the next poll has to raise."""
        self._coordinator: int | None = None
        self._heartbeats: asyncio.Task[None] | None = None
        self._joining: asyncio.Task[set[TopicPartition]] | None = None
        self._joined_topics: frozenset[str] = frozenset()
        self._assigned_counts: dict[str, int] | None = None
        self._lost = False
        self._back_off = config.retry_backoff_ms / 1000

    # The coordinator

    async def coordinator(self, deadline: float) -> int:
        """The node that looks after the group. KafkaTimeoutError when none is found in time."""
        if self.group_id is None or not self.group_id:
            raise InvalidGroupIdError("group.id is needed for this")
        last: KafkaError | None = None
        while self._coordinator is None:
            try:
                request = self._find_request
                response = await self.connections.ask_any_of(FindCoordinatorRequest, request)
                found = response.coordinators[0] if response.coordinators else response
                if found.error_code:
                    raise errors.for_code(found.error_code)(found.error_message)
                if found.node_id not in self.metadata.cluster.nodes:
                    await self.metadata.refresh(max(0.0, deadline - time.monotonic()))
                self._coordinator = found.node_id
            except KafkaError as error:
                if not error.retriable:
                    raise
                last = error
                await self._pause(deadline, f"no coordinator of group {self.group_id}", last)
        return self._coordinator

    def _find_request(self, version: int) -> FindCoordinatorRequest:
        assert self.group_id is not None
        if version >= 4:
            return FindCoordinatorRequest(coordinator_keys=[self.group_id])
        return FindCoordinatorRequest(key=self.group_id)

    async def _pause(self, deadline: float, what: str, reason: KafkaError | None) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise KafkaTimeoutError(what + (f" ({reason})" if reason else "")) from reason
        await asyncio.sleep(min(self._back_off, left))

    async def _ask(
        self,
        request: Request[R] | Callable[[int], Request[R]],
        deadline: float,
        *,
        of: type[Request[R]] | None = None,
        at_most: int | None = None,
        timeout: float | None = None,
    ) -> R:
        """Ask the coordinator; when the connection fails, it has to be found again."""
        node = await self.coordinator(deadline)
        try:
            return await self.connections.ask(node, request, of=of, at_most=at_most, timeout=timeout, purpose=GROUP)
        except KafkaError as error:
            if error.retriable:
                self._coordinator = None
            raise

    def _follow(self, error: type[KafkaError]) -> None:
        """What an error of the coordinator means for this membership."""
        if issubclass(error, COORDINATOR_MOVED):
            self._coordinator = None
        elif issubclass(error, errors.RebalanceInProgressError):
            self.needs_join = True
        elif issubclass(error, FENCED):
            if not issubclass(error, errors.IllegalGenerationError):
                self.member_id = ""
            self.generation = NOBODY
            self.needs_join = True
            self._lost = True
            if issubclass(error, errors.FencedInstanceIdError):
                self.error = error(f"another member has joined as {self.config.group_instance_id}")

    # Joining

    @property
    def has_work(self) -> bool:
        """Whether the next poll has to join, or to raise."""
        if self.error is not None:
            return True
        return self.subscription.by_group and (self.needs_join or self._joined_topics != self.subscription.topics)

    def metadata_changed(self) -> None:
        """The leader of the group answers for all: when topics got more partitions, it calls for a rebalance."""
        if self._assigned_counts is None or self.needs_join:
            return
        cluster = self.metadata.cluster
        now = {topic: len(cluster.partitions_of(topic)) for topic in self._assigned_counts}
        if any(now[topic] and now[topic] != count for topic, count in self._assigned_counts.items()):
            log.info("group %s: the partitions of its topics have changed", self.group_id)
            self.needs_join = True

    async def ensure_joined(self, deadline: float) -> bool:
        """Be a member with an assignment. False when `deadline` comes first: joining goes on, see at the next poll."""
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        while self.has_work or self._joining is not None:
            if self._joining is None:
                await self._give_up()
                self._joining = asyncio.get_running_loop().create_task(self._rejoin(self.subscription.topics))
            joining = self._joining
            await asyncio.wait({joining}, timeout=max(0.0, deadline - time.monotonic()))
            if not joining.done():
                return False
            self._joining = None
            if not await self._joined(joining, deadline):
                return False
        return True

    async def _joined(self, joining: asyncio.Task[set[TopicPartition]], deadline: float) -> bool:
        """Take over what a round has brought; False when it has failed and there is no time to try again."""
        try:
            assigned = joining.result()
        except KafkaError as error:
            self._follow(type(error))
            if isinstance(error, errors.MemberIdRequiredError):
                return True
            if not error.retriable and not isinstance(error, (*FENCED, errors.RebalanceInProgressError)):
                raise
            log.debug("group %s could not be joined: %s", self.group_id, error)
            left = deadline - time.monotonic()
            await asyncio.sleep(max(0.0, min(self._back_off, left)))
            return left > 0
        await self._take_over(assigned)
        return True

    async def _give_up(self) -> None:
        """Tell the listener what is lost, or (unless cooperative) given up for the rebalance."""
        owned = set(self.subscription.partitions)
        if self._lost and owned:
            self._lost = False
            await self._tell("on_partitions_lost", owned)
            self.subscription.assign(())
        elif not self.cooperative and owned:
            if self.before_revoke is not None:
                await self.before_revoke()
            await self._tell("on_partitions_revoked", owned)
            self.subscription.assign(())
        self._lost = False

    async def _tell(self, method: str, partitions: set[TopicPartition]) -> None:
        if self.listener is not None:
            call = getattr(self.listener, method, None) or getattr(self.listener, "on_partitions_revoked", None)
            if call is not None:
                await run_at_caller(call, partitions)

    async def _rejoin(self, topics: frozenset[str]) -> set[TopicPartition]:
        """One round: join and sync; what was assigned. It may outlive the poll that began it."""
        deadline = time.monotonic() + self.config.max_poll_interval_ms / 1000 + JOIN_MARGIN
        self._stop_heartbeats()
        self.needs_join = False
        try:
            joined = await self._join_group(topics, deadline)
            data = await self._sync_group(joined, deadline)
        except BaseException:
            self.needs_join = True
            raise
        self._joined_topics = topics
        self._start_heartbeats()
        assignment = decode_versioned(ConsumerProtocolAssignment, data) if data else ConsumerProtocolAssignment()
        return {TopicPartition(t.topic, p) for t in assignment.assigned_partitions for p in t.partitions}

    async def _join_group(self, topics: frozenset[str], deadline: float) -> JoinGroupResponse:
        rebalance_timeout = self.config.max_poll_interval_ms
        request = JoinGroupRequest(
            group_id=self.group_id or "",
            session_timeout_ms=self.config.session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout,
            member_id=self.member_id,
            group_instance_id=self.config.group_instance_id,
            protocol_type=PROTOCOL,
            protocols=[
                JoinGroupRequestProtocol(name=assignor.name, metadata=self._subscription_for(assignor, topics))
                for assignor in self.assignors
            ],
        )
        response = await self._ask(request, deadline, timeout=rebalance_timeout / 1000 + JOIN_MARGIN)
        if response.error_code:
            error = errors.for_code(response.error_code)
            if error is errors.MemberIdRequiredError:
                self.member_id = response.member_id
            raise error()
        self.member_id = response.member_id
        self.generation = response.generation_id
        return response

    def _subscription_for(self, assignor: Assignor, topics: frozenset[str]) -> bytes:
        owned = sorted(self.subscription.partitions)
        told = getattr(assignor, "user_data", None)
        return encode_versioned(
            ConsumerProtocolSubscription(
                topics=sorted(topics),
                user_data=None if told is None else told(owned, self.generation),
                owned_partitions=group_by_topic(owned),
                generation_id=self.generation,
                rack_id=self.config.client_rack or None,
            ),
            SUBSCRIPTION_VERSION,
        )

    async def _sync_group(self, joined: JoinGroupResponse, deadline: float) -> bytes:
        assignments = []
        self._assigned_counts = None
        if joined.leader == joined.member_id and not joined.skip_assignment:
            decided = await self._decide(joined, deadline)
            assignments = [SyncGroupRequestAssignment(member_id=m, assignment=data) for m, data in decided.items()]
        request = SyncGroupRequest(
            group_id=self.group_id or "",
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.config.group_instance_id,
            protocol_type=PROTOCOL,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        timeout = self.config.max_poll_interval_ms / 1000 + JOIN_MARGIN
        response = await self._ask(request, deadline, timeout=timeout)
        if response.error_code:
            raise errors.for_code(response.error_code)()
        return response.assignment

    async def _decide(self, joined: JoinGroupResponse, deadline: float) -> dict[str, bytes]:
        """The leader's duty: everybody's partitions."""
        assignor = next((a for a in self.assignors if a.name == joined.protocol_name), None)
        if assignor is None:
            raise errors.InconsistentGroupProtocolError(f"the group has chosen {joined.protocol_name!r}")
        members = {}
        for member in joined.members:
            told = decode_versioned(ConsumerProtocolSubscription, member.metadata)
            owned = tuple(TopicPartition(t.topic, p) for t in told.owned_partitions for p in t.partitions)
            members[member.member_id] = MemberSubscription(
                tuple(told.topics), owned, told.generation_id, told.user_data, member.group_instance_id
            )
        topics = {topic for member in members.values() for topic in member.topics}
        self.metadata.add_topics(topics)
        if not all(self.metadata.cluster.partitions_of(topic) for topic in topics):
            await self.metadata.refresh(max(0.1, deadline - time.monotonic()))
        cluster = self.metadata.cluster
        counts = {topic: len(cluster.partitions_of(topic)) for topic in topics}
        self._assigned_counts = counts
        decided = assignor.assign(members, {topic: count for topic, count in counts.items() if count})
        return {
            member: encode_versioned(ConsumerProtocolAssignment(assigned_partitions=group_by_topic(partitions)), 1)
            for member, partitions in decided.items()
        }

    async def _take_over(self, assigned: set[TopicPartition]) -> None:
        """Make the assignment ours. A cooperative member that has to give something up joins again afterwards."""
        owned = set(self.subscription.partitions)
        revoked, added = owned - assigned, assigned - owned
        if revoked:
            if self.before_revoke is not None:
                await self.before_revoke()
            await self._tell("on_partitions_revoked", revoked)
            self.needs_join = True
        self.subscription.assign(assigned)
        log.info("group %s, generation %d: %s", self.group_id, self.generation, ", ".join(map(str, sorted(assigned))))
        await self._tell("on_partitions_assigned", added if self.cooperative else assigned)

    # Staying

    def _start_heartbeats(self) -> None:
        self._heartbeats = asyncio.get_running_loop().create_task(self._beat())

    def _stop_heartbeats(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            self._heartbeats = None

    async def _beat(self) -> None:
        """Tell the coordinator that we live, until we do not: polls are missing, or it has dropped us."""
        interval = self.config.heartbeat_interval_ms / 1000
        session = self.config.session_timeout_ms / 1000
        heard = time.monotonic()
        while True:
            await asyncio.sleep(interval)
            now = time.monotonic()
            if now - self.last_poll > self.config.max_poll_interval_ms / 1000:
                log.warning("group %s: poll() was not called within max.poll.interval.ms; leaving", self.group_id)
                await self._say_goodbye()
                self._follow(errors.UnknownMemberIdError)
                return
            try:
                response = await self._ask(
                    HeartbeatRequest(
                        group_id=self.group_id or "",
                        generation_id=self.generation,
                        member_id=self.member_id,
                        group_instance_id=self.config.group_instance_id,
                    ),
                    now + session,
                    timeout=min(session, self.connections.request_timeout),
                )
            except KafkaError as error:
                log.debug("heartbeat: %s", error)
                if time.monotonic() - heard > session:
                    self._follow(errors.UnknownMemberIdError)
                    return
                continue
            if not response.error_code:
                heard = time.monotonic()
                continue
            error_class = errors.for_code(response.error_code)
            log.debug("heartbeat: %s", error_class.name)
            self._follow(error_class)
            if error_class is errors.RebalanceInProgressError:
                heard = time.monotonic()
            elif issubclass(error_class, FENCED):
                return
            elif not error_class.retriable:
                self.error = error_class()
                return

    # Leaving

    async def leave(self) -> None:
        """Go, unless the member is static: then it may come back within the session timeout."""
        self._stop_heartbeats()
        if self._joining is not None:
            self._joining.cancel()
        if self.member_id and self.config.group_instance_id is None:
            await self._say_goodbye()
        self.reset()

    async def _say_goodbye(self) -> None:
        if self._coordinator is None or not self.member_id:
            return

        def request(version: int) -> LeaveGroupRequest:
            if version < 3:
                return LeaveGroupRequest(group_id=self.group_id or "", member_id=self.member_id)
            return LeaveGroupRequest(group_id=self.group_id or "", members=[MemberIdentity(member_id=self.member_id)])

        try:
            await self._ask(request, time.monotonic() + LEAVE_SECONDS, of=LeaveGroupRequest, timeout=LEAVE_SECONDS)
        except KafkaError as error:
            log.debug("leaving the group: %s", error)

    def reset(self) -> None:
        """Be nobody: the next poll of a subscription joins as a new member."""
        self._stop_heartbeats()
        if self._joining is not None:
            self._joining.cancel()
            self._joining = None
        self.member_id = ""
        self.generation = NOBODY
        self.needs_join = True
        self._lost = False
        self._joined_topics = frozenset()
        self._assigned_counts = None

    # Offsets

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: float) -> None:
        """Store offsets; tries again while that may help and there is time.

        CommitFailedError when the group has gone on without this member.
        """
        if not offsets:
            return
        while True:
            try:
                await self._commit_once(offsets, deadline)
                return
            except KafkaError as error:
                if not error.retriable:
                    raise
                await self._pause(deadline, f"offsets of group {self.group_id} were not committed", error)

    async def _commit_once(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: float) -> None:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for tp, offset in offsets.items():
            one = OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
            topics.setdefault(tp.topic, []).append(one)
        by_group = self.subscription.by_group
        if by_group and self.generation == NOBODY:
            raise CommitFailedError("this consumer is no member of the group any more; poll() joins again")
        request = OffsetCommitRequest(
            group_id=self.group_id or "",
            generation_id_or_member_epoch=self.generation if by_group else NOBODY,
            member_id=self.member_id if by_group else "",
            group_instance_id=self.config.group_instance_id if by_group else None,
            topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )
        response = await self._ask(request, deadline, at_most=NEWEST_COMMIT)
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code:
                    tp = TopicPartition(topic.name, partition.partition_index)
                    self._commit_failed(tp, partition.error_code, request.generation_id_or_member_epoch)

    def _commit_failed(self, tp: TopicPartition, code: int, generation: int) -> None:
        error = errors.for_code(code)
        # A commit that was overtaken by a rebalance says nothing about the generation that we are in now.
        if not issubclass(error, FENCED) or (generation == self.generation and self._joining is None):
            self._follow(error)
        if issubclass(error, (*FENCED, errors.RebalanceInProgressError)):
            raise CommitFailedError(f"{tp}: the group is rebalancing or has gone on without this member ({error.name})")
        raise error(f"{tp}: {error.__doc__}")

    async def committed(
        self, partitions: Sequence[TopicPartition], deadline: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The stored offsets; partitions without one are left out."""
        while True:
            try:
                return await self._committed_once(partitions, deadline)
            except KafkaError as error:
                self._follow(type(error))
                if not error.retriable:
                    raise
                await self._pause(deadline, f"no committed offsets of group {self.group_id}", error)

    async def _committed_once(
        self, partitions: Sequence[TopicPartition], deadline: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        topics: dict[str, list[int]] = {}
        for tp in partitions:
            topics.setdefault(tp.topic, []).append(tp.partition)
        group_id = self.group_id or ""

        def request(version: int) -> OffsetFetchRequest:
            stable = version >= 7
            if version < 8:
                old = [OffsetFetchRequestTopic(name=t, partition_indexes=p) for t, p in topics.items()]
                return OffsetFetchRequest(group_id=group_id, topics=old, require_stable=stable)
            new = [OffsetFetchRequestTopics(name=t, partition_indexes=p) for t, p in topics.items()]
            groups = [OffsetFetchRequestGroup(group_id=group_id, topics=new)]
            return OffsetFetchRequest(groups=groups, require_stable=stable)

        response = await self._ask(request, deadline, of=OffsetFetchRequest, at_most=NEWEST_OFFSET_FETCH)
        answer: Any = response.groups[0] if response.groups else response
        if answer.error_code:
            raise errors.for_code(answer.error_code)()
        found = {}
        for topic in answer.topics:
            for p in topic.partitions:
                if p.error_code:
                    raise errors.for_code(p.error_code)()
                if p.committed_offset >= 0:
                    tp = TopicPartition(topic.name, p.partition_index)
                    found[tp] = OffsetAndMetadata(p.committed_offset, p.metadata or "", p.committed_leader_epoch)
        return found
