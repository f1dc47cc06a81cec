"""Classic groups: the responses to JoinGroup, SyncGroup, Heartbeat and LeaveGroup, and their timing."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

import pytest

from ottla.clock import ManualClock
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.group.classic.classic_group import (
    VALID_TRANSITIONS,
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
)
from ottla.coordinator.group.classic.classic_groups import ClassicGroups, GroupClient
from ottla.coordinator.runtime.deadline_queue import NEVER
from ottla.coordinator.runtime.result import CoordinatorResult
from ottla.errors import IllegalStateError, KafkaError, code_of, for_code
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

CLIENT = GroupClient("client", "/127.0.0.1")


class World:
    """A coordinator, a clock, and the responses so far by future."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.config = BrokerConfig(
            {"group.initial.rebalance.delay.ms": 0, **{k.replace("_", "."): v for k, v in options.items()}}
        )
        ids = count(1)
        self.groups = ClassicGroups(self.config, self.clock, lambda: str(next(ids)))
        self.responses: dict[object, Any] = {}
        self.records = 0

    def apply(self, result: CoordinatorResult) -> None:
        self.records += len(result.records)
        for token, response in result.responses:
            assert token not in self.responses, f"{token} has two responses"
            self.responses[token] = response

    def join(
        self,
        token: str,
        member: str = "",
        *,
        instance: str | None = None,
        version: int = 3,
        protocols: str = "range",
        **more: Any,
    ) -> None:
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=more.pop("session", 10_000),
            rebalance_timeout_ms=60_000,
            member_id=member,
            group_instance_id=instance,
            protocol_type=more.pop("kind", "consumer"),
            protocols=[
                JoinGroupRequestProtocol(name=p, metadata=more.get("metadata", b"m")) for p in protocols.split(",")
            ],
        )
        self.apply(self.groups.join(request, version, CLIENT, token))

    def sync(self, token: str, joined: JoinGroupResponse, assignments: dict[str, bytes] | None = None) -> None:
        request = SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in (assignments or {}).items()],
        )
        self.apply(self.groups.sync(request, token))

    def heartbeat(self, joined: JoinGroupResponse) -> str | None:
        try:
            self.groups.heartbeat(
                HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
            )
        except KafkaError as error:
            return type(error).__name__
        return None

    def leave(self, token: str, *members: MemberIdentity, version: int = 3) -> None:
        self.apply(self.groups.leave(LeaveGroupRequest(group_id="g", members=list(members)), version, token))

    def pass_time(self, ms: float) -> None:
        self.clock.advance(ms)
        for group in list(self.groups.by_id.values()):
            assert isinstance(group, ClassicGroup)
            self.apply(self.groups.expire(group))

    @property
    def group(self) -> ClassicGroup:
        group = self.groups.by_id["g"]
        assert isinstance(group, ClassicGroup)
        return group

    def state(self) -> ClassicGroupState:
        return self.group.state

    def error(self, token: str) -> str | None:
        code = self.responses[token].error_code
        return for_code(code).__name__ if code else None

    def stable(self, n: int = 2, **options: Any) -> list[JoinGroupResponse]:
        """Return the responses of a stable group of n members; the first one leads."""
        for i in range(n):
            self.join(f"first{i}", **options)
            if i:
                for j in range(i):
                    self.join(f"again{i}{j}", self.responses[f"first{j}"].member_id, **options)
        joined = [self.responses[f"again{n - 1}{j}" if j < n - 1 and n > 1 else f"first{j}"] for j in range(n)]
        for i, one in reversed(list(enumerate(joined))):
            self.sync(
                f"sync{i}", one, {m.member_id: m.member_id.encode() for m in joined[0].members} if i == 0 else None
            )
        assert self.group.state is ClassicGroupState.STABLE
        return joined


def test_state_transition_outside_the_table_raises() -> None:
    group = ClassicGroup("g")
    with pytest.raises(IllegalStateError, match="Empty to Stable"):
        group.transition_to(ClassicGroupState.STABLE)
    assert set(VALID_TRANSITIONS) == set(ClassicGroupState)


def test_join_of_a_single_member_completes_at_once() -> None:
    world = World()
    world.join("j")
    response = world.responses["j"]
    assert (response.error_code, response.generation_id, response.leader) == (0, 1, response.member_id)
    assert [m.member_id for m in response.members] == [response.member_id]


def test_join_group_version_4_of_new_member_returns_member_id_required() -> None:
    world = World()
    world.join("j", version=4)
    assert world.error("j") == "MemberIdRequiredError"
    world.join("again", world.responses["j"].member_id, version=4)
    assert world.error("again") is None


def test_join_of_second_member_waits_until_first_member_rejoins() -> None:
    world = World()
    world.join("a")
    a = world.responses["a"]
    world.sync("sa", a, {a.member_id: b"all"})
    world.join("b")
    assert "b" not in world.responses
    assert world.heartbeat(a) == "RebalanceInProgressError"
    world.join("a2", a.member_id)
    assert world.responses["b"].generation_id == world.responses["a2"].generation_id == 2
    assert world.responses["b"].leader == a.member_id
    assert len(world.responses["a2"].members) == 2
    assert world.responses["b"].members == []


def test_sync_of_leader_sends_assignments_to_all_members() -> None:
    world = World()
    joined = world.stable(3)
    for i, one in enumerate(joined):
        assert world.responses[f"sync{i}"].assignment == one.member_id.encode()


def test_assignment_is_appended_before_the_response() -> None:
    world = World()
    world.join("a")
    a = world.responses["a"]
    result = world.groups.sync(
        SyncGroupRequest(
            group_id="g",
            generation_id=1,
            member_id=a.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=a.member_id, assignment=b"x")],
        ),
        "s",
    )
    assert len(result.records) == 1
    assert [r.assignment for _, r in result.responses if isinstance(r, SyncGroupResponse)] == [b"x"]


def test_member_without_heartbeats_is_removed_after_session_timeout() -> None:
    world = World()
    one, two = world.stable(2)
    world.clock.advance(9_000)
    assert world.heartbeat(one) is None
    world.pass_time(2_000)
    assert world.group.state is ClassicGroupState.PREPARING
    assert world.heartbeat(two) == "UnknownMemberIdError"
    assert world.heartbeat(one) == "RebalanceInProgressError"
    world.join("alone", one.member_id)
    assert len(world.responses["alone"].members) == 1


def test_rebalance_removes_members_that_do_not_rejoin() -> None:
    world = World()
    one, _two = world.stable(2, session=1_800_000)
    world.join("new")
    world.join("one", one.member_id)
    assert "new" not in world.responses
    world.pass_time(60_000)
    assert {m.member_id for m in world.responses["one"].members} == {one.member_id, world.responses["new"].member_id}


def test_members_that_a_rebalance_waits_for_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ottla.coordinator.group")
    world = World()
    one, two, three = world.stable(3, session=1_800_000)
    world.join("one", one.member_id, session=1_800_000)
    caplog.clear()
    world.pass_time(9_000)
    assert caplog.messages == []
    world.leave("left", MemberIdentity(member_id=three.member_id, reason="consumer poll timeout has expired."))
    assert world.group.next_deadline() == world.clock.monotonic() + 1
    world.pass_time(1_000)
    world.pass_time(1_000)
    assert caplog.messages == [
        f"Removed member {three.member_id} (/127.0.0.1) from group g, which is rebalancing: the member leaves: "
        "consumer poll timeout has expired.",
        "The rebalance of group g has taken 10 s and waits for 1 of 2 members to join again: "
        f"{two.member_id} (/127.0.0.1). A consumer joins in poll(). Dynamic members that have not joined within the "
        "rebalance timeout of 60 s (max.poll.interval.ms) are removed.",
    ]
    world.pass_time(49_000)
    caplog.clear()
    world.pass_time(15_000)
    assert caplog.messages == [
        f"The rebalance of group g has taken 75 s and waits for the assignment from its leader {one.member_id} "
        "(/127.0.0.1). A leader that does not send it within the rebalance timeout of 60 s is removed from the group."
    ]


def test_rebalance_removes_members_that_do_not_sync() -> None:
    world = World()
    world.join("a", session=1_800_000)
    world.pass_time(60_000)
    assert world.group.state is ClassicGroupState.EMPTY


def test_leave_starts_a_rebalance_and_last_leave_empties_the_group() -> None:
    world = World()
    one, two = world.stable(2)
    world.leave("l", MemberIdentity(member_id=two.member_id))
    assert world.responses["l"].members[0].error_code == 0
    assert world.state() is ClassicGroupState.PREPARING
    world.leave("l2", MemberIdentity(member_id=one.member_id), MemberIdentity(member_id="unknown"))
    assert [m.error_code for m in world.responses["l2"].members] == [0, 25]
    assert world.state() is ClassicGroupState.EMPTY
    assert world.group.generation == 3


def test_first_rebalance_waits_for_the_initial_rebalance_delay() -> None:
    world = World(group_initial_rebalance_delay_ms=3000)
    world.join("a")
    world.pass_time(2000)
    world.join("b")
    world.pass_time(1000)
    assert not world.responses
    world.pass_time(3000)
    assert len(world.responses["a"].members) == 2


def test_common_protocol_with_the_most_votes_is_chosen() -> None:
    world = World()
    world.join("a", protocols="range,sticky")
    world.join("b", protocols="sticky,roundrobin")
    world.join("a2", world.responses["a"].member_id, protocols="range,sticky")
    assert world.responses["b"].protocol_name == "sticky"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"protocols": "other"}, "InconsistentGroupProtocolError"),
        ({"kind": "connect"}, "InconsistentGroupProtocolError"),
        ({"member": "unknown"}, "UnknownMemberIdError"),
        ({"session": 5_999}, "InvalidSessionTimeoutError"),
        ({"session": 1_800_001}, "InvalidSessionTimeoutError"),
    ],
)
def test_invalid_join_is_rejected_with_its_error(changes: dict[str, Any], error: str) -> None:
    world = World()
    world.stable(1)
    world.join("x", **changes)
    assert world.error("x") == error


def test_join_of_a_full_group_is_rejected() -> None:
    world = World(group_max_size=1)
    world.stable(1)
    world.join("x")
    assert world.error("x") == "GroupMaxSizeReachedError"


def test_heartbeat_and_sync_of_old_generation_are_rejected() -> None:
    world = World()
    (one,) = world.stable(1)
    one.generation_id -= 1
    assert world.heartbeat(one) == "IllegalGenerationError"
    world.sync("s", one)
    assert world.error("s") == "IllegalGenerationError"


def test_static_member_that_restarts_rejoins_without_a_rebalance() -> None:
    world = World()
    world.join("a", instance="i1", version=5)
    a = world.responses["a"]
    world.sync("s", a, {a.member_id: b"mine"})
    world.join("a2", instance="i1", version=5)
    again = world.responses["a2"]
    assert (again.error_code, again.generation_id) == (0, a.generation_id)
    assert again.member_id != a.member_id
    assert again.members == [], "a client of an old version must not compute an assignment"
    world.sync("s2", again)
    assert world.responses["s2"].assignment == b"mine"
    world.join("ghost", a.member_id, instance="i1", version=5)
    assert world.error("ghost") == "FencedInstanceIdError"


def test_static_leader_rejoining_with_version_9_skips_the_assignment() -> None:
    world = World()
    world.join("a", instance="i1", version=9)
    a = world.responses["a"]
    world.sync("s", a, {a.member_id: b"mine"})
    world.join("a2", instance="i1", version=9)
    assert world.responses["a2"].skip_assignment
    assert world.responses["a2"].leader == world.responses["a2"].member_id


def test_unused_member_id_expires() -> None:
    world = World()
    world.join("a", version=4)
    world.pass_time(10_000)
    assert not world.group.pending


@pytest.mark.parametrize("seed", range(200))
def test_random_requests_get_one_response_each_and_generations_increase(seed: int) -> None:
    """Let random members join, sync, heartbeat, leave and time out; at the end all requests have responses."""
    r = random.Random(seed)
    world = World(group_initial_rebalance_delay_ms=r.choice([0, 3000]))
    states: dict[str, JoinGroupResponse] = {}
    pending: dict[str, str] = {}
    last_generation = 0
    for step in range(120):
        name = f"m{r.randrange(5)}"
        action = r.choice(["join", "join", "sync", "sync", "heartbeat", "leave", "time"])
        token = f"{action}{step}"
        joined = states.get(name)
        if action == "join" and name not in pending:
            world.join(
                token, joined.member_id if joined else "", version=r.choice([3, 5]), metadata=bytes([r.randrange(2)])
            )
            pending[name] = token
        elif action == "sync" and joined is not None and joined.generation_id > 0:
            world.sync(token, joined, {m.member_id: b"%d" % joined.generation_id for m in joined.members})
        elif action == "heartbeat" and joined is not None:
            world.heartbeat(joined)
        elif action == "leave" and joined is not None:
            world.leave(token, MemberIdentity(member_id=joined.member_id))
            states.pop(name)
            pending.pop(name, None)
        else:
            world.pass_time(r.choice([10, 3000, 11_000]))
        for member_name, waiting in list(pending.items()):
            response = world.responses.get(waiting)
            if response is not None:
                del pending[member_name]
                if response.error_code in (0, 79):
                    states[member_name] = response
                else:
                    states.pop(member_name, None)
        group = world.groups.by_id.get("g")
        if group is not None:
            assert isinstance(group, ClassicGroup)
            assert group.generation >= last_generation
            last_generation = group.generation
            stable_ids = {m.id for m in group.members.values()}
            assert group.leader is None or group.leader in stable_ids
            if group.state is ClassicGroupState.STABLE:
                assert all(m.awaiting_join is None and m.awaiting_sync is None for m in group.members.values())
    for _ in range(40):
        world.pass_time(70_000)
    group = world.group
    assert (group.state, group.members, group.pending) == (ClassicGroupState.EMPTY, {}, {})
    assert all(token in world.responses for token in pending.values())


def test_join_with_unknown_member_id_returns_error_code_25() -> None:
    world = World()
    world.join("x", "unknown")
    assert world.responses["x"].error_code == code_of(for_code(25)())


def test_new_member_times_out_during_a_long_rebalance(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ottla.coordinator.group")
    world = World()
    world.stable(1, session=1_800_000)
    world.join("new", session=1_800_000)
    world.group.deadline = float("inf")  # a rebalance that takes longer than any client waits
    world.pass_time(5 * 60_000)
    assert world.error("new") == "UnknownMemberIdError"
    assert "which is rebalancing: the member is new and has waited 300 s for others to join" in caplog.text


def test_rebalance_waits_while_only_static_members_are_absent() -> None:
    world = World()
    world.join("a", instance="i", session=1_800_000)
    a = world.responses["a"]
    world.sync("s", a, {a.member_id: b"x"})
    world.join("b", session=1_800_000)
    b = next(m for m in world.group.members if m != a.member_id)
    world.leave("l", MemberIdentity(member_id=b))
    world.pass_time(60_000)
    assert (world.group.state, world.group.generation) == (ClassicGroupState.PREPARING, 1)
    world.join("back", a.member_id, instance="i")
    assert world.responses["back"].generation_id == 2


def test_rebalance_admits_members_up_to_group_max_size() -> None:
    world = World(group_max_size=2)
    one, _two = world.stable(2)
    world.join("third")
    assert world.error("third") == "GroupMaxSizeReachedError"
    world.join("one", one.member_id)  # a leader that joins again starts a rebalance
    world.join("third2")
    world.pass_time(11_000)
    assert len(world.responses["third2"].members) == 0
    assert len(world.responses["one"].members) == 2


# Large groups


def exact_deadline(group: ClassicGroup) -> float:
    timers = [member.timer for member in group.members.values()]
    return min([group.deadline, group.sync_deadline, *group.pending.values(), *timers])


@pytest.mark.parametrize("seed", range(20))
def test_next_deadline_is_not_later_than_the_first_timer(seed: int) -> None:
    draw, world, tokens = random.Random(seed), World(), count()
    for _ in range(120):
        states = list(world.group.members.values()) if "g" in world.groups.by_id else []
        action = draw.choice(["join", "join", "again", "beat", "sync", "leave", "time"])
        member = draw.choice(states) if states else None
        token = f"t{next(tokens)}"
        if action == "join" or member is None:
            version, session = draw.choice([3, 5]), draw.choice([6_000, 10_000, 45_000])
            world.join(token, version=version, session=session, protocols=draw.choice(["range", "range,sticky"]))
        elif action == "again":
            world.join(token, member.id, protocols=draw.choice(["range", "range,sticky"]))
        elif action == "beat":
            world.heartbeat(JoinGroupResponse(generation_id=world.group.generation, member_id=member.id))
        elif action == "sync":
            world.sync(token, JoinGroupResponse(generation_id=world.group.generation, member_id=member.id))
        elif action == "leave":
            world.leave(token, MemberIdentity(member_id=member.id))
        else:
            world.pass_time(draw.choice([100, 3_000, 8_000]))
            assert world.group.members_due == min(
                [m.timer for m in world.group.members.values()] + list(world.group.pending.values()), default=NEVER
            )
        assert world.group.next_deadline() <= exact_deadline(world.group)
        offers = [set(m.protocols) for m in world.group.members.values()]
        assert world.group.common_protocols() == (set.intersection(*offers) if offers else set())


def test_heartbeat_and_join_of_a_large_group_do_not_scan_members(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(group_initial_rebalance_delay_ms=3000)
    for i in range(300):
        world.join(f"j{i}")
    timers_read = []
    timer = vars(ClassicMember)["timer"]

    def read_timer(member: ClassicMember) -> Any:
        timers_read.append(member)
        return timer.fget(member)

    monkeypatch.setattr(ClassicMember, "timer", property(read_timer))
    world.join("late")
    world.group.next_deadline()
    assert not timers_read


def test_pending_member_ids_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.coordinator.group.classic.classic_group.MAX_PENDING", 100)
    world = World()
    for i in range(150):
        world.join(f"j{i}", version=5)
    assert len(world.group.pending) == 100
    world.join("last", world.responses["j149"].member_id, version=5)
    world.join("first", world.responses["j0"].member_id, version=5)
    assert "last" not in world.responses  # it waits for the other members with an id
    assert world.error("first") == "UnknownMemberIdError"
