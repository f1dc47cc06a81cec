"""The consumer group protocol (`group.protocol=consumer`): heartbeats, leaving and timeouts. Decisions without I/O.

A heartbeat has up to three steps. First the member is updated, and the group epoch bumped if members or topics have
changed. Then a target assignment is computed for a new epoch. Then the member moves towards its target. Kafka's
`GroupMetadataManager`; KIP-848, KIP-1082.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, MutableMapping
from dataclasses import replace

from ottla import errors
from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.classic_groups import GroupClient
from ottla.coordinator.group.common.consumer_member import (
    JOINING,
    LEAVE_GROUP_EPOCH,
    LEAVE_GROUP_STATIC_EPOCH,
    NOTHING,
    Assignment,
    ConsumerMember,
    MemberState,
    by_topic,
    flatten,
)
from ottla.coordinator.group.common.group import Group
from ottla.coordinator.group.common.group_configs import CONSUMER
from ottla.coordinator.group.common.member_timers import TimedGroups
from ottla.coordinator.group.common.modern_group import check_not_blank, described
from ottla.coordinator.group.consumer import regex
from ottla.coordinator.group.consumer.assignors.spec import Assignor
from ottla.coordinator.group.consumer.assignors.table import ASSIGNORS
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.consumer.consumer_group_update import ConsumerGroupUpdate, RegexVisibility
from ottla.coordinator.group.consumer.consumer_records import group_of, replay
from ottla.coordinator.group.consumer.group_migration import GroupMigration
from ottla.coordinator.runtime.result import CoordinatorResult, ResponseFuture
from ottla.logs import listed
from ottla.protocol.messages import consumer_group_heartbeat as m

OWN_IDS_SINCE = 1
"""First ConsumerGroupHeartbeat version in which members create their own ids (KIP-1082)."""


log = logging.getLogger("ottla.coordinator.group")


class ConsumerGroups(TimedGroups):
    """Handles the heartbeats and timeouts of members of consumer groups, and replays the records of these groups.

    `ClassicMembers` handles requests of the classic protocol.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        image: Callable[[], ClusterImage],
        by_id: MutableMapping[str, Group],
        migration: GroupMigration,
    ) -> None:
        super().__init__(CONSUMER, config, clock, image, by_id)
        self._migration = migration
        self._hides_topics = bool(config.authorizer_class_name)

    def heartbeat(
        self, request: m.ConsumerGroupHeartbeatRequest, version: int, client: GroupClient, future: ResponseFuture
    ) -> CoordinatorResult:
        """Handle ConsumerGroupHeartbeat: a member joins, stays or leaves."""

        def handle(result: CoordinatorResult) -> m.ConsumerGroupHeartbeatResponse:
            self._check(request, version)
            if request.member_epoch in (LEAVE_GROUP_EPOCH, LEAVE_GROUP_STATIC_EPOCH):
                return self._leave(request, result)
            return self._heartbeat(request, client, result)

        return self._respond(future, m.ConsumerGroupHeartbeatResponse, handle)

    def expire(self, group: ConsumerGroup) -> CoordinatorResult:
        """Remove members whose session has expired, or that have not revoked partitions in time, or have not sent
        JoinGroup or SyncGroup in time.
        """
        result = CoordinatorResult()
        self.remove(group, self._timed_out(group), result, "timed out")
        return result

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply a record, whether just written or read from the log. The timers of new members start now."""
        group_id = group_of(key)
        group = self._by_id.get(group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                self._timers.pop(group_id, None)
                return
            if isinstance(group, ClassicGroup) and not group.is_simple:
                raise errors.IllegalStateError(f"group {group_id} is a classic group")
            group = self._by_id[group_id] = ConsumerGroup(group_id, timers=self.timers_of(group_id))
        done = replay(group, key, value)
        if done.is_end:
            del self._by_id[group_id]
            self._timers.pop(group_id, None)
        elif done.member_id in group.members:
            self._start_timers(group, group.members[done.member_id])

    def begin_update(self, group: ConsumerGroup) -> ConsumerGroupUpdate:
        return ConsumerGroupUpdate(group, self._image(), self._clock.now_ms())

    def check_capacity(self, group: ConsumerGroup, member_id: str) -> None:
        """Raise GroupMaxSizeReachedError if the group is full and `member_id` is not a member."""
        size = self._config.group_consumer_max_size
        if len(group.members) >= size and member_id not in group.members:
            raise errors.GroupMaxSizeReachedError(
                f"The consumer group has reached its maximum capacity of {size} members."
            )

    def static_member(
        self, update: ConsumerGroupUpdate, instance_id: str, member_id: str, *, classic: bool
    ) -> ConsumerMember:
        """Return the static member that joins: the existing member with this id, a new one, or one that replaces the
        previous member with this instance id. `classic`: whether it joins with the classic protocol.

        Raises UnreleasedInstanceIdError if neither member uses the classic protocol and the previous one has not left.
        """
        owner = update.group.static.get(instance_id)
        if owner is None or owner == member_id:
            return update.group.members.get(member_id) or ConsumerMember(member_id)
        old = update.group.members[owner]
        if not classic and old.classic is None and old.epoch != LEAVE_GROUP_STATIC_EPOCH:
            raise errors.UnreleasedInstanceIdError(
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
                f"instance id is owned by {owner} member."
            )
        return update.replace(old, member_id)

    def advance(
        self,
        update: ConsumerGroupUpdate,
        after: ConsumerMember,
        owned: Assignment | None,
        may_describe: Callable[[str], bool] | None = None,
    ) -> ConsumerMember:
        """Perform the steps of a heartbeat, and return the member after them. A target assignment is computed only if
        the epoch is newer than that of the last one, and `may_assign` allows it.

        `owned`: the partitions that the member reports to own. `may_describe`: whether its client may describe a topic,
        for brokers with an authorizer; None then means that it may describe no topic.
        """
        before = update.group.members.get(after.id)
        update.set_member(after)
        if self._has_changed(update, before, after, may_describe):
            update.bump_epoch()
            _log_rebalance(update.group, _reason(before, after))
        if update.group.epoch > update.group.target_epoch and self.may_assign(update.group):
            update.set_targets(self.assignor(update.group)[1])
        return update.advance(after.id, owned)

    def _has_changed(
        self,
        update: ConsumerGroupUpdate,
        before: ConsumerMember | None,
        after: ConsumerMember,
        may_describe: Callable[[str], bool] | None,
    ) -> bool:
        """Resolve regular expressions if that is due. Return whether the member is new, or its subscription or the
        hash of the subscribed topics has changed.
        """
        image, max_age_ms = self._image(), self._config.group_consumer_regex_refresh_interval_ms
        visibility = RegexVisibility(after.regex, may_describe or _may_describe_nothing) if self._hides_topics else None
        key = "" if visibility is None else visibility.expression
        changed = before is None or (before.topics, before.regex) != (after.topics, after.regex)
        is_due = changed or update.original.evaluated_topics.get(key) is not image.topics
        if is_due or (visibility is not None and update.is_outdated(visibility, max_age_ms)):
            changed |= (
                update.refresh_regexes(max_age_ms)
                if visibility is None
                else update.refresh_regex(visibility, max_age_ms)
            )
            if not changed and not update.records:
                update.original.evaluated_topics[key] = image.topics
        return changed

    def assignor(self, group: ConsumerGroup) -> tuple[str, Assignor]:
        """Return the name and function of the assignor in group.consumer.assignors that the most members request.

        In case of a tie, the first one in the list wins.
        """
        offered = self._config.group_consumer_assignors
        votes = [member.assignor for member in group.members.values() if member.assignor in offered]
        name = max(offered, key=votes.count)
        return name, ASSIGNORS[name]

    def remove(self, group: ConsumerGroup, member_ids: set[str], result: CoordinatorResult, verb: str = "left") -> None:
        """Remove members, and bump the group epoch; or convert the group to a classic one if that is possible
        (`GroupMigration.can_downgrade`). `verb`: for the log.
        """
        if not member_ids:
            return
        if self._migration.can_downgrade(group, member_ids):
            self._migration.downgrade(group, member_ids, result)
            return
        update = self.begin_update(group)
        removed = listed([group.members[member_id].label for member_id in sorted(member_ids)])
        for member_id in sorted(member_ids):
            update.remove(member_id)
        if self._hides_topics:
            # other expressions are resolved at heartbeats of members that may describe the topics
            update.remove_unused_regexes()
        else:
            update.refresh_regexes(self._config.group_consumer_regex_refresh_interval_ms)
        update.bump_epoch()
        _log_rebalance(update.group, f"{removed} {verb}")
        result.records += update.records

    def _check(self, request: m.ConsumerGroupHeartbeatRequest, version: int) -> None:
        epoch = request.member_epoch
        check_not_blank(GroupId=request.group_id, InstanceId=request.instance_id, RackId=request.rack_id)
        if version >= OWN_IDS_SINCE or epoch > JOINING or epoch == LEAVE_GROUP_EPOCH:
            check_not_blank(MemberId=request.member_id)
        if epoch == JOINING:
            _check_join(request)
        elif epoch == LEAVE_GROUP_STATIC_EPOCH:
            if request.instance_id is None:
                raise errors.InvalidRequestError("InstanceId can't be null.")
        elif epoch < LEAVE_GROUP_STATIC_EPOCH:
            raise errors.InvalidRequestError("MemberEpoch is invalid.")
        offered = self._config.group_consumer_assignors
        if request.server_assignor is not None and request.server_assignor not in offered:
            raise errors.UnsupportedAssignorError(
                f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(offered)}."
            )
        if request.subscribed_topic_regex:
            regex.check(request.subscribed_topic_regex)

    def _heartbeat(
        self, request: m.ConsumerGroupHeartbeatRequest, client: GroupClient, result: CoordinatorResult
    ) -> m.ConsumerGroupHeartbeatResponse:
        update = self._update_for(request)
        group_id, joins = request.group_id, request.member_epoch == JOINING
        self.check_capacity(update.group, request.member_id)
        member_id = request.member_id or str(uuid.uuid4())
        owned = None if request.topic_partitions is None else flatten(request.topic_partitions)
        before = self._member(update, request, member_id, owned)
        member = self.advance(update, _described(before, request, client), owned, client.may_describe)
        timers = self.renew_session(group_id, member_id, self.configs.session_timeout_ms(group_id))
        result.records += update.records
        upgraded = self._by_id.get(group_id)
        if isinstance(upgraded, ClassicGroup):
            self._migration.interrupt(upgraded, result)
        interval_ms = self.configs.heartbeat_interval_ms(group_id)
        response = m.ConsumerGroupHeartbeatResponse(
            member_id=member_id, member_epoch=member.epoch, heartbeat_interval_ms=interval_ms
        )
        is_new = joins or _is_full_request(request) or member.assigned != before.assigned
        if self.sends_assignment(timers, owned, member.assigned, interval_ms, is_new=is_new):
            topics = [m.TopicPartitions(topic_id=t, partitions=p) for t, p in by_topic(member.assigned)]
            response.assignment = m.Assignment(topic_partitions=topics)
        return response

    def _update_for(self, request: m.ConsumerGroupHeartbeatRequest) -> ConsumerGroupUpdate:
        group_id = request.group_id
        group = self._by_id.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self.begin_update(group)
        if request.member_epoch != JOINING:
            raise errors.GroupIdNotFoundError(f"Consumer group {group_id} not found.")
        if group is None:
            return self.begin_update(ConsumerGroup(group_id))
        if not isinstance(group, ClassicGroup):
            raise errors.GroupIdNotFoundError(f"Group {group_id} is not a consumer group.")
        new, written = self._migration.upgrade(group)
        return ConsumerGroupUpdate(new, self._image(), self._clock.now_ms(), written)

    def _member(
        self,
        update: ConsumerGroupUpdate,
        request: m.ConsumerGroupHeartbeatRequest,
        member_id: str,
        owned: Assignment | None,
    ) -> ConsumerMember:
        if request.member_epoch == JOINING:
            if request.instance_id is not None:
                return self.static_member(update, request.instance_id, member_id, classic=False)
            return update.group.members.get(member_id) or ConsumerMember(member_id)
        member = update.group.member_of(member_id, request.instance_id)
        _check_epoch(member, request.member_epoch, owned)
        return member

    def _leave(
        self, request: m.ConsumerGroupHeartbeatRequest, result: CoordinatorResult
    ) -> m.ConsumerGroupHeartbeatResponse:
        group = self._by_id.get(request.group_id)
        if not isinstance(group, ConsumerGroup):
            raise errors.GroupIdNotFoundError(f"Group {request.group_id} is not a consumer group.")
        member = group.member_of(request.member_id, request.instance_id)
        if request.member_epoch == LEAVE_GROUP_STATIC_EPOCH:
            update = self.begin_update(group)
            update.set_current(
                replace(member, epoch=LEAVE_GROUP_STATIC_EPOCH, state=MemberState.STABLE, revoking=NOTHING)
            )
            result.records += update.records
        else:
            self.remove(group, {member.id}, result)
        return m.ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

    def _start_timers(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        timers = group.timers.get(member.id)
        if timers is None:
            timeout_ms = self.configs.session_timeout_ms(group.id)
            timers = self.renew_session(
                group.id, member.id, member.classic.session_timeout_ms if member.classic else timeout_ms
            )
        must_revoke = member.state is MemberState.UNREVOKED and member.classic is None
        self._limit_revocation(timers, member.revoking if must_revoke else None, member.rebalance_timeout_ms)


def _log_rebalance(group: ConsumerGroup, reason: str) -> None:
    log.info(
        "Rebalancing consumer group %s: epoch=%d members=%d: %s",
        group.id,
        group.epoch,
        len(group.members),
        reason,
    )


def _reason(before: ConsumerMember | None, after: ConsumerMember) -> str:
    if before is None:
        return f"{after.label} joins"
    if (before.topics, before.regex) != (after.topics, after.regex):
        return f"{after.label} subscribes to other topics"
    return "the subscribed topics have changed"


def _may_describe_nothing(_: str) -> bool:
    return False


def _check_join(request: m.ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise errors.InvalidRequestError("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise errors.InvalidRequestError("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise errors.InvalidRequestError(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def _check_epoch(member: ConsumerMember, epoch: int, owned: Assignment | None) -> None:
    if epoch == member.epoch:
        return
    # The response with the newer epoch may have been lost. That is safe if the member only has partitions that are
    # assigned to it.
    answer_lost = epoch < member.epoch and epoch == member.previous_epoch
    if answer_lost and owned is not None and owned <= member.assigned:
        return
    raise errors.FencedMemberEpochError(
        f"The consumer group member has epoch {epoch}, not the one known by the group coordinator ({member.epoch}). "
        "The member must abandon all its partitions and rejoin."
    )


def _described(member: ConsumerMember, request: m.ConsumerGroupHeartbeatRequest, client: GroupClient) -> ConsumerMember:
    timeout, expression = request.rebalance_timeout_ms, request.subscribed_topic_regex
    return described(
        member,
        request,
        client,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout == -1 else timeout,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        regex=member.regex if expression is None else expression,
        classic=None,
    )


def _is_full_request(request: m.ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether the request has a rebalance timeout, a subscription and the owned partitions.

    Members send such a request when they join, and after an error, because a response may be lost.
    """
    subscribed = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribed and request.topic_partitions is not None
