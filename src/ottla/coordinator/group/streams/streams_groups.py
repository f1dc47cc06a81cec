"""The streams group protocol (KIP-1071): heartbeats, leaving and timeouts. Decisions without I/O.

A heartbeat has up to five steps: update the member; set the group's topology; compare the topology with the cluster's
topics; compute a target assignment for a new epoch; move the member towards its target. Kafka's `GroupMetadataManager`.
The broker creates the internal topics that are missing (`missing_topics`).

As in Kafka 4.3, members are not static, a group's topology never changes, and topics are not selected by regular
expressions. A member reports no task offsets, and the assignor assigns no warm-up tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import replace
from typing import Any

from ottla import errors
from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.group.classic import records as classic_records
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.classic_groups import GroupClient
from ottla.coordinator.group.common.consumer_member import (
    JOINING,
    LEAVE_GROUP_EPOCH,
    LEAVE_GROUP_STATIC_EPOCH,
    MemberState,
)
from ottla.coordinator.group.common.group import Group
from ottla.coordinator.group.common.group_configs import STREAMS
from ottla.coordinator.group.common.member_timers import TimedGroups
from ottla.coordinator.group.common.modern_group import check_not_blank
from ottla.coordinator.group.streams import streams_group_records as records
from ottla.coordinator.group.streams import streams_topology
from ottla.coordinator.group.streams.configured_topology import (
    ConfiguredTopology,
    InternalTopic,
    StatusCode,
    configure,
)
from ottla.coordinator.group.streams.endpoints import endpoints
from ottla.coordinator.group.streams.streams_group import (
    NOT_VALIDATED,
    StreamsGroup,
    StreamsMember,
    TransientState,
    UserEndpoint,
)
from ottla.coordinator.group.streams.streams_group_update import STANDBY_REPLICAS, StreamsGroupUpdate
from ottla.coordinator.group.streams.streams_topology import StreamsTopology
from ottla.coordinator.group.streams.tasks import NO_TASKS, TaskRole, Tasks, from_message, to_message
from ottla.coordinator.runtime.deadline_queue import NEVER
from ottla.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult, ResponseFuture
from ottla.logs import listed
from ottla.protocol.messages import streams_group_heartbeat as m

log = logging.getLogger("ottla.coordinator.group")


class StreamsGroups(TimedGroups):
    """Handles the heartbeats and timeouts of members of streams groups, and replays the records of these groups."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        image: Callable[[], ClusterImage],
        by_id: MutableMapping[str, Group],
    ) -> None:
        super().__init__(STREAMS, config, clock, image, by_id)
        self._transient: dict[str, TransientState] = {}

    def heartbeat(
        self, request: m.StreamsGroupHeartbeatRequest, client: GroupClient, future: ResponseFuture
    ) -> CoordinatorResult:
        """Handle StreamsGroupHeartbeat: a member joins, stays or leaves."""

        def handle(result: CoordinatorResult) -> m.StreamsGroupHeartbeatResponse:
            _check_supported(request)
            _check(request)
            if request.member_epoch == LEAVE_GROUP_EPOCH:
                return self._leave(request, result)
            return self._heartbeat(request, client, result)

        return self._respond(future, m.StreamsGroupHeartbeatResponse, handle)

    def missing_topics(self, group_id: str) -> Mapping[str, InternalTopic]:
        """Return the internal topics to create for a group, by name."""
        group = self._by_id.get(group_id)
        if not isinstance(group, StreamsGroup) or group.topology is None:
            return {}
        return self._configured(group).missing

    def expire(self, group: StreamsGroup) -> CoordinatorResult:
        """Remove members whose session or revocation has timed out; assign tasks at the end of the initial delay."""
        result = CoordinatorResult()
        update = StreamsGroupUpdate(group, self._image(), self._clock.now_ms())
        self._remove(update, self._timed_out(group), "timed out")
        if group.transient.delayed_until <= self._clock.monotonic():
            group.transient.delayed_until = NEVER
            if update.group.members and update.group.epoch > update.group.target_epoch:
                update.set_targets(self._configured(update.group))
        result.records += update.records
        return result

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply a record, whether just written or read from the log. The timers of new members start now."""
        group_id = records.group_of(key)
        group = self._by_id.get(group_id)
        if not isinstance(group, StreamsGroup):
            if value is None:
                return
            if isinstance(group, ClassicGroup) and not group.is_simple:
                raise errors.IllegalStateError(f"group {group_id} is a classic group")
            group = self._by_id[group_id] = StreamsGroup(
                group_id, timers=self.timers_of(group_id), transient=self._transient_of(group_id)
            )
        done = records.replay(group, key, value)
        if done.is_end:
            del self._by_id[group_id]
            self.forget(group_id)
            return
        if not group.members:
            group.transient.shutdown_requested_by = None
        if done.member_id in group.members:
            self._start_timers(group, group.members[done.member_id])

    def forget(self, group_id: str) -> None:
        """Drop the timers and the transient state of a group, which are not in the log."""
        self.remove_timers(group_id)
        self._transient.pop(group_id, None)

    def _transient_of(self, group_id: str) -> TransientState:
        return self._transient.setdefault(group_id, TransientState())

    def _heartbeat(
        self, request: m.StreamsGroupHeartbeatRequest, client: GroupClient, result: CoordinatorResult
    ) -> m.StreamsGroupHeartbeatResponse:
        update = self._update_for(request)
        group, joins = update.original, request.member_epoch == JOINING
        before = self._member(group, request)
        owned = _owned(request)
        changed = update.set_member(_described(before, request, client))
        changed |= _set_topology(update, request.topology)
        configured = self._configured(update.group)
        _check_tasks(configured, owned)
        self._bump_if_changed(update, configured, changed, f"member {before.id} ({client.host})")
        if group.is_empty and group.transient.delayed_until == NEVER:
            self._delay_first_assignment(group)
        statuses = _stale_status(update.group, before.id)
        target = self._target(update, before.id, configured, statuses)
        member = update.advance(before.id, target, owned)
        self._transient.setdefault(group.id, group.transient)
        timers = self.renew_session(group.id, member.id, self.configs.session_timeout_ms(group.id))
        if request.shutdown_application:
            self._request_shutdown(group, member.id)
        result.records += update.records
        response = self._response(update.group, member, statuses, configured)
        changed = joins or member.assigned != before.assigned
        is_new, interval_ms = changed or _is_full_request(request), response.heartbeat_interval_ms
        if self.sends_assignment(timers, owned, member.assigned, interval_ms, is_new=is_new):
            _set_tasks(response, member)
        if changed and member.user_endpoint is not None:
            group.transient.endpoint_epoch += 1
        if group.transient.endpoint_epoch != request.endpoint_information_epoch:
            response.partitions_by_user_endpoint = endpoints(update.group, configured, self._image())
        response.endpoint_information_epoch = group.transient.endpoint_epoch
        return response

    def _response(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        statuses: list[m.Status],
        configured: ConfiguredTopology,
    ) -> m.StreamsGroupHeartbeatResponse:
        if configured.problem is not None:
            statuses.append(_status(configured.problem.code, configured.problem.detail))
        if group.transient.shutdown_requested_by is not None:
            detail = (
                f"Streams group member {group.transient.shutdown_requested_by} encountered a fatal error and requested "
                "a shutdown for the entire application."
            )
            statuses.append(_status(StatusCode.SHUTDOWN_APPLICATION, detail))
        return m.StreamsGroupHeartbeatResponse(
            member_id=member.id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.configs.heartbeat_interval_ms(group.id),
            status=statuses,
        )

    def _update_for(self, request: m.StreamsGroupHeartbeatRequest) -> StreamsGroupUpdate:
        group_id = request.group_id
        group = self._by_id.get(group_id)
        before: list[CoordinatorRecord] = []
        if group is None and request.member_epoch != JOINING:
            raise errors.GroupIdNotFoundError(f"Streams group {group_id} not found.")
        if request.member_epoch == JOINING and isinstance(group, ClassicGroup) and group.is_empty:
            before = [] if group.is_simple else [classic_records.group_tombstone(group_id)]
            group = None
        if group is None:
            # the group's transient state is stored only when the request is accepted
            group = StreamsGroup(group_id, transient=self._transient.get(group_id) or TransientState())
        if not isinstance(group, StreamsGroup):
            raise errors.GroupIdNotFoundError(f"Group {group_id} is not a streams group.")
        return StreamsGroupUpdate(group, self._image(), self._clock.now_ms(), before)

    def _member(self, group: StreamsGroup, request: m.StreamsGroupHeartbeatRequest) -> StreamsMember:
        if request.member_epoch != JOINING:
            member = group.member(request.member_id)
            _check_epoch(member, request.member_epoch, _owned(request))
            return member
        size = self._config.group_streams_max_size
        if request.member_id not in group.members and len(group.members) >= size:
            raise errors.GroupMaxSizeReachedError(
                f"The streams group has reached its maximum capacity of {size} members."
            )
        return group.members.get(request.member_id) or StreamsMember(request.member_id)

    def _configured(self, group: StreamsGroup) -> ConfiguredTopology:
        """Return the result of `configure` for the group's topology and the cluster's current topics."""
        assert group.topology is not None
        image, configured = self._image(), group.transient.configured
        if configured is None or not configured.is_of(group.topology, image):
            configured = configure(group.topology, image)
            if configured.problem is not None:
                log.info("Streams group %s cannot run yet: %s", group.id, configured.problem.detail)
            group.transient.configured = configured
        return configured

    def _bump_if_changed(
        self, update: StreamsGroupUpdate, configured: ConfiguredTopology, changed: bool, member: str
    ) -> None:
        """Bump the epoch if members, topology, topics or configs have changed since the last epoch."""
        group = update.group
        validated = configured.topology.epoch if configured.is_ready else NOT_VALIDATED
        configs = {STANDBY_REPLICAS: str(self.configs.standby_replicas(group.id))}
        after = (configured.metadata_hash, validated, configs)
        if changed or after != (group.metadata_hash, group.validated_topology_epoch, group.assignor_configs):
            update.bump_epoch(*after)
            _log_rebalance(update.group, f"{member} joins or changes" if changed else "topics or configs have changed")

    def _delay_first_assignment(self, group: StreamsGroup) -> None:
        delay_ms = self.configs.initial_rebalance_delay_ms(group.id)
        if delay_ms > 0:
            group.transient.delayed_until = self._clock.monotonic() + delay_ms / 1000

    def _target(
        self, update: StreamsGroupUpdate, member_id: str, configured: ConfiguredTopology, statuses: list[m.Status]
    ) -> Tasks:
        """Return the target assignment of a member; no tasks during the initial delay.

        If the group's targets are for an earlier epoch, and `may_assign` allows it, compute them first. If an
        assignment is delayed, add a status.
        """
        group = update.group
        if group.transient.delayed_until != NEVER:
            statuses.append(_delayed("initial rebalance delay"))
            return NO_TASKS
        if group.epoch > group.target_epoch:
            if self.may_assign(group):
                update.set_targets(configured)
            else:
                statuses.append(_delayed("assignment interval"))
        return update.group.targets.get(member_id, NO_TASKS)

    def _leave(
        self, request: m.StreamsGroupHeartbeatRequest, result: CoordinatorResult
    ) -> m.StreamsGroupHeartbeatResponse:
        group = self._by_id.get(request.group_id)
        if not isinstance(group, StreamsGroup):
            raise errors.GroupIdNotFoundError(f"Group {request.group_id} is not a streams group.")
        member = group.member(request.member_id)
        if request.shutdown_application:
            self._request_shutdown(group, member.id)
        update = StreamsGroupUpdate(group, self._image(), self._clock.now_ms())
        self._remove(update, {member.id}, "left")
        result.records += update.records
        return m.StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)

    def _remove(self, update: StreamsGroupUpdate, member_ids: set[str], verb: str) -> None:
        if not member_ids:
            return
        labels = listed([update.group.members[member_id].label for member_id in sorted(member_ids)])
        for member_id in sorted(member_ids):
            update.remove(member_id)
        update.bump_epoch()
        _log_rebalance(update.group, f"{labels} {verb}")

    def _request_shutdown(self, group: StreamsGroup, member_id: str) -> None:
        if group.transient.shutdown_requested_by is None:
            log.info("Member %s requests the shutdown of streams group %s", member_id, group.id)
            group.transient.shutdown_requested_by = member_id

    def _start_timers(self, group: StreamsGroup, member: StreamsMember) -> None:
        timers = group.timers.get(member.id)
        if timers is None:
            timers = self.renew_session(group.id, member.id, self.configs.session_timeout_ms(group.id))
        must_revoke = member.state is MemberState.UNREVOKED
        self._limit_revocation(timers, member.revoking if must_revoke else None, member.rebalance_timeout_ms)


def _log_rebalance(group: StreamsGroup, reason: str) -> None:
    log.info("Rebalancing streams group %s: epoch=%d members=%d: %s", group.id, group.epoch, len(group.members), reason)


def _check_supported(request: m.StreamsGroupHeartbeatRequest) -> None:
    """Raise InvalidRequestError if the request uses features that neither Ottla nor Kafka 4.3 supports."""
    if request.instance_id is not None:
        raise errors.InvalidRequestError("Static membership is not yet supported.")
    if request.task_offsets is not None:
        raise errors.InvalidRequestError("TaskOffsets are not supported yet.")
    if request.task_end_offsets is not None:
        raise errors.InvalidRequestError("TaskEndOffsets are not supported yet.")
    if request.warmup_tasks:
        raise errors.InvalidRequestError("WarmupTasks are not supported yet.")
    if request.topology is not None and any(s.source_topic_regex for s in request.topology.subtopologies):
        raise errors.InvalidRequestError("Regular expressions for source topics are not supported yet.")


def _check(request: m.StreamsGroupHeartbeatRequest) -> None:
    check_not_blank(MemberId=request.member_id, GroupId=request.group_id, RackId=request.rack_id)
    epoch = request.member_epoch
    if epoch == JOINING:
        _check_join(request)
    elif epoch == LEAVE_GROUP_STATIC_EPOCH:
        raise errors.InvalidRequestError("InstanceId can't be null.")
    elif epoch < LEAVE_GROUP_STATIC_EPOCH:
        raise errors.InvalidRequestError(f"MemberEpoch is {epoch}, but must be greater than or equal to -2.")
    elif request.topology is not None:
        raise errors.InvalidRequestError("Topology can only be provided when (re-)joining.")
    lists = [tasks is None for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks)]
    if any(lists) and not all(lists):
        raise errors.InvalidRequestError("If one task-type is non-null, all must be non-null.")


def _check_join(request: m.StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise errors.InvalidRequestError("RebalanceTimeoutMs must be provided in first request.")
    roles = {"Active": request.active_tasks, "Standby": request.standby_tasks, "Warmup": request.warmup_tasks}
    for role, tasks in roles.items():
        if tasks is None or tasks:
            raise errors.InvalidRequestError(f"{role}Tasks must be empty when (re-)joining.")
    if request.topology is None:
        raise errors.InvalidRequestError("Topology must be non-null when (re-)joining.")
    for subtopology in request.topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                raise errors.StreamsInvalidTopologyError(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}."
                )
    if request.topology.epoch < 0:
        raise errors.StreamsInvalidTopologyError("Topology epoch must be non-negative.")


def _check_epoch(member: StreamsMember, epoch: int, owned: Tasks | None) -> None:
    if epoch == member.epoch:
        return
    # The response with the newer epoch may have been lost. That is safe if the member only has tasks that are assigned
    # to it.
    response_lost = epoch < member.epoch and epoch == member.previous_epoch
    if response_lost and owned is not None and owned <= member.assigned:
        return
    size = "greater" if epoch > member.epoch else "smaller"
    raise errors.FencedMemberEpochError(
        f"The streams group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin."
    )


def _check_tasks(configured: ConfiguredTopology, owned: Tasks | None) -> None:
    """Raise InvalidRequestError for tasks that the topology does not have, if it is ready."""
    if not configured.is_ready:
        return
    for _, (subtopology_id, partition) in owned or ():
        subtopology = configured.subtopologies.get(subtopology_id)
        if subtopology is None:
            raise errors.InvalidRequestError(f"Subtopology {subtopology_id} does not exist in the topology.")
        if not 0 <= partition < subtopology.tasks:
            raise errors.InvalidRequestError(
                f"Task {partition} for subtopology {subtopology_id} is invalid. Number of tasks for this subtopology: "
                f"{subtopology.tasks}"
            )


def _owned(request: m.StreamsGroupHeartbeatRequest) -> Tasks | None:
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return from_message(request.active_tasks, request.standby_tasks, request.warmup_tasks)


def _described(member: StreamsMember, request: m.StreamsGroupHeartbeatRequest, client: GroupClient) -> StreamsMember:
    """Return the member updated by the fields of a heartbeat.

    Fields that are not set in the request are not changed.
    """
    endpoint, tags = request.user_endpoint, request.client_tags
    sent: dict[str, Any] = {
        "rack_id": request.rack_id,
        "rebalance_timeout_ms": None if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
        "topology_epoch": None if request.topology is None else request.topology.epoch,
        "process_id": request.process_id,
        "user_endpoint": None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
        "client_tags": None if tags is None else tuple(sorted((tag.key, tag.value) for tag in tags)),
    }
    changes = {name: value for name, value in sent.items() if value is not None}
    return replace(member, client_id=client.id, client_host=client.host, **changes)


def _set_topology(update: StreamsGroupUpdate, sent: m.Topology | None) -> bool:
    """Set the group's topology if it has none, and return whether it was set.

    Raises InvalidRequestError if the request's topology differs from the group's and is not older.
    """
    if sent is None:
        return False
    topology, current = streams_topology.from_heartbeat(sent), update.group.topology
    if current is None:
        update.set_topology(topology)
        return True
    if topology.epoch >= current.epoch and not _equal(topology, current):
        raise errors.InvalidRequestError("Topology updates are not supported yet.")
    return False


def _equal(one: StreamsTopology, other: StreamsTopology) -> bool:
    return one.epoch == other.epoch and one.subtopologies == other.subtopologies


def _stale_status(group: StreamsGroup, member_id: str) -> list[m.Status]:
    topology, member = group.topology, group.members[member_id]
    if topology is None or member.topology_epoch >= topology.epoch:
        return []
    detail = (
        f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch {topology.epoch}."
    )
    return [_status(StatusCode.STALE_TOPOLOGY, detail)]


def _status(code: StatusCode, detail: str) -> m.Status:
    return m.Status(status_code=code, status_detail=detail)


def _delayed(reason: str) -> m.Status:
    return _status(StatusCode.ASSIGNMENT_DELAYED, f"Assignment delayed due to the configured {reason}.")


def _is_full_request(request: m.StreamsGroupHeartbeatRequest) -> bool:
    """Return whether the request has a rebalance timeout and the owned tasks.

    Members send such a request when they join, and after an error, because a response with new tasks may be lost.
    """
    return request.rebalance_timeout_ms != -1 and _owned(request) is not None


def _set_tasks(response: m.StreamsGroupHeartbeatResponse, member: StreamsMember) -> None:
    response.active_tasks = to_message(m.TaskIds, member.assigned, TaskRole.ACTIVE)
    response.standby_tasks = to_message(m.TaskIds, member.assigned, TaskRole.STANDBY)
    response.warmup_tasks = to_message(m.TaskIds, member.assigned, TaskRole.WARMUP)
