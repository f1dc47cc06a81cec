"""The records of streams groups in `__consumer_offsets`, in Kafka's format, and their replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ottla.coordinator.group.common.consumer_member import LEAVE_GROUP_EPOCH, MemberState
from ottla.coordinator.group.common.modern_group import apply_epoch, apply_target_epoch
from ottla.coordinator.group.common.record_serde import RecordSerde, RecordType, record
from ottla.coordinator.group.streams import streams_topology
from ottla.coordinator.group.streams.streams_group import StreamsGroup, StreamsMember, UserEndpoint
from ottla.coordinator.group.streams.streams_topology import StreamsTopology
from ottla.coordinator.group.streams.tasks import (
    NO_TASKS,
    TaskId,
    TaskRole,
    Tasks,
    by_subtopology,
    from_message,
    to_message,
)
from ottla.coordinator.runtime.result import CoordinatorRecord
from ottla.protocol.message import Data
from ottla.protocol.messages import streams_group_records as r

STATES: Mapping[MemberState, int] = {MemberState.STABLE: 1, MemberState.UNREVOKED: 2, MemberState.UNRELEASED: 3}
"""Kafka's numbers of member states in the log. They differ from those of consumer groups."""
STATES_BY_NUMBER = {number: state for state, number in STATES.items()}


def epoch_record(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]
) -> CoordinatorRecord:
    """Return the record of the group's epoch, with the metadata hash, validated topology epoch and assignor configs of
    this epoch.
    """
    value = r.StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=[r.LastAssignmentConfig(key=k, value=v) for k, v in sorted(configs.items())],
    )
    return _of_group(r.METADATA_KEY, group_id, value)


def topology_record(group_id: str, topology: StreamsTopology) -> CoordinatorRecord:
    return _of_group(r.TOPOLOGY_KEY, group_id, topology.to_record())


def target_epoch_record(group_id: str, epoch: int, now_ms: int) -> CoordinatorRecord:
    """Return the record of the group epoch for which the target assignment was computed."""
    value = r.StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
    return _of_group(r.TARGET_METADATA_KEY, group_id, value)


def member_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    endpoint = member.user_endpoint
    value = r.StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else r.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[r.KeyValue(key=key, value=tag) for key, tag in member.client_tags],
    )
    return _of_member(r.MEMBER_KEY, group_id, member.id, value)


def target_record(group_id: str, member_id: str, target: Tasks) -> CoordinatorRecord:
    value = r.StreamsGroupTargetAssignmentMemberValue(
        active_tasks=to_message(r.TargetTaskIds, target, TaskRole.ACTIVE),
        standby_tasks=to_message(r.TargetTaskIds, target, TaskRole.STANDBY),
        warmup_tasks=to_message(r.TargetTaskIds, target, TaskRole.WARMUP),
    )
    return _of_member(r.TARGET_MEMBER_KEY, group_id, member_id, value)


def current_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    """Return the record of a member's current assignment."""
    value = r.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=STATES[member.state],
        active_tasks=_with_epochs(member.assigned, member.assignment_epochs),
        standby_tasks=to_message(r.CurrentTaskIds, member.assigned, TaskRole.STANDBY),
        warmup_tasks=to_message(r.CurrentTaskIds, member.assigned, TaskRole.WARMUP),
        active_tasks_pending_revocation=_with_epochs(member.revoking, member.assignment_epochs),
        standby_tasks_pending_revocation=to_message(r.CurrentTaskIds, member.revoking, TaskRole.STANDBY),
        warmup_tasks_pending_revocation=to_message(r.CurrentTaskIds, member.revoking, TaskRole.WARMUP),
    )
    return _of_member(r.CURRENT_MEMBER_KEY, group_id, member.id, value)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    keys = (r.CURRENT_MEMBER_KEY, r.TARGET_MEMBER_KEY, r.MEMBER_KEY)
    return [_of_member(key, group_id, member_id, None) for key in keys]


def group_tombstones(group: StreamsGroup) -> list[CoordinatorRecord]:
    """Return the tombstones of a group. The last one deletes the group."""
    records = [_of_member(r.CURRENT_MEMBER_KEY, group.id, m, None) for m in group.members]
    records += [_of_member(r.TARGET_MEMBER_KEY, group.id, m, None) for m in group.targets]
    records.append(_of_group(r.TARGET_METADATA_KEY, group.id, None))
    records += [_of_member(r.MEMBER_KEY, group.id, m, None) for m in group.members]
    records.append(_of_group(r.TOPOLOGY_KEY, group.id, None))
    records.append(_of_group(r.METADATA_KEY, group.id, None))
    return records


def _with_epochs(tasks: Tasks, epochs: Mapping[TaskId, int]) -> list[r.CurrentTaskIds]:
    return [
        r.CurrentTaskIds(
            subtopology_id=subtopology_id,
            partitions=partitions,
            assignment_epochs=[epochs.get(TaskId(subtopology_id, n), 0) for n in partitions],
        )
        for subtopology_id, partitions in by_subtopology(tasks, TaskRole.ACTIVE)
    ]


def _of_group(number: int, group_id: str, value: Data | None) -> CoordinatorRecord:
    return record(number, r.StreamsGroupMetadataKey(group_id=group_id), value)


def _of_member(number: int, group_id: str, member_id: str, value: Data | None) -> CoordinatorRecord:
    return record(number, r.StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


# Replay


def _apply_group(group: StreamsGroup, key: Any, value: r.StreamsGroupMetadataValue | None) -> None:
    apply_epoch(group, key, value)
    if value is not None:
        group.validated_topology_epoch = value.validated_topology_epoch
        group.assignor_configs = {config.key: config.value for config in value.last_assignment_configs or ()}


def _apply_topology(group: StreamsGroup, _key: Any, value: r.StreamsGroupTopologyValue | None) -> None:
    group.topology = None if value is None else streams_topology.from_record(value)


def _apply_target(group: StreamsGroup, key: Any, value: r.StreamsGroupTargetAssignmentMemberValue | None) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = from_message(value.active_tasks, value.standby_tasks, value.warmup_tasks)


def _apply_member(group: StreamsGroup, key: Any, value: r.StreamsGroupMemberMetadataValue | None) -> None:
    if value is None:
        group.remove(key.member_id)
        return
    endpoint = value.user_endpoint
    group.put(
        replace(
            group.members.get(key.member_id) or StreamsMember(key.member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            user_endpoint=None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
            client_tags=tuple((tag.key, tag.value) for tag in value.client_tags),
        )
    )


def _apply_current(group: StreamsGroup, key: Any, value: r.StreamsGroupCurrentMemberAssignmentValue | None) -> None:
    old = group.members.get(key.member_id)
    if value is None:
        if old is not None:
            group.put(
                replace(
                    old,
                    epoch=LEAVE_GROUP_EPOCH,
                    previous_epoch=LEAVE_GROUP_EPOCH,
                    assigned=NO_TASKS,
                    revoking=NO_TASKS,
                    assignment_epochs={},
                )
            )
        return
    active = (*value.active_tasks, *value.active_tasks_pending_revocation)
    group.put(
        replace(
            old or StreamsMember(key.member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=STATES_BY_NUMBER.get(value.state, MemberState.UNKNOWN),
            assigned=from_message(value.active_tasks, value.standby_tasks, value.warmup_tasks),
            revoking=from_message(
                value.active_tasks_pending_revocation,
                value.standby_tasks_pending_revocation,
                value.warmup_tasks_pending_revocation,
            ),
            assignment_epochs=_epochs(active, value.member_epoch),
        )
    )


def _epochs(active: Iterable[r.CurrentTaskIds], default: int) -> dict[TaskId, int]:
    """Return the assignment epochs of active tasks.

    `default` is the epoch of all tasks of an entry without one epoch per task, as in records of Kafka before 4.2.
    """
    epochs: dict[TaskId, int] = {}
    for entry in active:
        values = entry.assignment_epochs or []
        if len(values) != len(entry.partitions):
            values = [default] * len(entry.partitions)
        tasks = (TaskId(entry.subtopology_id, partition) for partition in entry.partitions)
        epochs |= dict(zip(tasks, values, strict=True))
    return epochs


_TABLE = RecordSerde(
    {
        r.METADATA_KEY: RecordType(r.StreamsGroupMetadataKey, r.StreamsGroupMetadataValue, _apply_group),
        r.MEMBER_KEY: RecordType(r.StreamsGroupMemberMetadataKey, r.StreamsGroupMemberMetadataValue, _apply_member),
        r.TARGET_METADATA_KEY: RecordType(
            r.StreamsGroupMetadataKey, r.StreamsGroupTargetAssignmentMetadataValue, apply_target_epoch
        ),
        r.TARGET_MEMBER_KEY: RecordType(
            r.StreamsGroupMemberMetadataKey, r.StreamsGroupTargetAssignmentMemberValue, _apply_target
        ),
        r.CURRENT_MEMBER_KEY: RecordType(
            r.StreamsGroupMemberMetadataKey, r.StreamsGroupCurrentMemberAssignmentValue, _apply_current
        ),
        r.TOPOLOGY_KEY: RecordType(r.StreamsGroupMetadataKey, r.StreamsGroupTopologyValue, _apply_topology),
    },
    end=r.METADATA_KEY,
)

is_known, group_of, replay = _TABLE.is_known, _TABLE.group_of, _TABLE.replay
