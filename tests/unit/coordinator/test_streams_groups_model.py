"""Model test of streams groups under random events.

Threads of some processes join, run tasks, close them late, lose responses, leave and die; topics are created, expanded
and deleted; standby tasks are configured; the coordinator restarts. A failing run names its seed.
"""

from __future__ import annotations

from random import Random

import pytest
from tests.effort import repeats
from tests.unit.coordinator.consumer_world import error
from tests.unit.coordinator.streams_world import WORD_COUNT, StreamsWorld, tasks_by_subtopology

from ottla.coordinator.group.streams.streams_group import StreamsGroup, StreamsGroupState
from ottla.coordinator.group.streams.tasks import NO_TASKS, TaskId, TaskRole, Tasks, from_message, ids_of
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse

SEEDS = repeats(20, 200)
STEPS = 150
PROCESSES = 3
PERSISTED = (
    *("epoch", "metadata_hash", "target_epoch", "members", "targets", "topology", "validated_topology_epoch"),
    *("assignor_configs", "assigned_at_ms", "active_owners", "copy_owners"),
)
REJOIN = ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "GROUP_ID_NOT_FOUND", "INVALID_REQUEST")
"""INVALID_REQUEST: the member still runs tasks of a topic that has fewer partitions now."""
TIMERS = {
    "group_streams_min_session_timeout_ms": 1000,
    "group_streams_session_timeout_ms": 12_000,
    "group_streams_initial_rebalance_delay_ms": 500,
    "group_streams_assignment_interval_ms": 300,
}


class Thread:
    """A member. It relies on the last response, and delays opening and closing of tasks."""

    def __init__(self, world: StreamsWorld, member_id: str, process: str, r: Random) -> None:
        self.world, self.id, self.process, self.r = world, member_id, process, r
        self.epoch = 0
        self.runs: Tasks = NO_TASKS
        self.assigned: Tasks | None = None
        self.full = False

    def step(self, *, lossy: bool) -> None:
        if self.assigned is not None and not (lossy and self.r.random() < 0.4):
            self.runs, self.assigned = self.assigned, None
        response = self._heartbeat()
        if lossy and self.r.random() < 0.15:
            # The response was lost: the member sends a full request, and drops tasks that it has not opened
            self.full, self.assigned = True, None
            return
        self.full = False
        if response.error_code:
            assert error(response) in (
                "UNKNOWN_MEMBER_ID",
                "FENCED_MEMBER_EPOCH",
                "GROUP_ID_NOT_FOUND",
                "INVALID_REQUEST",
            )
            self.epoch, self.runs, self.assigned = 0, NO_TASKS, None
            return
        assert response.member_epoch >= self.epoch, "the epoch decreased"
        self.epoch = response.member_epoch
        if response.active_tasks is not None:
            self.assigned = from_message(
                response.active_tasks, response.standby_tasks or (), response.warmup_tasks or ()
            )

    def _heartbeat(self) -> StreamsGroupHeartbeatResponse:
        if self.epoch == 0:
            return self.world.start(self.id, WORD_COUNT, self.process, rebalance_timeout_ms=8000)
        more = {"rebalance_timeout_ms": 8000} if self.full else {}
        return self.world.run(
            self.id,
            self.epoch,
            tasks_by_subtopology(self.runs),
            tasks_by_subtopology(self.runs, TaskRole.STANDBY),
            **more,
        )

    def leave(self) -> None:
        self.world.run(self.id, -1)


class Simulation:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.r = Random(seed)
        self.sizes = {"t": 3}
        self.world = StreamsWorld(self.sizes, **TIMERS)
        self.threads: list[Thread | None] = [None] * 5
        self.created = 0
        self.standbys = 0
        self.epoch = (0, 0)

    def event(self) -> None:
        n = self.r.randrange(len(self.threads))
        thread, what = self.threads[n], self.r.random()
        if thread is None:
            if what < 0.4:
                self.threads[n] = self.new_thread(n)
        elif what < 0.80:
            thread.step(lossy=True)
        elif what < 0.84:
            thread.leave()
            self.threads[n] = None
        elif what < 0.86:
            self.threads[n] = None  # it died without leaving
        if what > 0.97:
            self.change_topics()
        elif what > 0.95:
            self.create_missing()
        elif what > 0.90:
            self.world.pass_time(self.r.choice([200, 600, 3_000, 9_000]))
        elif what > 0.885:
            self.restart()

    def new_thread(self, n: int) -> Thread:
        self.created += 1
        return Thread(self.world, f"m{self.created}", f"p{n % PROCESSES}", self.r)

    def change_topics(self) -> None:
        what = self.r.random()
        if what < 0.3:
            self.standbys = self.r.randrange(3)
        elif what < 0.5 and "t" in self.sizes:
            self.sizes = {}  # with the internal topics
        else:
            self.sizes = {"t": self.r.randrange(1, 6)}
        self.set_topics()

    def create_missing(self) -> None:
        missing = self.world.coordinator.streams.missing_topics("g")
        self.sizes |= {name: topic.partitions for name, topic in missing.items()}
        self.set_topics()

    def set_topics(self) -> None:
        self.world.topics(self.sizes, groups__g={"streams.num.standby.replicas": str(self.standbys)})

    def restart(self) -> None:
        group = self.group()
        if group is not None:
            self.world.apply(self.world.coordinator.unload(group))
        self.world.restart()
        again = self.group()
        assert (again is None) == (group is None)
        for attribute in PERSISTED if group is not None else ():
            assert getattr(again, attribute) == getattr(group, attribute), attribute

    def group(self) -> StreamsGroup | None:
        group = self.world.coordinator.by_id.get("g")
        assert group is None or isinstance(group, StreamsGroup)
        return group

    def check(self) -> None:
        group = self.group()
        if group is None:
            return
        assert (group.epoch, group.target_epoch) >= self.epoch
        self.epoch = (group.epoch, group.target_epoch)
        held = [(task, m.id) for m in group.members.values() for task in m.holds]
        assert {t.id: m for t, m in held if t.role is TaskRole.ACTIVE} == group.active_owners
        assert sum(t.role is TaskRole.ACTIVE for t, _ in held) == len(group.active_owners)
        assert all(m.epoch <= group.target_epoch for m in group.members.values())
        assert all(ids_of(m.holds, TaskRole.ACTIVE) == {*m.assignment_epochs} for m in group.members.values())
        self.check_disjoint(group, {m.id: m.holds for m in group.members.values()})
        self.check_disjoint(group, group.targets)
        self.check_disjoint(group, {t.id: t.runs for t in self.threads if t is not None and t.id in group.members})

    def check_disjoint(self, group: StreamsGroup, tasks: dict[str, Tasks]) -> None:
        """Check that no task is active twice, and that no process has one twice."""
        active: set[TaskId] = set()
        in_processes: set[tuple[str, TaskId]] = set()
        for member_id, some in tasks.items():
            for role, task in some:
                where = (group.members[member_id].process_id, task)
                assert where not in in_processes, where
                in_processes.add(where)
                if role is TaskRole.ACTIVE:
                    assert task not in active, task
                    active.add(task)

    def stabilize(self) -> None:
        """Let all threads finish without further events; all tasks run."""
        self.threads = [t for t in self.threads if t is not None] or [self.new_thread(0)]
        self.sizes.setdefault("t", 2)
        self.set_topics()
        for _ in range(40):
            self.world.pass_time(1_000)
            self.create_missing()
            for thread in self.threads:
                assert thread is not None
                thread.step(lossy=False)
                self.check()
        group = self.group()
        assert group is not None
        assert group.state_name is StreamsGroupState.STABLE
        assert group.members.keys() == {t.id for t in self.threads if t is not None}
        runs = [task for t in self.threads if t is not None for task in t.runs]
        assert {t.id for t in runs if t.role is TaskRole.ACTIVE} == self.all_tasks()
        processes = len({t.process for t in self.threads if t is not None})
        copies = [t for t in runs if t.role is TaskRole.STANDBY]
        assert len(copies) == self.sizes["t"] * min(self.standbys, processes - 1)

    def all_tasks(self) -> set[TaskId]:
        return {TaskId(s, n) for s in ("0", "1") for n in range(self.sizes["t"])}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_task_is_active_at_most_once_and_once_when_stable(seed: int) -> None:
    run = Simulation(seed)
    for _ in range(STEPS):
        run.event()
        run.check()
    run.stabilize()
