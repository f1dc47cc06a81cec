"""Runs in parallel, each in a child process."""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import traceback
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple, cast

from ottla.simulation.runner import Plan, RunOutcome, run


class Child(NamedTuple):
    """A child process, and the plan that it runs."""

    pid: int
    plan: Plan


def in_children(plans: Iterator[Plan], jobs: int, prepare: Callable[[], object] = lambda: None) -> Iterator[RunOutcome]:
    """Run each plan in a child process, which inherits the codecs compiled here. The child calls `prepare` first."""
    return (outcome for _, outcome in with_plans(plans, jobs, prepare))


def with_plans(
    plans: Iterator[Plan], jobs: int, prepare: Callable[[], object] = lambda: None
) -> Iterator[tuple[Plan, RunOutcome]]:
    """Like `in_children`, but yield each plan with its outcome. If the caller stops early, the remaining runs are
    ended.
    """
    selector = selectors.DefaultSelector()
    try:
        while True:
            while len(selector.get_map()) < jobs and (plan := next(plans, None)) is not None:
                pid, pipe = _fork(plan, prepare)
                selector.register(pipe, selectors.EVENT_READ, Child(pid, plan))
            if not selector.get_map():
                return
            for key, _ in selector.select():
                with cast(BinaryIO, key.fileobj) as file:
                    selector.unregister(file)
                    content = file.read()
                child: Child = key.data
                os.waitpid(child.pid, 0)
                outcome: RunOutcome = pickle.loads(content)  # written by our own child
                yield child.plan, outcome
    finally:
        for key in list(selector.get_map().values()):
            os.kill(key.data.pid, signal.SIGKILL)
            os.waitpid(key.data.pid, 0)
            cast(BinaryIO, key.fileobj).close()
        selector.close()


def _fork(plan: Plan, prepare: Callable[[], object]) -> tuple[int, BinaryIO]:
    """Start a child process. Return its process id and the pipe through which it sends its outcome."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, os.fdopen(reading, "rb")
    try:
        prepare()
        outcome = run(plan)
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(outcome, pipe)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)
