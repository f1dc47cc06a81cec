"""SIGTERM, SIGHUP and Ctrl+C end a command gracefully: it closes its clients. A command that uses `stopping` first
completes what it has begun.

The exit code is then 128 plus the number of the signal, as for a JVM after its shutdown hooks, or 0 for some
commands, such as `ottla broker`. A signal that the process ignores from its start, for example because of nohup, stays
ignored.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
REPEATED_SECONDS: Final = 0.5
"""Time in seconds after the first signal within which the same signal counts as a copy: `timeout` of coreutils, for
example, signals its child and then the child's process group.
"""
KILLED: Final = 128
"""The exit code of a process that a signal has ended is this plus the signal's number, in shells and in Java."""

Handler = Callable[[int, FrameType | None], None]


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM and SIGHUP by `terminating`. Like KeyboardInterrupt, it lets the command close its clients and
    end.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = KILLED + number


class GraceExpired(KeyboardInterrupt):
    """Raised in the main thread if a command has not ended within its grace period after a signal."""


class GracefulShutdown:
    """The state of a command that ends on a signal. `number` is the number of the first signal, 0 before it.

    Args:
        start: called on the first signal; makes the command end.
        grace_seconds: time in seconds from the signal until GraceExpired is raised; None for no limit.
    """

    def __init__(self, start: Callable[[], None], grace_seconds: float | None = None) -> None:
        self.number = 0
        self._received_at = 0.0
        self.has_ended = False
        """Set when the block of `stopping` ends, if there is a grace period, which then no longer applies."""
        self._start = start
        self._grace_seconds = grace_seconds

    @property
    def exit_code(self) -> int:
        """The exit code: 128 plus the number of the signal, or 0 if there was none."""
        return KILLED + self.number if self.number else 0

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal. The first one starts the grace period, if any, and calls `start`. A later one raises
        KeyboardInterrupt, which ends the command without waiting for its shutdown, unless it is a copy of the first
        one.
        """
        now = time.monotonic()
        if self.number:
            if number == self.number and now - self._received_at < REPEATED_SECONDS:
                return
            raise KeyboardInterrupt
        self.number, self._received_at = number, now
        self._set_timer()
        self._start()

    def expire(self, _number: int, _frame: FrameType | None) -> None:
        """Raise GraceExpired at the end of the grace period, and start the period again, for the closing of clients. Do
        nothing if the block of `stopping` has ended.
        """
        if not self.has_ended:
            self._set_timer()
            raise GraceExpired

    def _set_timer(self) -> None:
        if self._grace_seconds is not None and not self.has_ended:
            signal.setitimer(signal.ITIMER_REAL, self._grace_seconds)


def heeded_signals() -> list[signal.Signals]:
    """Return those of SIGNALS that this process does not ignore, as it may, for example, because of nohup."""
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def stopping(start: Callable[[], None], grace_seconds: float | None = None) -> Iterator[GracefulShutdown]:
    """Context manager: call `start` on the first signal within the block. It is called in the main thread, at any
    point. If the block has not ended `grace_seconds` later, GraceExpired is raised in it; None for no limit.

    A second signal raises KeyboardInterrupt, unless it is a copy of the first one (REPEATED_SECONDS). Use this only in
    the main thread.
    """
    stop = GracefulShutdown(start, grace_seconds)
    with _handling(stop.receive, heeded_signals()):
        if grace_seconds is None:
            yield stop
            return
        with _handling(stop.expire, [signal.SIGALRM]):
            try:
                yield stop
            finally:
                # First, because a handler may run in each call: a timer that it sets would end the process.
                stop.has_ended = True
                signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def terminating() -> Iterator[None]:
    """Context manager: raise Terminated on SIGTERM and SIGHUP within the block, unless the process ignores them. A copy
    of the first signal (REPEATED_SECONDS) has no effect. Outside the main thread, no signal has.
    """
    first: tuple[int, float] | None = None

    def terminate(number: int, _frame: FrameType | None) -> None:
        nonlocal first
        now = time.monotonic()
        if first is not None and number == first[0] and now - first[1] < REPEATED_SECONDS:
            return
        first = first or (number, now)
        raise Terminated(number)

    in_main = threading.current_thread() is threading.main_thread()
    with _handling(terminate, [n for n in heeded_signals() if n != signal.SIGINT] if in_main else []):
        yield


@contextmanager
def _handling(handler: Handler, numbers: list[signal.Signals]) -> Iterator[None]:
    before = [(number, signal.signal(number, handler)) for number in numbers]
    try:
        yield
    finally:
        for number, previous in before:
            signal.signal(number, previous)
