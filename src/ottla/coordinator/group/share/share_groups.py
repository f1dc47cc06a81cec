"""The share group protocol: heartbeats, leaving and timeouts. Decisions without I/O."""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping
from dataclasses import replace

from ottla import errors
from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.classic_groups import GroupClient
from ottla.coordinator.group.common.consumer_member import JOINING, LEAVE_GROUP_EPOCH, NOTHING, by_topic
from ottla.coordinator.group.common.consumer_topics import ids_of, metadata_hash, sizes_of
from ottla.coordinator.group.common.group import Group
from ottla.coordinator.group.common.group_configs import SHARE
from ottla.coordinator.group.common.modern_group import ModernGroups, check_not_blank, described
from ottla.coordinator.group.share import share_group_records as records
from ottla.coordinator.group.share.share_assignor import assign
from ottla.coordinator.group.share.share_group import ShareGroup, ShareMember
from ottla.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult, ResponseFuture
from ottla.logs import listed
from ottla.protocol.messages import share_group_heartbeat as m

log = logging.getLogger("ottla.coordinator.group")


class ShareGroups(ModernGroups):
    """Handles the heartbeats and timeouts of members of share groups, and replays the records of these groups."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        image: Callable[[], ClusterImage],
        by_id: MutableMapping[str, Group],
    ) -> None:
        super().__init__(SHARE, config, clock, image, by_id)

    def heartbeat(
        self, request: m.ShareGroupHeartbeatRequest, client: GroupClient, future: ResponseFuture
    ) -> CoordinatorResult:
        """Handle ShareGroupHeartbeat: a member joins, stays or leaves."""

        def handle(result: CoordinatorResult) -> m.ShareGroupHeartbeatResponse:
            _check(request)
            if request.member_epoch == LEAVE_GROUP_EPOCH:
                return self._leave(request, result)
            return self._heartbeat(request, client, result)

        return self._respond(future, m.ShareGroupHeartbeatResponse, handle)

    def reset_epoch(self, group_id: str) -> list[CoordinatorRecord]:
        """Return the records that bump a group's epoch before its start offsets are changed, even if the group has
        never had a member.

        Raises NonEmptyGroupError if it has members, and GroupIdNotFoundError if it is a group of another type, unless
        that is a simple classic group.
        """
        group = self._group(group_id, joins=True)
        if group.members:
            raise errors.NonEmptyGroupError(f"Group {group_id} has members.")
        return [records.epoch_record(group_id, group.epoch + 1, metadata_hash(frozenset(), self._image()))]

    def expire(self, group: ShareGroup) -> CoordinatorResult:
        result = CoordinatorResult()
        now = self._clock.monotonic()
        silent = {member_id for member_id, until in group.deadlines.items() if until <= now}
        for member_id in silent:
            del group.deadlines[member_id]
        expired = silent & group.members.keys()
        if expired:
            result.records += self._removed(group, expired, "timed out")
        return result

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply a record, whether just written or read from the log. The sessions of new members start now."""
        group_id = records.group_of(key)
        group = self._by_id.get(group_id)
        if not isinstance(group, ShareGroup):
            if value is None:
                return
            group = self._by_id[group_id] = ShareGroup(group_id)
        done = records.replay(group, key, value)
        if done.is_end:
            del self._by_id[group_id]
        elif done.member_id in group.members and done.member_id not in group.deadlines:
            self._touch(group, done.member_id or "")

    def _heartbeat(
        self, request: m.ShareGroupHeartbeatRequest, client: GroupClient, result: CoordinatorResult
    ) -> m.ShareGroupHeartbeatResponse:
        group = self._group(request.group_id, joins=request.member_epoch == JOINING)
        before = self._member(group, request)
        after = described(before, request, client)
        new, member = self._advance(group, after)
        result.records += new
        self._touch(group, member.id)
        response = m.ShareGroupHeartbeatResponse(
            member_id=member.id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.configs.heartbeat_interval_ms(group.id),
        )
        # with an older epoch, the member has not received the last assignment
        is_behind = request.member_epoch != member.epoch
        if is_behind or request.subscribed_topic_names is not None or member.assigned != before.assigned:
            topics = [m.TopicPartitions(topic_id=t, partitions=p) for t, p in by_topic(member.assigned)]
            response.assignment = m.Assignment(topic_partitions=topics)
        return response

    def _advance(self, group: ShareGroup, after: ShareMember) -> tuple[list[CoordinatorRecord], ShareMember]:
        """Return the records of a heartbeat, and the member after it.

        If members or topics have changed, bump the epoch. If the epoch has no target assignment yet, and `may_assign`
        allows it, compute one.
        """
        image = self._image()
        before = group.members.get(after.id)
        written: list[CoordinatorRecord] = []
        if before is None or before.description != after.description:
            written.append(records.member_record(group.id, after))
        members = {**group.members, after.id: after}
        epoch, target_epoch, targets = group.epoch, group.target_epoch, group.targets
        changed = before is None or before.topics != after.topics
        if changed or image.topics is not group.evaluated_topics or group.epoch > group.target_epoch:
            names = frozenset().union(*(member.topics for member in members.values()))
            new_hash = metadata_hash(names, image)
            if changed or new_hash != group.metadata_hash:
                epoch += 1
                written.append(records.epoch_record(group.id, epoch, new_hash))
                reason = f"{after.label} joins" if before is None else "subscriptions or topics changed"
                _log_rebalance(group.id, epoch, len(members), reason)
            if epoch > target_epoch and self.may_assign(group):
                topics = {member.id: ids_of(member.topics, image) for member in members.values()}
                targets = assign(topics, sizes_of(names, image))
                new = {key: target for key, target in targets.items() if group.targets.get(key) != target}
                written += [records.target_record(group.id, member_id, target) for member_id, target in new.items()]
                written.append(records.target_epoch_record(group.id, epoch, self._clock.now_ms()))
                target_epoch = epoch
            if not written:
                group.evaluated_topics = image.topics
        target = targets.get(after.id, NOTHING)
        if (after.epoch, after.assigned) != (target_epoch, target):
            after = replace(after, previous_epoch=after.epoch, epoch=target_epoch, assigned=target)
            written.append(records.current_record(group.id, after))
        return written, after

    def _group(self, group_id: str, *, joins: bool) -> ShareGroup:
        group = self._by_id.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        if joins and (group is None or (isinstance(group, ClassicGroup) and group.is_simple)):
            return ShareGroup(group_id)
        raise errors.GroupIdNotFoundError(f"Group {group_id} is not a share group.")

    def _member(self, group: ShareGroup, request: m.ShareGroupHeartbeatRequest) -> ShareMember:
        if request.member_epoch != JOINING:
            member = group.member(request.member_id)
            member.check_epoch(request.member_epoch)
            return member
        size = self._config.group_share_max_size
        if request.member_id not in group.members and len(group.members) >= size:
            raise errors.GroupMaxSizeReachedError(
                f"The share group has reached its maximum capacity of {size} members."
            )
        return group.members.get(request.member_id) or ShareMember(request.member_id)

    def _leave(self, request: m.ShareGroupHeartbeatRequest, result: CoordinatorResult) -> m.ShareGroupHeartbeatResponse:
        group = self._group(request.group_id, joins=False)
        result.records += self._removed(group, {group.member(request.member_id).id}, "left")
        return m.ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=LEAVE_GROUP_EPOCH)

    def _removed(self, group: ShareGroup, removed: set[str], verb: str) -> list[CoordinatorRecord]:
        left = len(group.members) - len(removed)
        labels = listed([group.members[member_id].label for member_id in sorted(removed)])
        _log_rebalance(group.id, group.epoch + 1, left, f"{labels} {verb}")
        others = [member.topics for member in group.members.values() if member.id not in removed]
        new_hash = metadata_hash(frozenset().union(*others), self._image())
        tombstones = [
            record for member_id in sorted(removed) for record in records.member_tombstones(group.id, member_id)
        ]
        return [*tombstones, records.epoch_record(group.id, group.epoch + 1, new_hash)]

    def _touch(self, group: ShareGroup, member_id: str) -> None:
        group.deadlines[member_id] = self._clock.monotonic() + self.configs.session_timeout_ms(group.id) / 1000


def _log_rebalance(group_id: str, epoch: int, members: int, reason: str) -> None:
    log.info("Rebalancing share group %s: epoch=%d members=%d: %s", group_id, epoch, members, reason)


def _check(request: m.ShareGroupHeartbeatRequest) -> None:
    check_not_blank(GroupId=request.group_id, MemberId=request.member_id, RackId=request.rack_id)
    if request.member_epoch == JOINING and not request.subscribed_topic_names:
        raise errors.InvalidRequestError("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE_GROUP_EPOCH:
        raise errors.InvalidRequestError("MemberEpoch is invalid.")
