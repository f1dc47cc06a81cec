"""Migration of groups between the classic and the consumer protocol, member by member."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.coordinator.consumer_world import CLIENT, World, assigned, error, topic_id

from ottla.coordinator.group.classic.classic_group import ClassicGroupState
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.errors import KafkaError
from ottla.model import TopicIdPartition
from ottla.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ottla.protocol.versioned import decode_versioned, encode_versioned

Parts = dict[str, list[int]]
ALL = {"t": [0, 1, 2, 3, 4, 5]}


def subscription(topics: str, owned: Parts | None = None) -> bytes:
    partitions = [TopicPartitions(topic=t, partitions=p) for t, p in (owned or {}).items()]
    return encode_versioned(ConsumerProtocolSubscription(topics=topics.split(","), owned_partitions=partitions), 1)


def assignment(parts: Parts) -> bytes:
    topics = [TopicPartitions(topic=t, partitions=p) for t, p in parts.items()]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=topics), 1)


class Mixed(World):
    """A coordinator whose members may also use the classic protocol."""

    def classic_join(self, member: str = "", owned: Parts | None = None, **more: Any) -> JoinGroupResponse | None:
        token = object()
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=member,
            group_instance_id=more.pop("instance", None),
            protocol_type=more.pop("kind", "consumer"),
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=more.get("metadata", subscription("t", owned)))
                for name in more.get("protocols", "range").split(",")
            ],
        )
        self.apply(self.coordinator.join(request, more.get("version", 3), CLIENT, token))
        self.pending = token
        return self.responses.get(token)

    def classic_sync(self, joined: JoinGroupResponse, assignments: dict[str, Parts] | None = None) -> SyncGroupResponse:
        token = object()
        request = SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=m, assignment=assignment(p))
                for m, p in (assignments or {}).items()
            ],
        )
        self.apply(self.coordinator.sync(request, token))
        response = self.responses[token]
        assert isinstance(response, SyncGroupResponse)
        return response

    def classic_heartbeat(self, member: str, generation: int) -> str | None:
        try:
            self.coordinator.heartbeat(HeartbeatRequest(group_id="g", member_id=member, generation_id=generation))
        except KafkaError as exception:
            return exception.name
        return None

    def classic_leave(self, *members: str) -> list[int]:
        token = object()
        request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=m) for m in members])
        self.apply(self.coordinator.leave(request, 3, token))
        return [m.error_code for m in self.responses[token].members]

    def create_classic_group(self) -> str:
        """Create a stable classic group of one member with all partitions. Return the member's id."""
        joined = self.classic_join()
        assert joined is not None
        self.classic_sync(joined, {joined.member_id: ALL})
        assert self.classic.state is ClassicGroupState.STABLE
        return joined.member_id


def parts(response: SyncGroupResponse) -> Parts:
    decoded = decode_versioned(ConsumerProtocolAssignment, response.assignment)
    return {t.topic: t.partitions for t in decoded.assigned_partitions}


def create_mixed_group(world: Mixed) -> tuple[str, JoinGroupResponse]:
    """Create a stable group of a classic member and `new`. Return the classic one's id and last join."""
    old = world.create_classic_group()
    world.join("new")
    assert world.classic_heartbeat(old, 1) == "REBALANCE_IN_PROGRESS"
    joined = world.classic_join(old, owned=ALL)
    assert joined is not None
    retained = parts(world.classic_sync(joined))
    # the classic member has not reported yet that it has revoked the others
    assert world.classic_heartbeat(old, 1) == "REBALANCE_IN_PROGRESS"
    joined = world.classic_join(old, owned=retained)
    assert joined is not None
    assert parts(world.classic_sync(joined)) == retained
    assert assigned(world.heartbeat("new", 2, {})) is not None
    assert world.classic_heartbeat(old, joined.generation_id) is None
    return old, joined


def test_consumer_group_heartbeat_upgrades_a_classic_group() -> None:
    world = Mixed()
    old = world.create_classic_group()
    response = world.join("new")
    assert (error(response), response.member_epoch, assigned(response)) == (None, 2, {})
    member = world.group.members[old]
    assert member.classic is not None
    assert (member.epoch, len(member.assigned)) == (1, 6)
    assert len(world.group.targets[old]) == 3


def test_classic_member_revokes_before_a_consumer_member_is_assigned() -> None:
    world = Mixed()
    old, _ = create_mixed_group(world)
    members = world.group.members
    assert [len(members[m].assigned) for m in (old, "new")] == [3, 3]
    assert not members[old].assigned & members["new"].assigned


def test_upgrade_makes_members_with_a_pending_join_rejoin() -> None:
    world = Mixed()
    world.create_classic_group()
    assert world.classic_join() is None
    waiting = world.pending
    world.join("new")
    assert error(world.responses[waiting]) == "REBALANCE_IN_PROGRESS"


def test_pending_member_id_does_not_prevent_an_upgrade() -> None:
    # GROUP_ID_NOT_FOUND is fatal in librdkafka: a consumer that joined at this moment never read anything
    world = Mixed()
    rejected = world.classic_join(version=4)
    assert rejected is not None
    assert error(rejected) == "MEMBER_ID_REQUIRED"
    assert error(world.join("new")) is None
    assert error(world.classic_join(rejected.member_id, version=4)) is None
    assert world.group.members.keys() == {"new", rejected.member_id}


def test_classic_member_joining_a_consumer_group_is_assigned() -> None:
    world = Mixed()
    world.join("new")
    world.classic_join(version=5)
    assert error(world.responses[world.pending]) == "MEMBER_ID_REQUIRED"
    joined = world.classic_join(world.responses[world.pending].member_id, version=5)
    assert joined is not None
    assert (joined.generation_id, joined.protocol_name, joined.leader, joined.members) == (2, "range", "", [])
    assert parts(world.classic_sync(joined)) == {}
    assert world.classic_heartbeat(joined.member_id, 2) is None
    retained = assigned(world.heartbeat("new", 1, ALL))
    world.heartbeat("new", 1, retained)
    assert world.classic_heartbeat(joined.member_id, 2) == "REBALANCE_IN_PROGRESS"  # its partitions are free
    again = world.classic_join(joined.member_id)
    assert again is not None
    assert len(parts(world.classic_sync(again))["t"]) == 3


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"kind": "connect"}, "INCONSISTENT_GROUP_PROTOCOL"),
        ({"metadata": b"\x00"}, "INCONSISTENT_GROUP_PROTOCOL"),
    ],
)
def test_classic_join_with_malformed_metadata_is_rejected(changes: dict[str, Any], expected: str) -> None:
    world = Mixed()
    world.join("new")
    world.classic_join(**changes)
    assert error(world.responses[world.pending]) == expected


def test_classic_request_to_a_consumer_group_is_checked() -> None:
    world = Mixed()
    old, joined = create_mixed_group(world)
    assert world.classic_heartbeat("unknown", 2) == "UNKNOWN_MEMBER_ID"
    assert world.classic_heartbeat(old, 1) == "ILLEGAL_GENERATION"
    assert world.classic_heartbeat("new", 2) == "UNKNOWN_MEMBER_ID"
    assert world.classic_leave("new", "unknown") == [25, 25]
    assert error(world.classic_sync(JoinGroupResponse(generation_id=1, member_id=old))) == "ILLEGAL_GENERATION"


def test_classic_members_without_heartbeat_or_sync_are_removed() -> None:
    world = Mixed()
    old, joined = create_mixed_group(world)
    world.pass_time(10_000)
    assert list(world.group.members) == ["new"]
    late: JoinGroupResponse | None = None
    for n in range(8):
        world.pass_time(9_000)
        world.heartbeat("new", world.group.members["new"].epoch)
        if n == 0:
            late = world.classic_join()
            assert late is not None
        elif late is not None and late.member_id in world.group.members:
            world.classic_heartbeat(late.member_id, late.generation_id)
    assert late is not None
    assert late.member_id not in world.group.members  # it has not sent SyncGroup


def test_classic_member_rejoins_after_the_assignment_interval() -> None:
    world = Mixed(group_consumer_assignment_interval_ms=1000)
    world.join("new")
    joined = world.classic_join()
    assert joined is not None
    assert parts(world.classic_sync(joined)) == {}
    assert (world.group.epoch, joined.generation_id) == (2, 1)
    assert world.classic_heartbeat(joined.member_id, 1) is None
    world.pass_time(1000)
    assert world.classic_heartbeat(joined.member_id, 1) == "REBALANCE_IN_PROGRESS"
    again = world.classic_join(joined.member_id)
    assert again is not None
    assert (world.group.target_epoch, again.generation_id) == (2, 2)


def test_classic_member_leaving_a_consumer_group_is_removed() -> None:
    world = Mixed()
    old, _ = create_mixed_group(world)
    assert world.classic_leave(old) == [0]
    assert assigned(world.heartbeat("new", 2, None)) == ALL


def test_group_is_downgraded_when_the_last_consumer_member_leaves() -> None:
    world = Mixed()
    old, joined = create_mixed_group(world)
    epoch = world.group.epoch
    world.leave("new")
    group = world.classic
    assert (group.state, group.generation, list(group.members)) == (ClassicGroupState.PREPARING, epoch, [old])
    assert world.classic_heartbeat(old, joined.generation_id) == "REBALANCE_IN_PROGRESS"
    again = world.classic_join(old)
    assert again is not None
    assert (again.leader, again.generation_id) == (old, epoch + 1)
    assert parts(world.classic_sync(again, {old: ALL})) == ALL


def test_restart_restores_an_upgraded_and_a_downgraded_group() -> None:
    world = Mixed()
    old = world.create_classic_group()
    world.join("new")
    before = world.group
    world.restart()
    for attribute in ("epoch", "target_epoch", "members", "targets", "owners"):
        assert getattr(world.group, attribute) == getattr(before, attribute), attribute
    world.leave("new")
    world.restart()
    assert (world.classic.state, list(world.classic.members)) == (ClassicGroupState.STABLE, [old])


@pytest.mark.parametrize(("policy", "up", "down"), [("upgrade", True, False), ("disabled", False, False)])
def test_migration_policy_limits_upgrade_and_downgrade(policy: str, up: bool, down: bool) -> None:
    world = Mixed(group_consumer_migration_policy=policy)
    world.create_classic_group()
    assert (error(world.join("new")) is None) is up
    if up:
        world.leave("new")
        assert isinstance(world.coordinator.by_id["g"], ConsumerGroup) is not down


def test_group_of_another_protocol_type_is_not_upgraded() -> None:
    world = Mixed()
    joined = world.classic_join(kind="connect")
    assert joined is not None
    assert error(world.join("new")) == "GROUP_ID_NOT_FOUND"
    assert world.classic.members


def test_empty_group_is_replaced_by_the_other_protocol() -> None:
    world = Mixed()
    world.classic_leave(world.create_classic_group())
    assert assigned(world.join("new")) == ALL
    world.leave("new")
    joined = world.classic_join()
    assert joined is not None
    assert joined.generation_id == 1
    assert world.classic.members.keys() == {joined.member_id}
    world.restart()
    assert world.coordinator.by_id == {}  # a classic generation is written when it is synced


def test_old_member_id_in_an_empty_consumer_group_is_unknown() -> None:
    world = Mixed()
    world.join("new")
    world.leave("new")
    world.classic_join("from-before")
    assert error(world.responses[world.pending]) == "UNKNOWN_MEMBER_ID"
    assert isinstance(world.coordinator.by_id["g"], ConsumerGroup)


def test_classic_join_with_an_invalid_session_timeout_does_not_replace_an_empty_consumer_group() -> None:
    world = Mixed(group_min_session_timeout_ms=20_000)
    world.join("new")
    world.leave("new")
    world.classic_join()
    assert error(world.responses[world.pending]) == "INVALID_SESSION_TIMEOUT"
    assert world.group.is_empty


def test_static_classic_member_rejoins_with_the_consumer_protocol() -> None:
    world = Mixed()
    joined = world.classic_join(instance="i")
    assert joined is not None
    world.classic_sync(joined, {joined.member_id: ALL})
    response = world.join("new", instance_id="i")
    assert (error(response), assigned(response)) == (None, ALL)
    assert world.group.owners == {TopicIdPartition(topic_id("t"), p): "new" for p in range(6)}


def test_group_is_downgraded_when_the_last_consumer_member_rejoins_as_classic() -> None:
    world = Mixed()
    old, _ = create_mixed_group(world)
    world.leave("new")
    again = world.classic_join(old)
    assert again is not None
    world.classic_sync(again, {old: ALL})
    world.join("static", instance_id="i")
    world.classic_join(old, owned=ALL)
    epoch = world.group.epoch
    joined = world.classic_join(instance="i")
    assert joined is not None
    group = world.classic
    assert (group.state, group.generation, joined.generation_id) == (ClassicGroupState.STABLE, epoch, epoch)
    assert group.members.keys() == {old, joined.member_id}
    assert len(parts(world.classic_sync(joined))["t"]) == 3
    before = {m.id: m.assignment for m in group.members.values()}
    world.restart()
    assert {m.id: m.assignment for m in world.classic.members.values()} == before
