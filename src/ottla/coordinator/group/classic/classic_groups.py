"""The classic group protocol: join, sync, heartbeat, leave and timeouts. Decisions without I/O.

Methods that decide on records or responses return a `CoordinatorResult`, or add to one: records to append, then
responses. A response may belong to an earlier request, since joins and syncs wait for the other members. Kafka's
`GroupMetadataManager`; KIP-62, KIP-134, KIP-345, KIP-394, KIP-814.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, MutableMapping
from typing import NamedTuple

from ottla import errors
from ottla.clock import Clock
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.group.classic import records
from ottla.coordinator.group.classic.classic_group import ClassicGroup, ClassicGroupState, ClassicMember
from ottla.coordinator.group.classic.rebalance import (
    ClassicRebalance,
    fail_waiting_members,
    join_error,
    join_response,
    sync_response,
)
from ottla.coordinator.group.common.group import Group
from ottla.coordinator.runtime.deadline_queue import NEVER
from ottla.coordinator.runtime.result import CoordinatorResult, ResponseFuture
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

MEMBER_ID_REQUIRED_SINCE = 4
"""First JoinGroup version in which a new member, unless it is static, joins twice: first to get its id, then with it.

A lost response then leaves no unused member behind (KIP-394).
"""
NAMED_MEMBERS_SINCE = 3
"""First LeaveGroup version that may name several members."""
NEW_MEMBER_SECONDS = 5 * 60.0
"""Maximum time in seconds that a new member waits for its first response.

If its client gives up and joins again as another member, the unused member must not delay the rebalance for longer.
Before JoinGroup v4, it does not know its id until the response, so it can neither send heartbeats nor leave (KIP-394).
"""
SKIP_ASSIGNMENT_SINCE = 9
"""First JoinGroup version whose response can instruct a static leader that rejoins to skip the assignment (KIP-814)."""


class GroupClient(NamedTuple):
    """The client of a request."""

    id: str
    host: str
    may_describe: Callable[[str], bool] | None = None
    """Predicate: whether the client may describe a topic; None if it may describe all topics."""


class PendingJoin(NamedTuple):
    """A JoinGroup request with its client and the future of its response."""

    request: JoinGroupRequest
    version: int
    client: GroupClient
    future: ResponseFuture
    offered: dict[str, bytes]
    new_id: str
    """The member id to use if the request has none."""


class ClassicGroups:
    """Handles the requests to the classic groups of one coordinator. `by_id` holds its groups of all types."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        new_id: Callable[[], str] | None = None,
        by_id: MutableMapping[str, Group] | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._rebalance = ClassicRebalance(config, clock)
        self._new_id = new_id or (lambda: str(uuid.uuid4()))
        self.by_id: MutableMapping[str, Group] = {} if by_id is None else by_id

    def join(
        self, request: JoinGroupRequest, version: int, client: GroupClient, future: ResponseFuture
    ) -> CoordinatorResult:
        """Handle JoinGroup.

        If the member starts or joins a rebalance, the response waits for the other members (see
        `ClassicRebalance.try_complete`).
        """
        result = CoordinatorResult()
        try:
            self.check_join(request)
            self._join(self.pending_join(request, version, client, future), result)
        except errors.KafkaError as error:
            result.respond(future, join_error(error, request.member_id))
        return result

    def pending_join(
        self, request: JoinGroupRequest, version: int, client: GroupClient, future: ResponseFuture
    ) -> PendingJoin:
        """Return a JoinGroup request together with a generated member id, in case it comes from a new member."""
        new_id = f"{request.group_instance_id or client.id}-{self._new_id()}"
        return PendingJoin(request, version, client, future, {p.name: p.metadata for p in request.protocols}, new_id)

    def check_join(self, request: JoinGroupRequest) -> None:
        """Raise an error if the group id or the session timeout of a request is invalid."""
        if not request.group_id:
            raise errors.InvalidGroupIdError
        bounds = self._config.group_min_session_timeout_ms, self._config.group_max_session_timeout_ms
        if not bounds[0] <= request.session_timeout_ms <= bounds[1]:
            raise errors.InvalidSessionTimeoutError

    def sync(self, request: SyncGroupRequest, future: ResponseFuture) -> CoordinatorResult:
        """Handle SyncGroup. Without an error, the response waits until the leader has sent the assignment."""
        result = CoordinatorResult()
        try:
            self._sync(request, future, result)
        except errors.KafkaError as error:
            result.respond(future, SyncGroupResponse(error_code=errors.code_of(error), protocol_name=None))
        return result

    def heartbeat(self, request: HeartbeatRequest) -> None:
        """Handle Heartbeat.

        Raises RebalanceInProgressError while a rebalance waits for members to join, and InvalidGroupIdError if the
        request has no group id. Raises UnknownMemberIdError, FencedInstanceIdError or IllegalGenerationError if the
        client is not a member of the current generation.
        """
        group = self._group(request.group_id)
        member = group.member_of(request.member_id, request.group_instance_id)
        if group.state is ClassicGroupState.EMPTY:
            raise errors.UnknownMemberIdError
        group.check_generation(request.generation_id)
        group.touch(member, self._clock.monotonic())
        if group.state is ClassicGroupState.PREPARING:
            raise errors.RebalanceInProgressError

    def leave(self, request: LeaveGroupRequest, version: int, future: ResponseFuture) -> CoordinatorResult:
        result = CoordinatorResult()
        if not request.group_id:
            result.respond(future, LeaveGroupResponse(error_code=errors.code_of(errors.InvalidGroupIdError())))
            return result
        old = version < NAMED_MEMBERS_SINCE
        leaving = [MemberIdentity(member_id=request.member_id)] if old else request.members
        group = self._classic(request.group_id)
        results = [self._leave_one(group, identity, result) for identity in leaving]
        code = results[0].error_code if old else 0
        result.respond(future, LeaveGroupResponse(error_code=code, members=[] if old else results))
        return result

    def expire(self, group: ClassicGroup) -> CoordinatorResult:
        result = CoordinatorResult()
        now = self._clock.monotonic()
        for member_id in [m for m, until in group.pending.items() if until <= now]:
            del group.pending[member_id]
        for member in [m for m in group.members.values() if m.timer <= now]:
            reason = (
                f"has sent no heartbeat for {member.session_timeout:g} s"
                if member.awaiting_join is None
                else f"is new and has waited {NEW_MEMBER_SECONDS:g} s for others to join"
            )
            self._rebalance.remove(group, member, result, reason)
        if group.sync_deadline <= now:
            group.sync_deadline = NEVER
            for member in [m for m in group.members.values() if not m.synced]:
                self._rebalance.remove(group, member, result, "has not sent SyncGroup within the rebalance timeout")
        if group.state is ClassicGroupState.PREPARING:
            self._rebalance.try_complete(group, result)
        if group.report_at <= now:
            self._rebalance.report(group)
        group.update_members_due()
        return result

    def unload(self, group: ClassicGroup) -> CoordinatorResult:
        """Fail pending JoinGroup and SyncGroup requests with NotCoordinatorError."""
        result = CoordinatorResult()
        fail_waiting_members(group, errors.NotCoordinatorError(), result)
        return result

    def rebalance(self, group: ClassicGroup, result: CoordinatorResult, reason: str) -> None:
        """Start a rebalance, and complete it at once if no member has to join."""
        self._rebalance.prepare(group, result, reason)
        self._rebalance.try_complete(group, result)

    def _group(self, group_id: str) -> ClassicGroup:
        if not group_id:
            raise errors.InvalidGroupIdError
        group = self._classic(group_id)
        if group is None or group.state is ClassicGroupState.DEAD:
            raise errors.UnknownMemberIdError
        return group

    def _classic(self, group_id: str) -> ClassicGroup | None:
        group = self.by_id.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # Joining

    def _join(self, join: PendingJoin, result: CoordinatorResult) -> None:
        request = join.request
        group = self._classic(request.group_id)
        if group is None:
            if request.member_id:
                raise errors.UnknownMemberIdError
            group = self.by_id[request.group_id] = ClassicGroup(request.group_id)
            group.empty_since_ms = self._clock.now_ms()
        self._check_room(group, request.member_id)
        if not group.accepts(request.protocol_type, join.offered):
            raise errors.InconsistentGroupProtocolError
        if request.member_id or (request.group_instance_id in group.static and request.group_instance_id is not None):
            self._join_known(group, join, result)
        else:
            self._join_new(group, join, result)

    def _join_new(self, group: ClassicGroup, join: PendingJoin, result: CoordinatorResult) -> None:
        request = join.request
        member_id = join.new_id
        if join.version >= MEMBER_ID_REQUIRED_SINCE and request.group_instance_id is None:
            group.add_pending_member(member_id, self._clock.monotonic() + request.session_timeout_ms / 1000)
            raise errors.MemberIdRequiredError(member_id)
        self._add_member(group, member_id, join, result)

    def _join_known(self, group: ClassicGroup, join: PendingJoin, result: CoordinatorResult) -> None:
        member_id = join.request.member_id
        if member_id in group.pending:
            self._add_member(group, member_id, join, result)
            return
        if not member_id:
            self._rejoin_static(group, join, result)
            return
        member = group.member_of(member_id, join.request.group_instance_id)
        # the leader of a stable group joins again to get a new assignment
        settled = group.state is ClassicGroupState.COMPLETING or (
            group.state is ClassicGroupState.STABLE and group.leader != member_id
        )
        if settled and member.protocols == join.offered:
            group.touch(member, self._clock.monotonic())
            result.respond(join.future, join_response(group, member))
        else:
            self._await_join(group, member, join, result)

    def _add_member(self, group: ClassicGroup, member_id: str, join: PendingJoin, result: CoordinatorResult) -> None:
        if not group.members:
            group.protocol_type = join.request.protocol_type
        member = ClassicMember(member_id, join.request.group_instance_id, join.client.id, join.client.host, 0, 0, {})
        member.join_deadline = self._clock.monotonic() + NEW_MEMBER_SECONDS
        group.add(member)
        group.joined_since = True
        self._await_join(group, member, join, result)

    def _rejoin_static(self, group: ClassicGroup, join: PendingJoin, result: CoordinatorResult) -> None:
        """Let a static member that has restarted join with a new id. Requests with the old id fail from now on."""
        instance_id = join.request.group_instance_id
        assert instance_id is not None
        member = group.members[group.static[instance_id]]
        was_leader = group.leader == member.id
        old_leader = group.leader
        fenced = errors.FencedInstanceIdError()
        if member.awaiting_join is not None:
            result.respond(member.awaiting_join, join_error(fenced, member.id))
            member.awaiting_join = None
        if member.awaiting_sync is not None:
            result.respond(
                member.awaiting_sync, SyncGroupResponse(error_code=errors.code_of(fenced), protocol_name=None)
            )
            member.awaiting_sync = None
        group.replace_static_member(member, join.new_id)
        # The metadata of a restarted member differs at least in its generation. A rebalance is needed only if the
        # chosen protocol changes.
        group.update_protocols(member, join.offered)
        if group.state is not ClassicGroupState.STABLE or group.choose_protocol() != group.protocol:
            self._await_join(group, member, join, result)
            return
        self._refresh(group, member, join)
        result.records.append(records.group_record(group, self._clock.now_ms()))
        response = join_response(group, member)
        if was_leader and join.version < SKIP_ASSIGNMENT_SINCE:
            # An older client would compute a new assignment if the response named it as the leader.
            response.leader, response.members = old_leader or "", []
        elif was_leader:
            response.skip_assignment = True
        result.respond(join.future, response)

    def _await_join(
        self, group: ClassicGroup, member: ClassicMember, join: PendingJoin, result: CoordinatorResult
    ) -> None:
        if member.awaiting_join is not None:
            result.respond(member.awaiting_join, join_error(errors.RebalanceInProgressError(), member.id))
        self._refresh(group, member, join)
        member.awaiting_join = join.future
        if group.state is not ClassicGroupState.PREPARING:
            verb = "joins again" if member.assignment else "joins"
            reason = f"member {member.id} ({member.client_host}) {verb}{_client_reason(join.request.reason)}"
            self._rebalance.prepare(group, result, reason)
        self._rebalance.try_complete(group, result)

    def _refresh(self, group: ClassicGroup, member: ClassicMember, join: PendingJoin) -> None:
        request = join.request
        member.session_timeout = request.session_timeout_ms / 1000
        timeout = request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else request.session_timeout_ms
        member.rebalance_timeout = timeout / 1000
        group.update_protocols(member, join.offered)
        member.client_id, member.client_host = join.client.id, join.client.host
        group.touch(member, self._clock.monotonic())

    def _check_room(self, group: ClassicGroup, member_id: str) -> None:
        """Raise GroupMaxSizeReachedError if the group has no room for the member that joins.

        During a rebalance, the first group.max.size members that join are admitted; a member that is rejected is
        removed.
        """
        if len(group.members) < self._config.group_max_size:
            return
        member = group.members.get(member_id)
        if group.state is ClassicGroupState.PREPARING:
            joins_again, size = member is not None and member.awaiting_join is not None, len(group.awaiting_join)
        else:
            joins_again, size = member is not None, len(group.members)
        if joins_again or size < self._config.group_max_size:
            return
        if member is not None:
            group.remove(member_id)
        group.pending.pop(member_id, None)
        raise errors.GroupMaxSizeReachedError

    # Syncing

    def _sync(self, request: SyncGroupRequest, future: ResponseFuture, result: CoordinatorResult) -> None:
        group = self._group(request.group_id)
        member = group.member_of(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        for requested, expected in (
            (request.protocol_type, group.protocol_type),
            (request.protocol_name, group.protocol),
        ):
            if requested is not None and requested != expected:
                raise errors.InconsistentGroupProtocolError
        now = self._clock.monotonic()
        if group.state is ClassicGroupState.EMPTY:
            raise errors.UnknownMemberIdError
        if group.state is ClassicGroupState.PREPARING:
            raise errors.RebalanceInProgressError
        group.touch(member, now)
        member.synced = True
        if group.state is ClassicGroupState.STABLE:
            result.respond(future, sync_response(group, member))
            return
        if member.awaiting_sync is not None:
            code = errors.code_of(errors.RebalanceInProgressError())
            result.respond(member.awaiting_sync, SyncGroupResponse(error_code=code, protocol_name=None))
        member.awaiting_sync = future
        if group.leader == member.id:
            self._rebalance.assign(group, {a.member_id: bytes(a.assignment) for a in request.assignments}, result)

    # Leaving

    def _leave_one(
        self, group: ClassicGroup | None, identity: MemberIdentity, result: CoordinatorResult
    ) -> MemberResponse:
        response = MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id)
        try:
            if group is None or group.state is ClassicGroupState.DEAD:
                raise errors.UnknownMemberIdError
            if identity.member_id in group.pending:
                del group.pending[identity.member_id]
                if group.state is ClassicGroupState.PREPARING:
                    self._rebalance.try_complete(group, result)
                return response
            member_id = identity.member_id
            if identity.group_instance_id is not None and not member_id:
                # an admin removes a static member by its instance id alone
                member_id = group.static.get(identity.group_instance_id, "")
            reason = f"leaves{_client_reason(identity.reason)}"
            self._rebalance.remove(group, group.member_of(member_id, identity.group_instance_id), result, reason)
        except errors.KafkaError as error:
            response.error_code = errors.code_of(error)
        return response


def _client_reason(reason: str | None) -> str:
    return f": {reason}" if reason else ""
