"""Streams groups: members, epochs, topologies, tasks, statuses and records."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.coordinator.consumer_world import error
from tests.unit.coordinator.streams_world import (
    STATEFUL,
    STATELESS,
    WORD_COUNT,
    StreamsWorld,
    statuses,
    subtopology,
    tasks_by_subtopology,
    tasks_in,
    topic_info,
    topology,
)

from ottla.coordinator.group.common.group import Committer
from ottla.coordinator.group.group_coordinator import tombstones
from ottla.coordinator.group.streams.configured_topology import StatusCode
from ottla.coordinator.group.streams.tasks import TaskRole
from ottla.errors import IllegalGenerationError, KafkaError, StaleMemberEpochError, UnknownMemberIdError
from ottla.model import TopicPartition
from ottla.protocol.messages import streams_group_heartbeat as m
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

ALL = {"0": [0, 1, 2, 3]}


def test_single_member_is_assigned_all_tasks() -> None:
    world = StreamsWorld()
    response = world.start("a")
    assert (response.member_epoch, tasks_in(response.active_tasks), tasks_in(response.standby_tasks)) == (2, ALL, {})
    assert response.heartbeat_interval_ms == 5000
    assert world.streams.state_name == "Stable"
    assert tasks_in(world.run("a", 2).active_tasks) is None


def test_task_is_reassigned_after_its_owner_has_revoked_it() -> None:
    world = StreamsWorld()
    world.start("a")
    assert tasks_in(world.start("b").active_tasks) == {}
    assert tasks_in(world.run("a", 2, ALL).active_tasks) == {"0": [0, 1]}  # a has not revoked the others yet
    assert world.streams.state_name == "Reconciling"
    assert tasks_in(world.run("b", 3, {}).active_tasks) is None
    assert world.run("a", 2, {"0": [0, 1]}).member_epoch == 3
    assert tasks_in(world.run("b", 3, {}).active_tasks) == {"0": [2, 3]}
    assert world.streams.state_name == "Stable"


def test_group_is_not_ready_until_its_topics_exist() -> None:
    world = StreamsWorld({})
    response = world.start("a", WORD_COUNT)
    assert (statuses(response), tasks_in(response.active_tasks)) == ([StatusCode.MISSING_SOURCE_TOPICS], {})
    assert world.streams.state_name == "NotReady"
    assert world.coordinator.streams.missing_topics("g") == {}
    world.topics({"t": 2})
    assert statuses(world.run("a", response.member_epoch)) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert {*world.coordinator.streams.missing_topics("g")} == {"g-repartition", "g-changelog"}
    world.create_missing()
    response = world.run("a", world.streams.members["a"].epoch)
    assert (statuses(response), tasks_in(response.active_tasks)) == ([], {"0": [0, 1], "1": [0, 1]})
    assert world.streams.state_name == "Stable"
    assert world.coordinator.streams.missing_topics("g") == {}


def test_group_loses_its_tasks_when_a_source_topic_is_deleted() -> None:
    world = StreamsWorld()
    world.start("a")
    world.topics({})
    response = world.run("a", 2, ALL)
    assert (statuses(response), tasks_in(response.active_tasks)) == ([StatusCode.MISSING_SOURCE_TOPICS], {})
    world.topics({"t": 5})
    assert tasks_in(world.run("a", 2, {}).active_tasks) == {"0": [0, 1, 2, 3, 4]}


def test_first_assignment_waits_for_the_initial_rebalance_delay() -> None:
    world = StreamsWorld(group_streams_initial_rebalance_delay_ms=3000)
    response = world.start("a")
    assert (response.member_epoch, tasks_in(response.active_tasks), statuses(response)) == (
        1,
        {},
        [StatusCode.ASSIGNMENT_DELAYED],
    )
    assert statuses(world.start("b")) == [StatusCode.ASSIGNMENT_DELAYED]
    world.pass_time(2999)
    assert world.streams.targets == {}
    world.pass_time(1)
    responses = [world.run(member, 1, {}) for member in "ab"]
    assert [tasks_in(response.active_tasks) for response in responses] == [{"0": [0, 2]}, {"0": [1, 3]}]
    assert [statuses(response) for response in responses] == [[], []]


def test_next_assignment_waits_for_the_assignment_interval() -> None:
    world = StreamsWorld(group_streams_assignment_interval_ms=1000)
    world.start("a")
    assert statuses(world.start("b")) == [StatusCode.ASSIGNMENT_DELAYED]
    assert tasks_in(world.run("a", 2, ALL).active_tasks) is None
    world.pass_time(1000)
    assert tasks_in(world.run("a", 2, ALL).active_tasks) == {"0": [0, 1]}


def test_num_standby_replicas_of_the_group_config_assigns_standby_tasks() -> None:
    world = StreamsWorld({"t": 2, "g-changelog": 2})
    world.start("a", STATEFUL)
    world.start("b", STATEFUL)
    world.topics({"t": 2, "g-changelog": 2}, groups__g={"streams.num.standby.replicas": "1"})
    for _ in range(4):
        for member in world.streams.members.values():
            assigned = member.assigned
            world.run(
                member.id,
                member.epoch,
                tasks_by_subtopology(assigned),
                tasks_by_subtopology(assigned, TaskRole.STANDBY),
            )
    roles = {
        m.id: (tasks_by_subtopology(m.assigned), tasks_by_subtopology(m.assigned, TaskRole.STANDBY))
        for m in world.streams.members.values()
    }
    assert roles == {"a": ({"0": [0]}, {"0": [1]}), "b": ({"0": [1]}, {"0": [0]})}
    assert world.streams.assignor_configs == {"num.standby.replicas": "1"}


def test_standby_task_becomes_active_after_its_process_has_closed_it() -> None:
    world = StreamsWorld({"t": 2, "g-changelog": 2}, group_streams_num_standby_replicas=1)
    world.start("a", STATEFUL)
    world.start("b", STATEFUL)
    for _ in range(4):
        for member in world.streams.members.values():
            assigned = member.assigned
            world.run(
                member.id,
                member.epoch,
                tasks_by_subtopology(assigned),
                tasks_by_subtopology(assigned, TaskRole.STANDBY),
            )
    world.run("b", -1)
    epoch = world.streams.members["a"].epoch
    response = world.run("a", epoch, {"0": [0]}, {"0": [1]})
    assert (tasks_in(response.active_tasks), tasks_in(response.standby_tasks)) == ({"0": [0]}, {})
    assert tasks_in(world.run("a", epoch, {"0": [0]}, {}).active_tasks) == {"0": [0, 1]}


def test_member_that_leaves_or_times_out_is_removed() -> None:
    world = StreamsWorld()
    world.start("a")
    world.start("b")
    assert world.run("b", -1).member_epoch == -1
    assert tasks_in(world.run("a", 2, ALL).active_tasks) is None
    world.pass_time(45_000)
    assert world.streams.state_name == "Empty"
    assert (world.streams.targets, world.streams.active_owners, world.streams.timers) == ({}, {}, {})
    assert error(world.run("a", 4)) == "UNKNOWN_MEMBER_ID"


def test_member_that_does_not_revoke_in_time_is_removed() -> None:
    world = StreamsWorld()
    world.start("a", rebalance_timeout_ms=10_000)
    world.start("b")
    world.run("a", 2, ALL)
    world.pass_time(9_999)
    assert "a" in world.streams.members
    world.pass_time(1)
    assert [*world.streams.members] == ["b"]
    assert tasks_in(world.run("b", 3, {}).active_tasks) == ALL


def test_response_to_the_previous_epoch_is_repeated_and_other_epochs_are_fenced() -> None:
    world = StreamsWorld()
    world.start("a")
    world.start("b")
    world.run("a", 2, ALL)
    world.run("a", 2, {"0": [0, 1]})
    assert world.run("a", 2, {"0": [0]}).member_epoch == 3
    assert tasks_in(world.run("a", 3, {"0": [0]}, rebalance_timeout_ms=60_000).active_tasks) == {"0": [0, 1]}
    assert error(world.run("a", 2, {"0": [3]})) == "FENCED_MEMBER_EPOCH"
    assert error(world.run("a", 2)) == "FENCED_MEMBER_EPOCH"
    assert error(world.run("a", 9)) == "FENCED_MEMBER_EPOCH"


def test_stale_topology_is_reported_and_conflicting_topology_is_rejected() -> None:
    world = StreamsWorld({"t": 1, "u": 1})
    current = topology(subtopology("0", "t"), epoch=3)
    world.start("a", current)
    response = world.start("b", topology(subtopology("0", "u"), epoch=2))
    assert statuses(response) == [StatusCode.STALE_TOPOLOGY]
    assert response.status is not None
    assert response.status[0].status_detail == "The member's topology epoch 2 is behind the group's topology epoch 3."
    assert error(world.start("c", topology(subtopology("0", "u"), epoch=3))) == "INVALID_REQUEST"
    assert [*world.streams.members] == ["a", "b"]
    assert statuses(world.start("c", current)) == []


def test_application_shutdown_is_sent_to_members_until_the_group_is_empty() -> None:
    world = StreamsWorld()
    world.start("a")
    world.start("b")
    world.run("b", -1, shutdown_application=True)
    response = world.run("a", 2)
    assert statuses(response) == [StatusCode.SHUTDOWN_APPLICATION]
    assert response.status is not None
    assert "Streams group member b encountered a fatal error" in response.status[0].status_detail
    world.run("a", -1)
    assert statuses(world.start("c")) == []


def test_user_endpoints_list_the_partitions_of_their_members() -> None:
    world = StreamsWorld({"t": 2})
    response = world.start("a", user_endpoint=m.Endpoint(host="h", port=80))
    assert response.endpoint_information_epoch == 1
    assert response.partitions_by_user_endpoint == [
        m.EndpointToPartitions(
            user_endpoint=m.Endpoint(host="h", port=80),
            active_partitions=[m.TopicPartition(topic="t", partitions=[0, 1])],
        )
    ]
    assert world.run("a", 2, endpoint_information_epoch=1).partitions_by_user_endpoint is None
    assert world.start("b").partitions_by_user_endpoint is not None


def test_user_endpoint_lists_only_partitions_that_exist() -> None:
    world = StreamsWorld({"t": 3, "u": 1})
    response = world.start("a", topology(subtopology("0", "t u")), user_endpoint=m.Endpoint(host="h", port=80))
    assert response.partitions_by_user_endpoint is not None
    assert [(tp.topic, tp.partitions) for tp in response.partitions_by_user_endpoint[0].active_partitions] == [
        ("t", [0, 1, 2]),
        ("u", [0]),
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"member_id": ""}, "INVALID_REQUEST"),
        ({"rebalance_timeout_ms": -1}, "INVALID_REQUEST"),
        ({"topology": None}, "INVALID_REQUEST"),
        ({"active_tasks": None}, "INVALID_REQUEST"),
        ({"active_tasks": [m.TaskIds(subtopology_id="0", partitions=[0])]}, "INVALID_REQUEST"),
        ({"instance_id": "i"}, "INVALID_REQUEST"),
        ({"task_offsets": []}, "INVALID_REQUEST"),
        ({"member_epoch": -2}, "INVALID_REQUEST"),
        ({"member_epoch": -3}, "INVALID_REQUEST"),
        ({"member_epoch": 1, "topology": None}, "GROUP_ID_NOT_FOUND"),
        ({"member_epoch": 1}, "INVALID_REQUEST"),
        ({"topology": topology(subtopology("0", "t"), epoch=-1)}, "STREAMS_INVALID_TOPOLOGY"),
        ({"topology": topology(subtopology("0", repartitions=[topic_info("r")]))}, "STREAMS_INVALID_TOPOLOGY"),
    ],
)
def test_invalid_request_is_rejected_with_its_error(changes: dict[str, Any], expected: str) -> None:
    fields: dict[str, Any] = {"topology": STATELESS, "rebalance_timeout_ms": 60_000, "member_epoch": 0}
    fields |= {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    world = StreamsWorld()
    response = world.send_streams_heartbeat(
        m.StreamsGroupHeartbeatRequest(**{"group_id": "g", "member_id": "a", **fields, **changes})
    )
    assert error(response) == expected
    assert "g" not in world.coordinator.by_id
    assert world.coordinator.streams._transient == {}


def test_changelog_with_partitions_regex_and_unknown_tasks_are_rejected() -> None:
    world = StreamsWorld()
    changelog = subtopology("0", "t")
    changelog.state_changelog_topics = [topic_info("c", 3)]
    assert error(world.start("a", topology(changelog))) == "STREAMS_INVALID_TOPOLOGY"
    matching = subtopology("0")
    matching.source_topic_regex = ["t.*"]
    assert error(world.start("a", topology(matching))) == "INVALID_REQUEST"
    world.start("a")
    assert error(world.run("a", 2, {"9": [0]})) == "INVALID_REQUEST"
    assert error(world.run("a", 2, {"0": [4]})) == "INVALID_REQUEST"


def test_full_group_rejects_new_members() -> None:
    world = StreamsWorld(group_streams_max_size=1)
    world.start("a")
    assert error(world.start("b")) == "GROUP_MAX_SIZE_REACHED"
    assert error(world.start("a")) is None


def test_commit_with_epoch_older_than_the_task_assignment_is_rejected() -> None:
    world = StreamsWorld()
    world.start("a")
    world.start("b")
    world.run("a", 2, ALL)
    world.run("a", 2, {"0": [0, 1]})  # a has 0 and 1 since epoch 2, and is in 3; b gets 2 and 3 in 3
    world.run("b", 3, {})

    def commit(member: str, epoch: int, *partitions: int, transactional: bool = False, version: int = 9) -> None:
        tps = [TopicPartition("t", n) for n in partitions]
        world.streams.check_commit(Committer(member, None, epoch, transactional, tps), version, 0)

    commit("a", 3, 0)
    commit("a", 2, 0, 1)
    commit("b", 3, 2)
    for member, epoch, partitions in (("a", 2, [2]), ("a", 1, [0]), ("a", 4, [0]), ("b", 2, [2])):
        with pytest.raises(StaleMemberEpochError):
            commit(member, epoch, *partitions)
    with pytest.raises(IllegalGenerationError):
        commit("b", 2, 2, transactional=True)
    with pytest.raises(UnknownMemberIdError):
        commit("", -1, 0)
    with pytest.raises(KafkaError, match="OffsetCommit 9"):
        commit("a", 3, 0, version=8)
    world.streams.check_fetch("a", 3)
    world.streams.check_fetch(None, -1)
    with pytest.raises(StaleMemberEpochError):
        world.streams.check_fetch("a", 2)
    assert world.streams.subscribed()("t")
    world.run("a", -1)
    world.run("b", -1)
    commit("", -1, 0)
    assert not world.streams.subscribed()("t")


def test_restart_restores_members_tasks_and_topology() -> None:
    world = StreamsWorld()
    world.start("a", user_endpoint=m.Endpoint(host="h", port=80), client_tags=[m.KeyValue(key="k", value="v")])
    world.start("b", rack_id="r")
    world.run("a", 2, ALL)
    before = world.streams
    world.restart()
    after = world.streams
    assert (after.epoch, after.members, after.targets) == (before.epoch, before.members, before.targets)
    assert after.topology == before.topology
    assert after.state_name == "Reconciling"
    assert world.run("a", 2, {"0": [0, 1]}).member_epoch == 3
    world.pass_time(45_000)
    assert world.streams.members == {}


def test_deleted_group_is_not_restored_and_may_change_its_topology() -> None:
    world = StreamsWorld()
    world.start("a")
    world.run("a", -1)
    for record in tombstones(world.streams):
        world.coordinator.replay(record.key, record.value, live=True)
        world.log.append(record)
    assert "g" not in world.coordinator.by_id
    world.restart()
    assert "g" not in world.coordinator.by_id
    assert tasks_in(world.start("a", WORD_COUNT).active_tasks) == {}  # another topology is allowed now


def test_empty_group_changes_between_streams_and_classic_protocol() -> None:
    world = StreamsWorld()
    world.start("a")

    def join() -> Any:
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        request = JoinGroupRequest(
            group_id="g", protocol_type="consumer", session_timeout_ms=10_000, protocols=[protocol]
        )
        future = object()
        world.apply(world.coordinator.join(request, 3, world.client, future))
        return future

    assert error(world.responses[join()]) == "INCONSISTENT_GROUP_PROTOCOL"
    world.run("a", -1)
    assert error(world.responses[join()]) is None
    assert world.classic.members
    assert error(world.start("a")) == "GROUP_ID_NOT_FOUND"
    world.pass_time(10_000)
    world.pass_time(0)
    assert tasks_in(world.start("a").active_tasks) == ALL
    world.restart()
    assert [*world.streams.members] == ["a"]
