"""The sticky task assignor of streams groups: balance, stickiness and standby tasks."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from ottla.coordinator.group.streams.configured_topology import ConfiguredSubtopology
from ottla.coordinator.group.streams.sticky_task_assignor import TaskMemberSpec, assign
from ottla.coordinator.group.streams.tasks import NO_TASKS, TaskId, TaskRole, Tasks, ids_of


def members(**processes: str) -> dict[str, TaskMemberSpec]:
    return {member: TaskMemberSpec(process, NO_TASKS) for member, process in processes.items()}


def again(specs: dict[str, TaskMemberSpec], tasks: dict[str, Tasks]) -> dict[str, TaskMemberSpec]:
    """The same members with the tasks that they have now."""
    return {member: spec._replace(tasks=tasks.get(member, NO_TASKS)) for member, spec in specs.items()}


def topology(*, stateful: int = 0, stateless: int = 0) -> dict[str, ConfiguredSubtopology]:
    sizes = {"0": (stateless, False), "1": (stateful, True)}
    return {name: ConfiguredSubtopology(tasks, is_stateful, {}) for name, (tasks, is_stateful) in sizes.items()}


def active(tasks: dict[str, Tasks]) -> dict[str, int]:
    return {member: len(ids_of(some, TaskRole.ACTIVE)) for member, some in tasks.items()}


def check(
    specs: dict[str, TaskMemberSpec], tasks: dict[str, Tasks], subtopologies: dict[str, ConfiguredSubtopology]
) -> None:
    """Check that each task is active once, and that no process has a task twice."""
    every = Counter(task for some in tasks.values() for task in ids_of(some, TaskRole.ACTIVE))
    assert every == {TaskId(s, n): 1 for s, c in subtopologies.items() for n in range(c.tasks)}
    in_processes = Counter((specs[member].process_id, task.id) for member, some in tasks.items() for task in some)
    assert set(in_processes.values()) <= {1}
    assert tasks.keys() == specs.keys()


def test_tasks_are_balanced_over_members_and_processes() -> None:
    specs = members(a1="a", a2="a", b1="b")
    tasks = assign(specs, topology(stateful=6, stateless=3), 0)
    check(specs, tasks, topology(stateful=6, stateless=3))
    assert active(tasks) == {"a1": 3, "a2": 3, "b1": 3}
    stateful = {m: sum(task.id.subtopology_id == "1" for task in some) for m, some in tasks.items()}
    assert stateful == {"a1": 2, "a2": 2, "b1": 2}


def test_tasks_stay_when_members_join_or_leave() -> None:
    specs = members(a="a", b="b")
    before = assign(specs, topology(stateful=6), 0)
    more = again({**specs, **members(c="c")}, before)
    joined = assign(more, topology(stateful=6), 0)
    assert active(joined) == {"a": 2, "b": 2, "c": 2}
    assert all(joined[m] < before[m] for m in ("a", "b"))
    left = assign(again({m: more[m] for m in ("a", "c")}, joined), topology(stateful=6), 0)
    assert all(joined[m] < left[m] for m in ("a", "c"))
    assert active(left) == {"a": 3, "c": 3}
    assert assign(again(specs, before), topology(stateful=6), 0) == before


def test_standby_tasks_are_in_other_processes_and_become_active() -> None:
    specs = members(a="a", b="b", c="c")
    before = assign(specs, topology(stateful=3, stateless=2), 1)
    check(specs, before, topology(stateful=3, stateless=2))
    standbys = {m: ids_of(some, TaskRole.STANDBY) for m, some in before.items()}
    assert sorted(task for some in standbys.values() for task in some) == [TaskId("1", n) for n in range(3)]
    (moved,) = [task for task in ids_of(before["a"], TaskRole.ACTIVE) if task.subtopology_id == "1"]
    (holder,) = [member for member, some in standbys.items() if moved in some]
    rest = again({m: specs[m] for m in ("b", "c")}, before)
    after = assign(rest, topology(stateful=3, stateless=2), 1)
    check(rest, after, topology(stateful=3, stateless=2))
    assert moved in ids_of(after[holder], TaskRole.ACTIVE)


def test_standby_tasks_are_limited_by_the_number_of_processes() -> None:
    specs = members(a1="a", a2="a", b1="b")
    tasks = assign(specs, topology(stateful=2), 2)
    check(specs, tasks, topology(stateful=2))
    assert sum(len(ids_of(some, TaskRole.STANDBY)) for some in tasks.values()) == 2  # not 4: there are two processes
    assert not any(ids_of(some, TaskRole.STANDBY) for some in assign(members(a="a"), topology(stateful=2), 1).values())


def test_group_without_members_has_no_assignment() -> None:
    assert assign({}, topology(stateful=2), 1) == {}


@pytest.mark.parametrize("seed", range(20))
def test_assignment_is_balanced_through_random_changes(seed: int) -> None:
    r = Random(seed)
    tasks: dict[str, Tasks] = {}
    for _ in range(20):
        names = r.sample(range(12), r.randrange(1, 9))
        specs = again({f"m{n}": TaskMemberSpec(f"p{n // 2}", NO_TASKS) for n in names}, tasks)
        subtopologies = topology(stateful=r.randrange(0, 12), stateless=r.randrange(0, 12))
        standbys = r.randrange(0, 3)
        tasks = assign(specs, subtopologies, standbys)
        check(specs, tasks, subtopologies)
        total = sum(c.tasks for c in subtopologies.values())
        assert max(active(tasks).values()) <= -(-total // len(specs)) + 1
        copies = Counter(task.id for some in tasks.values() for task in some if task.role is TaskRole.STANDBY)
        possible = min(standbys, len({s.process_id for s in specs.values()}) - 1)
        assert all(copies[TaskId("1", n)] == possible for n in range(subtopologies["1"].tasks))
