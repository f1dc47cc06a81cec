"""Records of streams groups in the format of Kafka: state numbers, and records of other versions."""

from __future__ import annotations

import pytest

from ottla.coordinator.group.common.consumer_member import MemberState
from ottla.coordinator.group.common.record_serde import record
from ottla.coordinator.group.streams import streams_group_records as records
from ottla.coordinator.group.streams.streams_group import StreamsGroup, StreamsMember
from ottla.coordinator.group.streams.tasks import Task, TaskId, TaskRole
from ottla.protocol.messages import streams_group_records as r
from ottla.protocol.versioned import decode_versioned

TASK = Task(TaskRole.ACTIVE, TaskId("0", 3))


def replayed(value: r.StreamsGroupCurrentMemberAssignmentValue) -> StreamsMember:
    group = StreamsGroup("g")
    key = r.StreamsGroupMemberMetadataKey(group_id="g", member_id="m")
    written = record(r.CURRENT_MEMBER_KEY, key, value)
    records.replay(group, written.key, written.value)
    return group.members["m"]


@pytest.mark.parametrize(
    ("state", "number"), [(MemberState.STABLE, 1), (MemberState.UNREVOKED, 2), (MemberState.UNRELEASED, 3)]
)
def test_member_state_has_the_number_of_kafka(state: MemberState, number: int) -> None:
    member = StreamsMember("m", epoch=2, state=state, assigned=frozenset({TASK}), assignment_epochs={TASK.id: 1})
    written = records.current_record("g", member)
    assert written.value is not None
    value = decode_versioned(r.StreamsGroupCurrentMemberAssignmentValue, written.value)
    assert value.state == number
    assert (value.active_tasks[0].partitions, value.active_tasks[0].assignment_epochs) == ([3], [1])
    again = replayed(value)
    assert (again.state, again.assigned, again.assignment_epochs) == (state, member.assigned, {TASK.id: 1})


def test_member_state_of_a_newer_broker_is_unknown() -> None:
    assert replayed(r.StreamsGroupCurrentMemberAssignmentValue(state=9)).state is MemberState.UNKNOWN


@pytest.mark.parametrize("epochs", [None, [], [1, 2]])
def test_tasks_without_assignment_epochs_have_the_member_epoch(epochs: list[int] | None) -> None:
    tasks = r.CurrentTaskIds(subtopology_id="0", partitions=[3], assignment_epochs=epochs)
    value = r.StreamsGroupCurrentMemberAssignmentValue(member_epoch=5, state=1, active_tasks=[tasks])
    assert replayed(value).assignment_epochs == {TASK.id: 5}
