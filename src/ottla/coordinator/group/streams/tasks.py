"""Tasks of Kafka Streams.

A task has a subtopology and a number. It processes the partitions with that number of the topics that the subtopology
reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

S = TypeVar("S")


class TaskRole(IntEnum):
    """The role of a member for a task."""

    ACTIVE = 0
    """The member processes the task's records. A task is active in at most one member of the group at a time."""
    STANDBY = 1
    """The member keeps a copy of the task's state."""
    WARMUP = 2
    """The member restores the task's state, to become its active member later."""


class TaskId(NamedTuple):
    """The id of a task: subtopology and partition number."""

    subtopology_id: str
    partition: int


class Task(NamedTuple):
    """A task, with the role in which it is assigned to a member."""

    role: TaskRole
    id: TaskId


Tasks = frozenset[Task]
NO_TASKS: Tasks = frozenset()


def tasks_of(role: TaskRole, ids: Iterable[TaskId]) -> Iterator[Task]:
    """Return tasks with these ids in this role."""
    return (Task(role, task_id) for task_id in ids)


def ids_of(tasks: Iterable[Task], role: TaskRole) -> frozenset[TaskId]:
    """Return the ids of the tasks in this role."""
    return frozenset(task.id for task in tasks if task.role is role)


def by_subtopology(tasks: Iterable[Task], role: TaskRole) -> Iterator[tuple[str, list[int]]]:
    """Yield each subtopology with the partitions of its tasks in this role. Both are sorted."""
    for subtopology_id, some in groupby(sorted(ids_of(tasks, role)), lambda task: task.subtopology_id):
        yield subtopology_id, [task.partition for task in some]


def to_message(kind: type[S], tasks: Iterable[Task], role: TaskRole) -> list[S]:
    """Return the tasks in this role as the structures of a message."""
    return [kind(subtopology_id=s, partitions=p) for s, p in by_subtopology(tasks, role)]  # type: ignore[call-arg]


def from_message(active: Iterable[Any], standby: Iterable[Any], warmup: Iterable[Any]) -> Tasks:
    """Return the tasks of a message's lists by role: the reverse of `to_message`."""
    lists = zip(TaskRole, (active, standby, warmup), strict=True)
    return frozenset(
        Task(role, TaskId(entry.subtopology_id, partition))
        for role, entries in lists
        for entry in entries
        for partition in entry.partitions
    )
