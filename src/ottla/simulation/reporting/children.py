"""Runs in parallel, each in a child process."""

from __future__ import annotations

import faulthandler
import os
import pickle
import selectors
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, NamedTuple, cast

from ottla.simulation.runner import Plan, RunOutcome, remove_directories, run

MAX_SECONDS: Final = 900.0
"""Time in seconds after which a child is ended: it probably hangs where `watchdog.watched` has no effect, as in C code.
"""
GRACE_SECONDS: Final = 10.0
"""Time in seconds that a child has to print its stack before it is killed."""


class Child(NamedTuple):
    """A child process, and the plan that it runs."""

    pid: int
    plan: Plan
    ends: float
    """The time on the monotonic clock at which the child is ended if it still runs."""
    signal: signal.Signals = signal.SIGUSR1
    """The signal with which the child is ended. After SIGUSR1, `faulthandler` prints its stack."""

    def outcome(self, content: bytes) -> RunOutcome:
        """Wait for the end of the child. Return the outcome that it has written, which is in `content`. If there is
        none, or a signal has ended the child, remove its directories and return an outcome with a violation.
        """
        _, status = os.waitpid(self.pid, 0)
        if content and not status:
            outcome: RunOutcome = pickle.loads(content)  # written by our own child
            return outcome
        remove_directories(self.pid)
        error = f"the child ended with {os.waitstatus_to_exitcode(status)}, see its standard error"
        return RunOutcome(self.plan.seed, [f"the run ends: {error}"], "", 0.0, 0.0, 0, 0, [], [])


def in_children(plans: Iterator[Plan], jobs: int, prepare: Callable[[], object] = lambda: None) -> Iterator[RunOutcome]:
    """Run each plan in a child process, up to `jobs` at a time, and yield the outcomes in the order in which the runs
    end. A child inherits the codecs compiled here, and calls `prepare` first.
    """
    return (outcome for _, outcome in with_plans(plans, jobs, prepare))


def with_plans(
    plans: Iterator[Plan],
    jobs: int,
    prepare: Callable[[], object] = lambda: None,
    max_seconds: float = MAX_SECONDS,
) -> Iterator[tuple[Plan, RunOutcome]]:
    """Run each plan in a child process, as `in_children` does, and yield it with its outcome. If the caller closes the
    generator, the remaining runs are killed. Runs that take longer than `max_seconds` are ended as well: they print
    their stack, and count as broken.
    """
    selector = selectors.DefaultSelector()
    try:
        while True:
            while len(selector.get_map()) < jobs and (plan := next(plans, None)) is not None:
                pid, pipe = _fork(plan, prepare)
                selector.register(pipe, selectors.EVENT_READ, Child(pid, plan, time.monotonic() + max_seconds))
            if not selector.get_map():
                return
            ready = selector.select(max(0.0, min(key.data.ends for key in _keys(selector)) - time.monotonic()))
            if not ready:
                _end_late(selector)
            for key, _ in ready:
                with cast(BinaryIO, key.fileobj) as file:
                    selector.unregister(file)
                    content = file.read()
                yield key.data.plan, key.data.outcome(content)
    finally:
        for key in _keys(selector):
            os.kill(key.data.pid, signal.SIGKILL)
            os.waitpid(key.data.pid, 0)
            remove_directories(key.data.pid)
            cast(BinaryIO, key.fileobj).close()
        selector.close()


def _keys(selector: selectors.BaseSelector) -> list[selectors.SelectorKey]:
    return list(selector.get_map().values())


def _end_late(selector: selectors.BaseSelector) -> None:
    """Make children that take too long print their stack and end. Kill them if they have not ended GRACE_SECONDS
    later.
    """
    now = time.monotonic()
    for key in _keys(selector):
        child: Child = key.data
        if child.ends <= now:
            os.kill(child.pid, child.signal)
            later = child._replace(ends=now + GRACE_SECONDS, signal=signal.SIGKILL)
            selector.modify(key.fileobj, selectors.EVENT_READ, later)


def _fork(plan: Plan, prepare: Callable[[], object]) -> tuple[int, BinaryIO]:
    """Start a child process. Return its process id and the pipe through which it sends its outcome."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, os.fdopen(reading, "rb")
    try:
        faulthandler.register(signal.SIGUSR1, chain=True)
        prepare()
        outcome = run(plan)
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(outcome, pipe)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)
