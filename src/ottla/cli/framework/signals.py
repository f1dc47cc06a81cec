"""SIGTERM, SIGHUP and Ctrl+C end a command gracefully: it completes its work and closes its clients.

As in a JVM, which runs its shutdown hooks on these signals and exits with 128 plus the number of the signal. A signal
that the parent process ignores (nohup) stays ignored.
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
"""Exit codes of processes ended by a signal are higher than the signal's number by this, in shells and in Java."""

Handler = Callable[[int, FrameType | None], None]


class Terminated(KeyboardInterrupt):
    """A signal other than Ctrl+C ends the command; like KeyboardInterrupt, it closes clients on its way out."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = KILLED + number


class GracefulShutdown:
    """Starts a shutdown on the first signal, and remembers its number (0 if there was none)."""

    def __init__(self, start: Callable[[], None]) -> None:
        self.number = 0
        self._start = start

    @property
    def exit_code(self) -> int:
        """The exit code: 128 plus the number of the signal, or 0 if there was none."""
        return KILLED + self.number if self.number else 0

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Start the shutdown. A second signal does not wait for its end."""
        if self.number:
            raise KeyboardInterrupt
        self.number = number
        self._start()


def heeded_signals() -> list[signal.Signals]:
    """Return the signals that end this process: all except those that its parent process ignores."""
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def stopping(start: Callable[[], None]) -> Iterator[GracefulShutdown]:
    """Call `start` on the first signal within the block; it interrupts the main thread anywhere."""
    stop = GracefulShutdown(start)
    with _handling(stop.receive, heeded_signals()):
        yield stop


@contextmanager
def terminating() -> Iterator[None]:
    """Raise Terminated on SIGTERM and SIGHUP within the block; no effect outside the main thread."""

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
        for number, previous in before:
            signal.signal(number, previous)
