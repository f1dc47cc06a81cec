"""Consumer groups: member epochs, revocation before assignment, and fencing."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.coordinator.consumer_world import World, assigned, error, topic_id

from ottla.cluster.image.cluster_image import BrokerImage
from ottla.coordinator.group.common.consumer_member import MemberState
from ottla.coordinator.group.common.group import Committer
from ottla.coordinator.group.consumer import regex
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroupState
from ottla.errors import InvalidRegularExpressionError, KafkaError
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

ALL = {"t": [0, 1, 2, 3, 4, 5]}


def join_in_turn(world: World, *members: str) -> dict[str, Any]:
    """Let members join one after the other. Return the assignment of each at the end."""
    owned: dict[str, Any] = {}
    epochs: dict[str, int] = {}
    for member in members:
        response = world.join(member)
        owned[member], epochs[member] = assigned(response), response.member_epoch
        for _ in range(4):
            for name in owned:
                response = world.heartbeat(name, epochs[name], owned[name])
                epochs[name] = response.member_epoch
                owned[name] = assigned(response) if response.assignment is not None else owned[name]
    return owned


def test_first_member_is_assigned_all_partitions() -> None:
    world = World()
    response = world.join("a")
    assert (error(response), response.member_id, response.member_epoch) == (None, "a", 1)
    assert (assigned(response), response.heartbeat_interval_ms) == (ALL, 5000)
    assert world.group.state_name is ConsumerGroupState.STABLE


def test_heartbeat_without_changes_writes_no_records() -> None:
    world = World()
    world.join("a")
    world.heartbeat("a", 1)
    before = len(world.log)
    response = world.heartbeat("a", 1, ALL)
    assert (response.member_epoch, response.assignment, len(world.log)) == (1, None, before)


def test_partitions_are_revoked_before_they_are_reassigned() -> None:
    world = World()
    world.join("a")
    b = world.join("b")
    assert (b.member_epoch, assigned(b)) == (2, {})
    a = world.heartbeat("a", 1, ALL)
    assert a.member_epoch == 1
    retained = assigned(a)
    assert retained is not None
    assert len(retained["t"]) == 3
    assert assigned(world.heartbeat("b", 2, {})) is None  # a has not revoked them yet
    reconciling = world.group.state_name
    assert reconciling is ConsumerGroupState.RECONCILING
    a = world.heartbeat("a", 1, retained)
    assert (a.member_epoch, a.assignment) == (2, None)
    b = world.heartbeat("b", 2, {})
    taken = assigned(b)
    assert taken is not None
    assert sorted(retained["t"] + taken["t"]) == ALL["t"]
    assert world.group.state_name is ConsumerGroupState.STABLE


def test_member_that_does_not_revoke_in_time_is_removed() -> None:
    world = World()
    world.join("a", rebalance_timeout_ms=10_000)
    world.join("b")
    world.heartbeat("a", 1, ALL)
    for _ in range(3):
        world.pass_time(4_000)
        world.heartbeat("b", 2, {})
    assert error(world.heartbeat("a", 1, ALL)) == "UNKNOWN_MEMBER_ID"
    assert assigned(world.heartbeat("b", 3 if world.group.members["b"].epoch == 3 else 2, {}, **full())) == ALL


def test_new_assignments_do_not_extend_the_time_for_a_revocation() -> None:
    world = World()
    world.join("a", rebalance_timeout_ms=10_000)
    world.join("b")
    world.heartbeat("a", 1, ALL)
    before = world.group.target_of(world.group.members["a"])
    world.pass_time(6_000)
    world.join("c")
    assert world.group.target_of(world.group.members["a"]) != before
    world.heartbeat("a", 1, ALL)
    world.pass_time(6_000)
    assert sorted(world.group.members) == ["b", "c"]


@pytest.mark.parametrize("is_described_again", [False, True])
def test_time_for_a_revocation_begins_again_with_a_restart(is_described_again: bool) -> None:
    world = World()
    world.join("a", rebalance_timeout_ms=10_000)
    world.join("b")
    world.heartbeat("a", 1, ALL)
    if is_described_again:  # compaction then leaves the member's description after its assignment
        world.heartbeat("a", 1, ALL, server_assignor="range")
    world.pass_time(6_000)
    world.restart()
    world.pass_time(9_000)
    assert "a" in world.group.members
    world.pass_time(2_000)
    assert "a" not in world.group.members


def test_broker_with_a_rack_can_restart_without_a_rebalance() -> None:
    world = World()
    without = world.image
    world.image = replace(without, brokers={0: BrokerImage(0, (), "r")}, topics=dict(without.topics))
    world.join("a")
    world.image = replace(without, topics=dict(without.topics))
    assert world.heartbeat("a", 1, ALL).member_epoch == 1


def full() -> dict[str, Any]:
    """Return the fields that make a heartbeat a full request."""
    return {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"]}


def test_timed_out_member_is_removed_and_its_partitions_are_reassigned() -> None:
    world = World()
    join_in_turn(world, "a", "b")
    for _ in range(10):
        world.pass_time(5_000)
        epoch = world.group.members["a"].epoch
        world.heartbeat("a", epoch)
    assert list(world.group.members) == ["a"]
    assert len(world.group.members["a"].assigned) == 6


def test_leave_releases_partitions_and_last_leave_empties_the_group() -> None:
    world = World()
    join_in_turn(world, "a", "b")
    assert world.leave("b").member_epoch == -1
    assert assigned(world.heartbeat("a", world.group.members["a"].epoch, None)) == ALL
    world.leave("a")
    assert (world.group.state_name, world.group.members, world.group.owners) == (ConsumerGroupState.EMPTY, {}, {})


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"group_id": "", "member_id": "a"}, "INVALID_REQUEST"),
        ({"member_id": ""}, "INVALID_REQUEST"),
        ({"rebalance_timeout_ms": -1}, "INVALID_REQUEST"),
        ({"topic_partitions": None}, "INVALID_REQUEST"),
        ({"topic_partitions": [TopicPartitions(topic_id=topic_id("t"), partitions=[1])]}, "INVALID_REQUEST"),
        ({"subscribed_topic_names": None}, "INVALID_REQUEST"),
        ({"instance_id": ""}, "INVALID_REQUEST"),
        ({"rack_id": ""}, "INVALID_REQUEST"),
        ({"member_epoch": -3}, "INVALID_REQUEST"),
        ({"member_epoch": -2}, "INVALID_REQUEST"),
        ({"server_assignor": "none"}, "UNSUPPORTED_ASSIGNOR"),
        ({"subscribed_topic_regex": "(?=x)"}, "INVALID_REGULAR_EXPRESSION"),
        ({"member_epoch": 1}, "GROUP_ID_NOT_FOUND"),
        ({"member_epoch": -1}, "GROUP_ID_NOT_FOUND"),
    ],
)
def test_invalid_request_is_rejected_with_its_error(request_: dict[str, Any], expected: str) -> None:
    request: dict[str, Any] = {
        "group_id": "g",
        "member_id": "a",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    response = World().send_heartbeat(ConsumerGroupHeartbeatRequest(**{**request, **request_}))
    assert error(response) == expected
    assert response.error_message


def test_broker_generates_member_ids_for_version_0_only() -> None:
    world = World()
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert len(world.send_heartbeat(request, 0).member_id or "") == 36
    assert error(world.send_heartbeat(request, 1)) == "INVALID_REQUEST"


def test_member_with_a_wrong_epoch_is_fenced() -> None:
    world = World()
    join_in_turn(world, "a", "b")
    epoch = world.group.members["a"].epoch
    assert error(world.heartbeat("a", epoch + 1, {})) == "FENCED_MEMBER_EPOCH"
    assert error(world.heartbeat("unknown", epoch, {})) == "UNKNOWN_MEMBER_ID"
    assert error(world.heartbeat("a", epoch - 1, ALL)) == "FENCED_MEMBER_EPOCH"


def test_previous_member_epoch_is_accepted_after_a_lost_response() -> None:
    world = World()
    world.join("a")
    world.topics({"t": 6, "u": 1})
    world.heartbeat("a", 1, ALL, subscribed_topic_names=["t", "u"])
    assert world.heartbeat("a", 1, ALL).member_epoch == 2
    assert error(world.heartbeat("a", 1, {"t": [0], "u": [0], "x": [0]})) == "FENCED_MEMBER_EPOCH"
    assert error(world.heartbeat("a", 1)) == "FENCED_MEMBER_EPOCH"


def test_assignment_that_the_member_does_not_report_is_sent_again() -> None:
    world = World(group_consumer_heartbeat_interval_ms=5000)
    world.join("a")
    world.heartbeat("a", 1, ALL)
    world.join("b")
    lost = world.heartbeat("a", 1)  # sent on a connection that the client has closed
    retained = assigned(lost)
    assert retained is not None
    assert len(retained["t"]) == 3
    assert world.heartbeat("a", 1).assignment is None  # it may still be revoking
    world.pass_time(10_000)
    again = world.heartbeat("a", 1)
    assert (again.member_epoch, assigned(again)) == (1, retained)
    assert world.heartbeat("a", 1).assignment is None
    assert world.heartbeat("a", 1, retained).member_epoch == 2
    world.pass_time(10_000)
    assert world.heartbeat("a", 2).assignment is None


def test_member_rejoining_with_epoch_0_gets_its_assignment_again() -> None:
    world = World()
    world.join("a")
    again = world.join("a")
    assert (again.member_epoch, assigned(again)) == (1, ALL)


def test_changed_topics_bump_the_group_epoch() -> None:
    world = World({"t": 1, "u": 1, "other": 1})
    world.join("a", "t,u")
    world.topics({"t": 2, "u": 1, "other": 1})
    response = world.heartbeat("a", 1)
    assert (response.member_epoch, assigned(response)) == (2, {"t": [0, 1], "u": [0]})
    world.topics({"t": 2, "other": 5})
    assert assigned(world.heartbeat("a", 2)) == {"t": [0, 1]}  # to be revoked
    assert world.heartbeat("a", 2, {"t": [0, 1]}).member_epoch == 3
    world.topics({"t": 2, "other": 9})
    assert world.heartbeat("a", 3).member_epoch == 3


def test_topic_created_later_is_assigned() -> None:
    world = World({})
    assert assigned(world.join("a", "t")) == {}
    world.topics({"t": 2})
    assert assigned(world.heartbeat("a", 1, {})) == {"t": [0, 1]}


def test_regex_is_rejected_by_a_broker_without_google_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)  # as on free-threaded Python, for which it has no wheel
    with pytest.raises(InvalidRegularExpressionError, match="lacks google-re2"):
        regex.check("without-re2.*")


def test_regex_matches_whole_topic_names() -> None:
    world = World({"topic1": 1, "topic2": 1, "a-topic": 1})
    assert assigned(world.join("a", None, subscribed_topic_regex="^topic.*")) == {"topic1": [0], "topic2": [0]}
    world.topics({"topic1": 1, "topic3": 1})
    assert assigned(world.heartbeat("a", 1, {"topic1": [0], "topic2": [0]})) == {"topic1": [0]}
    assert assigned(world.heartbeat("a", 1, {"topic1": [0]})) == {"topic1": [0], "topic3": [0]}
    world.heartbeat("a", 2, {}, subscribed_topic_names=["topic1"], subscribed_topic_regex="")
    assert world.group.regexes == {}


def test_assignor_requested_by_most_members_is_used() -> None:
    world = World({"t": 4, "u": 4})
    world.join("a", "t,u", server_assignor="range")
    world.join("b", "t,u", server_assignor="range")
    world.join("c", "t,u", server_assignor="uniform")
    assert world.coordinator.consumer.assignor(world.group)[0] == "range"
    world.leave("a")
    world.leave("b")
    assert world.coordinator.consumer.assignor(world.group)[0] == "uniform"


def test_assignor_is_configured_by_the_class_name_of_kafka() -> None:
    world = World(group_consumer_assignors="org.apache.kafka.coordinator.group.assignor.RangeAssignor")
    assert world.config.group_consumer_assignors == ("range",)
    assert error(world.join("a", server_assignor="uniform")) == "UNSUPPORTED_ASSIGNOR"


def test_join_of_a_full_group_is_rejected() -> None:
    world = World(group_consumer_max_size=1)
    world.join("a")
    assert error(world.join("b")) == "GROUP_MAX_SIZE_REACHED"
    assert error(world.join("a")) is None


def test_group_configs_override_broker_configs_within_limits() -> None:
    world = World()
    options = {"consumer.heartbeat.interval.ms": "7000", "consumer.session.timeout.ms": "99999999"}
    world.topics({"t": 6}, groups__g=options)
    assert world.join("a").heartbeat_interval_ms == 7000
    world.pass_time(59_000)
    assert "a" in world.group.members
    world.pass_time(1_000)
    assert "a" not in world.group.members


def test_next_assignment_waits_for_the_assignment_interval() -> None:
    world = World(group_consumer_assignment_interval_ms=1000)
    assert assigned(world.join("a")) == {"t": [0, 1, 2, 3, 4, 5]}
    response = world.join("b")
    assert (response.member_epoch, assigned(response)) == (1, {})
    assert (world.group.epoch, world.group.target_epoch, world.group.state_name) == (2, 1, "Assigning")
    assert assigned(world.heartbeat("a", 1)) is None
    world.restart()
    world.pass_time(999)
    assert assigned(world.heartbeat("a", 1)) is None
    world.pass_time(1)
    assert len((assigned(world.heartbeat("a", 1)) or {})["t"]) == 3
    assert world.group.target_epoch == 2


def test_assignment_interval_of_the_group_config_applies_within_limits() -> None:
    world = World()
    world.topics({"t": 6}, groups__g={"consumer.assignment.interval.ms": "20000"})
    world.join("a")
    world.join("b")
    world.pass_time(14_999)
    world.heartbeat("a", 1)
    assert world.group.target_epoch == 1
    world.pass_time(1)
    world.heartbeat("a", 1)
    assert world.group.target_epoch == 2


# Static members


def test_static_member_that_rejoins_keeps_its_assignment() -> None:
    world = World()
    join_in_turn(world, "other")
    world.join("a", instance_id="i")
    world.heartbeat("other", 1, ALL)
    retained = assigned(world.heartbeat("other", 1, ALL, **full()))
    world.heartbeat("other", 1, retained)
    previous = assigned(world.heartbeat("a", 2, {}, instance_id="i"))
    assert world.leave("a", -2, instance_id="i").member_epoch == -2
    back = world.join("b", instance_id="i")
    assert (assigned(back), world.group.epoch) == (previous, 2)
    assert "a" not in world.group.members
    assert error(world.heartbeat("a", 2, instance_id="i")) == "FENCED_INSTANCE_ID"


def test_instance_id_of_a_present_static_member_is_not_released() -> None:
    world = World()
    world.join("a", instance_id="i")
    assert error(world.join("b", instance_id="i")) == "UNRELEASED_INSTANCE_ID"
    assert error(world.heartbeat("b", 1, instance_id="unknown")) == "UNKNOWN_MEMBER_ID"


def test_static_member_that_does_not_rejoin_is_removed() -> None:
    world = World()
    world.join("a", instance_id="i")
    world.leave("a", -2, instance_id="i")
    world.pass_time(45_000)
    assert (world.group.members, world.group.static) == ({}, {})


# Records in the log


def test_restart_restores_the_group() -> None:
    world = World({"t": 6, "topic": 2})
    join_in_turn(world, "a", "b")
    world.join("c", None, subscribed_topic_regex="top.*", rack_id="r", instance_id="i", server_assignor="range")
    before = world.group
    world.restart()
    after = world.group
    for attribute in ("epoch", "metadata_hash", "target_epoch", "members", "targets", "regexes", "static", "owners"):
        assert getattr(after, attribute) == getattr(before, attribute), attribute
    assert after.members["a"].state is MemberState.STABLE
    assert after.timers.keys() == {"a", "b", "c"}
    world.pass_time(45_000)
    assert after.members == {}


def test_deleted_group_leaves_only_tombstones() -> None:
    from ottla.coordinator.group.group_coordinator import tombstones

    world = World()
    world.join("a", None, subscribed_topic_regex="t")
    world.leave("a")
    for record in tombstones(world.group):
        world.log.append(record)
        world.coordinator.replay(record.key, record.value, live=True)
    assert world.coordinator.by_id == {}
    assert {r.key for r in world.log if r.value is not None} <= {r.key for r in world.log if r.value is None}
    world.restart()
    assert world.coordinator.by_id == {}


@pytest.mark.parametrize(
    ("committer", "expected"),
    [
        (Committer("a", None, 1), None),
        (Committer("a", None, 2), "STALE_MEMBER_EPOCH"),
        (Committer("a", None, 2, transactional=True), "ILLEGAL_GENERATION"),
        (Committer("b", None, 1), "UNKNOWN_MEMBER_ID"),
        (Committer("", None, -1), "UNKNOWN_MEMBER_ID"),
        (Committer("", None, -1, transactional=True), None),
    ],
)
def test_commit_requires_a_member_with_the_current_epoch(committer: Committer, expected: str | None) -> None:
    world = World()
    world.join("a")
    raised = None
    try:
        world.group.check_commit(committer, 9, 0)
    except KafkaError as exception:
        raised = exception.name
    assert raised == expected


def test_commit_for_an_empty_group_is_accepted() -> None:
    world = World()
    world.join("a")
    world.leave("a")
    world.group.check_commit(Committer("", None, -1), 9, 0)
