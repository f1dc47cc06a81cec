"""The `sticky` assignor of streams groups: tasks stay where they are, or go to where their state is.

Stateful tasks are assigned first, then stateless tasks, then standby tasks. A task goes to its last active member, or
else to a member that had its standby or warm-up task, if that member has less than its fair share. The rest goes to the
process with the lowest load (tasks per member). A process never has a task twice. Kafka's `StickyTaskAssignor`.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.coordinator.group.streams.configured_topology import ConfiguredSubtopology
from ottla.coordinator.group.streams.tasks import Task, TaskId, TaskRole, Tasks

NAME = "sticky"


class TaskMemberSpec(NamedTuple):
    """A member as the assignor sees it: its process and its current target assignment."""

    process_id: str
    tasks: Tasks


def assign(
    members: Mapping[str, TaskMemberSpec], subtopologies: Mapping[str, ConfiguredSubtopology], standbys: int
) -> dict[str, Tasks]:
    """Return the tasks by member id. `standbys`: the maximum number of standby tasks per stateful task."""
    if not members:
        return {}
    assignment = _Assignment(members)
    stateful = [*_tasks(subtopologies, stateful=True)]
    stateless = [*_tasks(subtopologies, stateful=False)]
    assignment.assign_active(stateful, len(stateful))
    assignment.assign_active(stateless, len(stateful) + len(stateless))
    if standbys:
        assignment.assign_standby(stateful, standbys, len(stateful) * (1 + standbys) + len(stateless))
    return assignment.by_member()


def _tasks(subtopologies: Mapping[str, ConfiguredSubtopology], *, stateful: bool) -> Iterator[TaskId]:
    for subtopology_id, subtopology in subtopologies.items():
        if subtopology.is_stateful is stateful:
            yield from (TaskId(subtopology_id, n) for n in range(subtopology.tasks))


@dataclass(slots=True)
class _ProcessLoad:
    """The members of one process (an instance of Kafka Streams), and the tasks that they are assigned."""

    id: str
    members: dict[str, set[Task]] = field(default_factory=dict)
    tasks: set[TaskId] = field(default_factory=set)

    @property
    def load(self) -> float:
        return len(self.tasks) / len(self.members)

    def least_loaded(self) -> str:
        return min(self.members, key=lambda member_id: (len(self.members[member_id]), member_id))


class _Quota:
    """The fair share of tasks per member.

    When a member reaches it, the remaining tasks are divided among the others.
    """

    def __init__(self, tasks: int, counts: Iterable[int]) -> None:
        """`tasks`: number of tasks to divide, including those assigned already.

        `counts`: numbers of tasks that the members have.
        """
        ordered = sorted(counts, reverse=True)
        self._tasks, self._open = tasks, len(ordered)
        self.share = -(-tasks // self._open)
        for count in ordered:
            self.on_assigned(count)

    def on_assigned(self, count: int) -> None:
        """Adjust the share for a member that has `count` tasks now."""
        if self._open and count >= self.share:
            self._open -= 1
            self._tasks -= count
            self.share = -(-self._tasks // self._open) if self._open else 0


class _Assignment:
    def __init__(self, members: Mapping[str, TaskMemberSpec]) -> None:
        self._processes: dict[str, _ProcessLoad] = {}
        self._process_of: dict[str, _ProcessLoad] = {}
        self._active_before: dict[TaskId, str] = {}
        self._passive_before: dict[TaskId, list[str]] = defaultdict(list)
        for member_id, spec in sorted(members.items()):
            process = self._processes.setdefault(spec.process_id, _ProcessLoad(spec.process_id))
            process.members[member_id] = set()
            self._process_of[member_id] = process
            for task in sorted(spec.tasks):
                if task.role is TaskRole.ACTIVE:
                    self._active_before[task.id] = member_id
                else:
                    self._passive_before[task.id].append(member_id)

    def by_member(self) -> dict[str, Tasks]:
        return {m: frozenset(process.members[m]) for m, process in self._process_of.items()}

    def assign_active(self, tasks: Iterable[TaskId], total: int) -> None:
        """Assign active tasks. `total`: number of tasks to divide, including those assigned already."""
        quota = self._quota(total)
        rest = sorted(tasks, key=lambda task: (task.partition, task.subtopology_id))
        rest = [t for t in rest if not self._keep(t, self._active_before.get(t), TaskRole.ACTIVE, quota)]
        rest = [t for t in rest if not self._keep(t, self._least_loaded_copy(t), TaskRole.ACTIVE, quota)]
        by_load = self._by_load()
        for task in sorted(rest):  # by subtopology, so that members get ranges
            self._give_to_least_loaded(by_load, task, TaskRole.ACTIVE)

    def assign_standby(self, tasks: Iterable[TaskId], standbys: int, total: int) -> None:
        """Assign `standbys` standby tasks per task; fewer if there are not enough processes.

        `total`: as for `assign_active`.
        """
        quota = self._quota(total)
        rest: list[TaskId] = []
        for task in sorted(tasks, key=lambda task: (task.partition, task.subtopology_id), reverse=True):
            holders = [self._active_before.get(task), *self._passive_before.get(task, ())]
            copies = 0
            for holder in holders:
                if copies < standbys:
                    copies += self._keep(task, holder, TaskRole.STANDBY, quota)
            rest += [task] * (standbys - copies)
        by_load = self._by_load()
        for task in sorted(rest, reverse=True):
            self._give_to_least_loaded(by_load, task, TaskRole.STANDBY)

    def _quota(self, total: int) -> _Quota:
        counts = [len(tasks) for process in self._processes.values() for tasks in process.members.values()]
        return _Quota(total, counts)

    def _keep(self, task: TaskId, member_id: str | None, role: TaskRole, quota: _Quota) -> bool:
        """Assign a task to a member that had it.

        Return False if no member had it, the member has its fair share, or its process has the task already.
        """
        if member_id is None:
            return False
        process = self._process_of[member_id]
        if task in process.tasks or len(process.members[member_id]) >= quota.share:
            return False
        quota.on_assigned(self._give(process, member_id, task, role))
        return True

    def _least_loaded_copy(self, task: TaskId) -> str | None:
        return min(
            self._passive_before.get(task, ()),
            key=lambda m: (self._process_of[m].load, len(self._process_of[m].members[m])),
            default=None,
        )

    def _by_load(self) -> list[tuple[float, str]]:
        heap = [(process.load, process.id) for process in self._processes.values()]
        heapq.heapify(heap)
        return heap

    def _give_to_least_loaded(self, by_load: list[tuple[float, str]], task: TaskId, role: TaskRole) -> None:
        """Assign a task to the process with the lowest load that does not have it, if there is one."""
        skipped = []
        while by_load:
            _, process_id = entry = heapq.heappop(by_load)
            process = self._processes[process_id]
            if task not in process.tasks:
                self._give(process, process.least_loaded(), task, role)
                heapq.heappush(by_load, (process.load, process_id))
                break
            skipped.append(entry)
        for entry in skipped:
            heapq.heappush(by_load, entry)

    def _give(self, process: _ProcessLoad, member_id: str, task: TaskId, role: TaskRole) -> int:
        process.tasks.add(task)
        process.members[member_id].add(Task(role, task))
        return len(process.members[member_id])
