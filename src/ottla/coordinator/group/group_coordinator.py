"""Every request about a group's members, sent to where groups of its kind are decided.

`by_id` holds groups of both kinds. A request of the classic protocol goes to a KIP-848 group as long as somebody is in
it; an empty group of either kind makes room for the other.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping

from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker import BrokerConfig
from ottla.coordinator.group.classic import records
from ottla.coordinator.group.classic.classic_group import ClassicGroup, State
from ottla.coordinator.group.classic.classic_groups import NAMED_MEMBERS_SINCE, ClassicGroups, Client
from ottla.coordinator.group.classic.rebalance import join_error
from ottla.coordinator.group.classic_members import ClassicMembers
from ottla.coordinator.group.common.group import Group
from ottla.coordinator.group.consumer import consumer_records
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.consumer.consumer_groups import ConsumerGroups
from ottla.coordinator.group.consumer.consumer_replay import is_known
from ottla.coordinator.group.consumer.group_migration import GroupMigration
from ottla.coordinator.group.share import share_group_records as share_records
from ottla.coordinator.group.share.share_group import ShareGroup
from ottla.coordinator.group.share.share_groups import ShareGroups
from ottla.coordinator.runtime.result import CoordinatorResult, Record, ResponseFuture
from ottla.errors import InconsistentGroupProtocolError, KafkaError, UnknownMemberIdError, code_of
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class GroupCoordinator:
    """The members of all groups of one coordinator."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        image: Callable[[], ClusterImage],
        new_id: Callable[[], str] | None = None,
        by_id: MutableMapping[str, Group] | None = None,
    ) -> None:
        self._clock = clock
        self.by_id: MutableMapping[str, Group] = {} if by_id is None else by_id
        self.classic = ClassicGroups(config, clock, new_id, self.by_id)
        conversion = GroupMigration(config, clock, image, self.classic)
        self.consumer = ConsumerGroups(config, clock, image, self.by_id, conversion)
        self.share = ShareGroups(config, clock, image, self.by_id)
        self._classic_members = ClassicMembers(self.consumer, conversion, clock, image)

    def join(self, request: JoinGroupRequest, version: int, client: Client, token: ResponseFuture) -> CoordinatorResult:
        """JoinGroup."""
        group = self.by_id.get(request.group_id)
        effects = CoordinatorResult()
        if isinstance(group, ShareGroup):
            effects.reply(token, join_error(InconsistentGroupProtocolError(), request.member_id))
            return effects
        if not isinstance(group, ConsumerGroup):
            return self.classic.join(request, version, client, token)
        if group.is_empty and request.member_id:
            effects.reply(token, join_error(UnknownMemberIdError(), request.member_id))
            return effects
        if group.is_empty:
            effects.records += consumer_records.group_tombstones(group)
            del self.by_id[group.id]
            effects.extend(self.classic.join(request, version, client, token))
            return effects
        join = self.classic.join_of(request, version, client, token)
        try:
            self.classic.check_join(request)
            self._classic_members.join(group, join, effects)
        except KafkaError as error:
            effects.reply(token, join_error(error, request.member_id))
        return effects

    def sync(self, request: SyncGroupRequest, token: ResponseFuture) -> CoordinatorResult:
        """SyncGroup."""
        group = self.by_id.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            return self.classic.sync(request, token)
        effects = CoordinatorResult()
        try:
            effects.reply(token, self._classic_members.sync(group, request))
        except KafkaError as error:
            effects.reply(token, SyncGroupResponse(error_code=code_of(error), protocol_name=None))
        return effects

    def heartbeat(self, request: HeartbeatRequest) -> None:
        """Heartbeat: raises what the member has to do about it."""
        group = self.by_id.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            self._classic_members.heartbeat(group, request)
        else:
            self.classic.heartbeat(request)

    def leave(self, request: LeaveGroupRequest, version: int, token: ResponseFuture) -> CoordinatorResult:
        """LeaveGroup."""
        group = self.by_id.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            return self.classic.leave(request, version, token)
        effects = CoordinatorResult()
        old = version < NAMED_MEMBERS_SINCE
        leaving = [MemberIdentity(member_id=request.member_id)] if old else request.members
        results = self._classic_members.leave(group, leaving, effects)
        code = results[0].error_code if old else 0
        effects.reply(token, LeaveGroupResponse(error_code=code, members=[] if old else results))
        return effects

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, version: int, client: Client, token: ResponseFuture
    ) -> CoordinatorResult:
        """ConsumerGroupHeartbeat."""
        return self.consumer.heartbeat(request, version, client, token)

    def share_heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: Client, token: ResponseFuture
    ) -> CoordinatorResult:
        """ShareGroupHeartbeat."""
        return self.share.heartbeat(request, client, token)

    def tick(self, group: Group) -> CoordinatorResult:
        """Do what is due by now."""
        if isinstance(group, ConsumerGroup):
            return self.consumer.tick(group)
        if isinstance(group, ShareGroup):
            return self.share.tick(group)
        assert isinstance(group, ClassicGroup)
        return self.classic.tick(group)

    def send_away(self, group: Group) -> CoordinatorResult:
        """The coordinator closes, or another one takes the group: whoever waits is told that it is elsewhere."""
        if isinstance(group, ConsumerGroup):
            self.consumer.forget_timers(group.id)
        return self.classic.send_away(group) if isinstance(group, ClassicGroup) else CoordinatorResult()

    def replay(self, key: bytes, value: bytes | None, *, live: bool) -> None:
        """Take the record of a group over. A live classic group's own describes what is in memory already."""
        if is_known(key):
            self.consumer.replay(key, value)
            return
        if share_records.is_known(key):
            self.share.replay(key, value)
            return
        found = records.read_key(key)
        if found is None:
            return
        group_id, _ = found
        if value is None:
            group = self.by_id.get(group_id)
            if isinstance(group, ClassicGroup):
                del self.by_id[group_id]
                if live:
                    group.move(State.DEAD)
        elif not live:
            self.by_id[group_id] = records.read_group(group_id, value, self._clock.monotonic())


def tombstones(group: Group) -> list[Record]:
    """What takes a group out of the log."""
    if isinstance(group, ConsumerGroup):
        return consumer_records.group_tombstones(group)
    if isinstance(group, ShareGroup):
        return share_records.group_tombstones(group)
    return [records.group_tombstone(group.id)]
