"""SIGTERM and Ctrl+C end a command in order: it brings what it has begun to its end, and tells of it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
KILLED: Final = 128
"""The exit code of a process that a signal has ended is so much higher than the signal, for shells as for Java."""


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


@contextmanager
def stopping(begin: Callable[[], None]) -> Iterator[Stop]:
    """A block in which the first signal calls `begin`, in the main thread, in the midst of what it does."""
    stop = Stop(begin)
    before = [(number, signal.signal(number, stop.receive)) for number in SIGNALS]
    try:
        yield stop
    finally:
        for number, handler in before:
            signal.signal(number, handler)
