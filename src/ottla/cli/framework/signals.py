"""SIGTERM, SIGHUP and Ctrl+C end a command in order: it completes what it has begun, and closes its clients.

As in a JVM, which runs its shutdown hooks for these three and exits with 128 and the number of the signal. A signal
that the parent process has set to be ignored (nohup) stays ignored.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
KILLED: Final = 128
"""The exit code of a process that a signal has ended is so much higher than the signal, for shells as for Java."""

Handler = Callable[[int, FrameType | None], None]


class Terminated(KeyboardInterrupt):
    """A signal other than Ctrl+C ends the command; blocks are left, and so clients closed, as with Ctrl+C."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = KILLED + number


class Stop:
    """Whether a signal came."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self.number = 0
        self._begin = begin

    @property
    def exit_code(self) -> int:
        """0 where none came."""
        return KILLED + self.number if self.number else 0

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Begin to stop. A second signal does not wait for the end."""
        if self.number:
            raise KeyboardInterrupt
        self.number = number
        self._begin()


def heeded_signals() -> list[signal.Signals]:
    """Return the signals that end this process: all but those that its parent had it ignore."""
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def stopping(begin: Callable[[], None]) -> Iterator[Stop]:
    """A block in which the first signal calls `begin`, in the main thread, in the midst of what it does."""
    stop = Stop(begin)
    with _handling(stop.receive, heeded_signals()):
        yield stop


@contextmanager
def terminating() -> Iterator[None]:
    """A block that SIGTERM and SIGHUP end with Terminated; without effect outside the main thread."""

    def terminate(number: int, _frame: FrameType | None) -> None:
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
        for number, earlier in before:
            signal.signal(number, earlier)
