"""Passes requests of group members to the handlers of the group's type. Kafka's `GroupCoordinator`.

`ClassicMembers` handles requests of the classic protocol to consumer groups. An empty classic group is replaced when a
consumer or streams member joins, and an empty consumer or streams group when a classic member joins.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping

from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.group.classic import records
from ottla.coordinator.group.classic.classic_group import ClassicGroup, ClassicGroupState
from ottla.coordinator.group.classic.classic_groups import NAMED_MEMBERS_SINCE, ClassicGroups, GroupClient
from ottla.coordinator.group.classic.rebalance import join_error
from ottla.coordinator.group.classic_members import ClassicMembers
from ottla.coordinator.group.common.group import Group
from ottla.coordinator.group.consumer import consumer_records
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.consumer.consumer_groups import ConsumerGroups
from ottla.coordinator.group.consumer.consumer_records import is_known
from ottla.coordinator.group.consumer.group_migration import GroupMigration
from ottla.coordinator.group.share import share_group_records as share_records
from ottla.coordinator.group.share.share_group import ShareGroup
from ottla.coordinator.group.share.share_groups import ShareGroups
from ottla.coordinator.group.streams import streams_group_records as streams_records
from ottla.coordinator.group.streams.streams_group import StreamsGroup
from ottla.coordinator.group.streams.streams_groups import StreamsGroups
from ottla.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult, ResponseFuture
from ottla.errors import InconsistentGroupProtocolError, KafkaError, UnknownMemberIdError, code_of
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class GroupCoordinator:
    """Handles the requests of members for all groups of one broker. `by_id` holds groups of all types."""

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
        migration = GroupMigration(config, clock, image, self.classic)
        self.consumer = ConsumerGroups(config, clock, image, self.by_id, migration)
        self.share = ShareGroups(config, clock, image, self.by_id)
        self.streams = StreamsGroups(config, clock, image, self.by_id)
        self._classic_members = ClassicMembers(self.consumer, migration, clock, image)

    def join(
        self, request: JoinGroupRequest, version: int, client: GroupClient, future: ResponseFuture
    ) -> CoordinatorResult:
        group = self.by_id.get(request.group_id)
        result = CoordinatorResult()
        if isinstance(group, ShareGroup) or (isinstance(group, StreamsGroup) and not group.is_empty):
            result.respond(future, join_error(InconsistentGroupProtocolError(), request.member_id))
            return result
        if not isinstance(group, ConsumerGroup | StreamsGroup):
            return self.classic.join(request, version, client, future)
        try:
            self.classic.check_join(request)
            if not group.is_empty:
                assert isinstance(group, ConsumerGroup)
                self._classic_members.join(group, self.classic.pending_join(request, version, client, future), result)
            elif request.member_id:
                raise UnknownMemberIdError
            else:
                result.records += tombstones(group)
                result.replaced = self.by_id.pop(group.id)
                result.extend(self.classic.join(request, version, client, future))
        except KafkaError as error:
            result.respond(future, join_error(error, request.member_id))
        return result

    def sync(self, request: SyncGroupRequest, future: ResponseFuture) -> CoordinatorResult:
        group = self.by_id.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            return self.classic.sync(request, future)
        result = CoordinatorResult()
        try:
            result.respond(future, self._classic_members.sync(group, request))
        except KafkaError as error:
            result.respond(future, SyncGroupResponse(error_code=code_of(error), protocol_name=None))
        return result

    def heartbeat(self, request: HeartbeatRequest) -> None:
        """Handle Heartbeat.

        Raises RebalanceInProgressError if the member has to join again, or another error if the request does not come
        from a current member.
        """
        group = self.by_id.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            self._classic_members.heartbeat(group, request)
        else:
            self.classic.heartbeat(request)

    def leave(self, request: LeaveGroupRequest, version: int, future: ResponseFuture) -> CoordinatorResult:
        group = self.by_id.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            return self.classic.leave(request, version, future)
        result = CoordinatorResult()
        old = version < NAMED_MEMBERS_SINCE
        leaving = [MemberIdentity(member_id=request.member_id)] if old else request.members
        results = self._classic_members.leave(group, leaving, result)
        code = results[0].error_code if old else 0
        result.respond(future, LeaveGroupResponse(error_code=code, members=[] if old else results))
        return result

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, version: int, client: GroupClient, future: ResponseFuture
    ) -> CoordinatorResult:
        return self.consumer.heartbeat(request, version, client, future)

    def share_heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: GroupClient, future: ResponseFuture
    ) -> CoordinatorResult:
        return self.share.heartbeat(request, client, future)

    def streams_heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client: GroupClient, future: ResponseFuture
    ) -> CoordinatorResult:
        return self.streams.heartbeat(request, client, future)

    def expire(self, group: Group) -> CoordinatorResult:
        if isinstance(group, ConsumerGroup):
            return self.consumer.expire(group)
        if isinstance(group, ShareGroup):
            return self.share.expire(group)
        if isinstance(group, StreamsGroup):
            return self.streams.expire(group)
        assert isinstance(group, ClassicGroup)
        return self.classic.expire(group)

    def unload(self, group: Group) -> CoordinatorResult:
        """Drop the state that the handlers keep for a group, such as timers.

        Return the responses that fail the waiting JoinGroup and SyncGroup requests of a classic group.
        """
        if isinstance(group, ConsumerGroup):
            self.consumer.remove_timers(group.id)
        if isinstance(group, StreamsGroup):
            self.streams.forget(group.id)
        return self.classic.unload(group) if isinstance(group, ClassicGroup) else CoordinatorResult()

    def replay(self, key: bytes, value: bytes | None, *, live: bool) -> None:
        """Apply a record of a group.

        `live`: this broker has just appended the record. A classic group in memory then already has the change, unless
        the record deletes it.
        """
        if is_known(key):
            self.consumer.replay(key, value)
            return
        if share_records.is_known(key):
            self.share.replay(key, value)
            return
        if streams_records.is_known(key):
            self.streams.replay(key, value)
            return
        decoded_key = records.read_key(key)
        if decoded_key is None:
            return
        group_id, _ = decoded_key
        if value is None:
            group = self.by_id.get(group_id)
            if isinstance(group, ClassicGroup):
                del self.by_id[group_id]
                if live:
                    group.transition_to(ClassicGroupState.DEAD)
        elif not live:
            self.by_id[group_id] = records.read_group(group_id, value, self._clock.monotonic())


def tombstones(group: Group) -> list[CoordinatorRecord]:
    if isinstance(group, ConsumerGroup):
        return consumer_records.group_tombstones(group)
    if isinstance(group, ShareGroup):
        return share_records.group_tombstones(group)
    if isinstance(group, StreamsGroup):
        return streams_records.group_tombstones(group)
    return [records.group_tombstone(group.id)]
