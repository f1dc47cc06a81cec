"""Members of consumer groups that use the classic protocol, as during an online migration (KIP-848).

JoinGroup does what a ConsumerGroupHeartbeat does: it updates the member and moves it towards its target assignment. The
SyncGroup after it returns the assignment. The broker assigns, so there is no leader. A Heartbeat returns
REBALANCE_IN_PROGRESS if the member has to join again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ottla import errors
from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.coordinator.group.classic.classic_groups import MEMBER_ID_REQUIRED_SINCE, PendingJoin
from ottla.coordinator.group.classic.subscriptions import CONSUMER, assignment_bytes
from ottla.coordinator.group.common.consumer_member import Classic, ConsumerMember, MemberState
from ottla.coordinator.group.common.consumer_topics import partitions_by_name
from ottla.coordinator.group.common.member_timers import Timers
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.consumer.consumer_group_update import ConsumerGroupUpdate
from ottla.coordinator.group.consumer.consumer_groups import ConsumerGroups
from ottla.coordinator.group.consumer.group_migration import GroupMigration
from ottla.coordinator.runtime.deadline_queue import NEVER
from ottla.coordinator.runtime.result import CoordinatorResult
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.leave_group import MemberIdentity, MemberResponse
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.protocol.versioned import decode_versioned


class ClassicMembers:
    """Handles requests of the classic protocol to consumer groups."""

    def __init__(
        self, groups: ConsumerGroups, migration: GroupMigration, clock: Clock, image: Callable[[], ClusterImage]
    ) -> None:
        self._groups = groups
        self._migration = migration
        self._clock = clock
        self._image = image

    def join(self, group: ConsumerGroup, join: PendingJoin, result: CoordinatorResult) -> None:
        """Handle JoinGroup. The response does not wait for other members; it has the member's epoch as the generation.

        Raises the KafkaError for the response if the member cannot join, such as MemberIdRequiredError.
        """
        request = join.request
        member_id = request.member_id or join.new_id
        self._groups.check_capacity(group, member_id)
        _check_protocols(group, join)
        if not request.member_id and request.group_instance_id is None and join.version >= MEMBER_ID_REQUIRED_SINCE:
            raise errors.MemberIdRequiredError(member_id)
        subscription = _subscription(join)
        update = self._groups.begin_update(group)
        before = self._member(update, join, member_id)
        owned = partitions_by_name(subscription.owned_partitions, self._image())
        member = self._groups.advance(update, _described(before, join, subscription), owned)
        result.records += update.records
        self._respond_join(group, join, member, result)
        if request.group_instance_id is not None and self._migration.can_downgrade(update.group, set()):
            # The static member has replaced the last member with the consumer protocol, and takes over its assignment.
            self._migration.downgrade(update.group, set(), result)

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
        """Handle SyncGroup: return the assignment of the last join.

        Raises RebalanceInProgressError if the member has to join again, InconsistentGroupProtocolError for another
        protocol, or another error if the request does not come from a current classic member.
        """
        member = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
        assert member.classic is not None
        name, metadata = member.classic.protocols[0]
        for requested, expected in ((request.protocol_type, CONSUMER), (request.protocol_name, name)):
            if requested is not None and requested != expected:
                raise errors.InconsistentGroupProtocolError
        if self._is_behind(group, member) and member.state is not MemberState.UNREVOKED:
            self._require_join(group, member)
            raise errors.RebalanceInProgressError
        self._touch(group, member).sync = NEVER
        return SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_bytes(member.assigned, metadata, self._image()),
        )

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> None:
        """Handle Heartbeat.

        Raises RebalanceInProgressError if the member has to join again, or another error if the request does not come
        from a current classic member.
        """
        member = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
        self._touch(group, member)
        waits = any(group.owners.get(p, member.id) != member.id for p in group.target_of(member) - member.assigned)
        comes_free = member.state is MemberState.UNRELEASED and not waits
        if self._is_behind(group, member) or member.state is MemberState.UNREVOKED or comes_free:
            self._require_join(group, member)
            raise errors.RebalanceInProgressError

    def leave(
        self, group: ConsumerGroup, leaving: list[MemberIdentity], result: CoordinatorResult
    ) -> list[MemberResponse]:
        member_ids: set[str] = set()
        responses = []
        for identity in leaving:
            response = MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id)
            try:
                member_ids.add(_leaving_member(group, identity).id)
            except errors.KafkaError as error:
                response.error_code = errors.code_of(error)
            responses.append(response)
        self._groups.remove(group, member_ids, result)
        return responses

    def _member(self, update: ConsumerGroupUpdate, join: PendingJoin, member_id: str) -> ConsumerMember:
        request = join.request
        if request.group_instance_id is None:
            return update.group.members.get(member_id) or ConsumerMember(member_id)
        if request.member_id:
            return update.group.member_of(member_id, request.group_instance_id)
        return self._groups.static_member(update, request.group_instance_id, member_id, classic=True)

    def _respond_join(
        self, group: ConsumerGroup, join: PendingJoin, member: ConsumerMember, result: CoordinatorResult
    ) -> None:
        assert member.classic is not None
        timers = self._touch(group, member)
        timers.join = NEVER
        timers.sync = self._clock.monotonic() + member.rebalance_timeout_ms / 1000
        result.respond(
            join.future,
            JoinGroupResponse(
                generation_id=member.epoch,
                protocol_type=CONSUMER,
                protocol_name=member.classic.protocols[0][0],
                leader="",
                member_id=member.id,
            ),
        )

    def _touch(self, group: ConsumerGroup, member: ConsumerMember) -> Timers:
        assert member.classic is not None
        return self._groups.renew_session(group.id, member.id, member.classic.session_timeout_ms)

    def _is_behind(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Return whether there is a later target assignment than the member's, or its next join may compute one."""
        return member.epoch < group.target_epoch or (
            group.epoch > group.target_epoch and self._groups.may_assign(group)
        )

    def _require_join(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        timers = group.timers[member.id]
        if timers.join == NEVER:
            timers.join = self._clock.monotonic() + member.rebalance_timeout_ms / 1000


def _check_protocols(group: ConsumerGroup, join: PendingJoin) -> None:
    """Raise InconsistentGroupProtocolError unless the protocol type is `consumer` and one of the request's protocols is
    supported by all classic members.
    """
    offers = [{name for name, _ in m.classic.protocols} for m in group.members.values() if m.classic is not None]
    common = set(join.offered).intersection(*offers)
    if join.request.protocol_type != CONSUMER or not common:
        raise errors.InconsistentGroupProtocolError(f"Member {join.request.member_id}'s protocols are not supported.")


def _subscription(join: PendingJoin) -> ConsumerProtocolSubscription:
    try:
        return decode_versioned(ConsumerProtocolSubscription, next(iter(join.offered.values())))
    except errors.MalformedMessageError as error:
        raise errors.InconsistentGroupProtocolError(f"the embedded consumer protocol is malformed: {error}") from None


def _described(member: ConsumerMember, join: PendingJoin, subscription: ConsumerProtocolSubscription) -> ConsumerMember:
    request = join.request
    timeout = request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else request.session_timeout_ms
    return replace(
        member,
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=timeout,
        topics=frozenset(subscription.topics),
        regex="",
        client_id=join.client.id,
        client_host=join.client.host,
        classic=Classic(request.session_timeout_ms, tuple(join.offered.items())),
    )


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    member = group.member_of(member_id, instance_id)
    if member.classic is None:
        raise errors.UnknownMemberIdError(f"Member {member_id} does not use the classic protocol.")
    if generation != member.epoch:
        raise errors.IllegalGenerationError
    return member


def _leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    member_id = identity.member_id
    if identity.group_instance_id is not None and not member_id:
        # an admin removes a static member by its instance id alone
        member_id = group.static.get(identity.group_instance_id, "")
    member = group.member_of(member_id, identity.group_instance_id)
    if member.classic is None:
        raise errors.UnknownMemberIdError(f"Member {member_id} does not use the classic protocol.")
    return member
