"""Simulated processes. A process owns callbacks, tasks and sockets, which end, pause or continue with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context, ContextVar, copy_context
from enum import Enum
from typing import Any, Final, TypeVar

T = TypeVar("T")
TASKS_BETWEEN_PRUNES: Final = 500


class ProcessState(Enum):
    """The states of a process: its callbacks run, wait, or are dropped."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class Process:
    """One run of a program on a host, from its start to its death."""

    def __init__(self, name: str, host: str) -> None:
        """Create a process. `host` is an IP address."""
        self.name = name
        self.host = host
        self.state = ProcessState.RUNNING
        self.clock_offset_ms = 0
        """The number of milliseconds by which the process's wall clock is ahead of the virtual time; it may jump."""
        self.workers: Executor | None = None
        """The default executor of the event loop for this process; None before its first use."""
        self.on_death: list[Callable[[], None]] = []
        """Called when the process dies, to do what the kernel does, such as closing its sockets and releasing its
        locks.
        """
        self.deferred: list[asyncio.Handle] = []
        """Callbacks that were due while the process was paused."""
        self.remains: list[Any] = []
        """The callbacks and tasks of a dead process. Without these references, suspended coroutines would be freed and
        run their `finally` blocks.
        """
        self._tasks: list[asyncio.Task[Any]] = []
        self._next_prune = TASKS_BETWEEN_PRUNES
        self._context: Context | None = None

    def __repr__(self) -> str:
        return f"<Process {self.name} {self.state.value}>"

    @property
    def context(self) -> Context:
        """A context in which all callbacks and tasks belong to this process."""
        if self._context is None:
            self._context = copy_context()
            self._context.run(PROCESS.set, self)
        return self._context

    def run(self, call: Callable[..., T], *arguments: Any) -> T:
        """Call a function as part of this process, and return its result."""
        return self.context.copy().run(call, *arguments)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task of this process on the running event loop."""
        return asyncio.get_running_loop().create_task(work, context=self.context.copy())

    def add_task(self, task: asyncio.Task[Any]) -> None:
        """Keep a reference to a task, so that it is not freed when the process dies."""
        self._tasks.append(task)
        if len(self._tasks) >= self._next_prune:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._next_prune = len(self._tasks) + TASKS_BETWEEN_PRUNES

    @property
    def open_tasks(self) -> list[asyncio.Task[Any]]:
        """The tasks that are not done."""
        return [task for task in self._tasks if not task.done()]

    def kill(self) -> None:
        """End the process immediately, as `kill -9` does: none of its code runs afterwards."""
        if self.state is ProcessState.DEAD:
            return
        self.state = ProcessState.DEAD
        self.remains += [*self.deferred, *self._tasks]
        self.deferred.clear()
        for callback in self.on_death:
            callback()

    def pause(self) -> None:
        """Pause the process, as SIGSTOP does, if it is running. Its sockets stay open."""
        if self.state is ProcessState.RUNNING:
            self.state = ProcessState.PAUSED


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)
"""The process whose code is running; None for the simulator's own."""


def current() -> Process:
    """Return the process whose code is running. Raises AssertionError if there is none."""
    process = PROCESS.get()
    assert process is not None, "this code does not run in a simulated process"
    return process
