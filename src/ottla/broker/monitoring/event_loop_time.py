"""Measures the time that the event loop waits for sockets and timers: the idle time of a broker."""

from __future__ import annotations

import selectors
import time
from typing import Any, Final

WINDOW_SECONDS: Final = 15.0
"""Minimum size of a window in seconds. A window ends when the idle fraction is read after that time."""


class EventLoopTime(selectors.DefaultSelector):
    """A selector for an event loop that measures the time it waits.

    It reads the clock twice per iteration of the loop.
    """

    def __init__(self) -> None:
        super().__init__()
        self.idle_seconds = 0.0
        self.woken_at = self.began_at = time.perf_counter()
        """`woken_at`: the end of the last wait. `began_at`: the start of the measurement. Both are in seconds of
        `time.perf_counter`.
        """
        self._marks = [(self.began_at, 0.0), (self.began_at, 0.0)]
        """Time and total idle seconds at the start of the previous window and of the current one."""

    def select(self, timeout: float | None = None) -> Any:
        began = time.perf_counter()
        events = super().select(timeout)
        self.woken_at = now = time.perf_counter()
        self.idle_seconds += now - began
        return events

    @property
    def busy_seconds(self) -> float:
        """Seconds that the event loop did not wait, from the start of the measurement to the end of the last wait."""
        return self.woken_at - self.began_at - self.idle_seconds

    def idle_fraction(self) -> float:
        """Return the fraction of time, 0 to 1, that the event loop waited since the previous window began."""
        now = time.perf_counter()
        since, idle = self._marks[0]
        fraction = (self.idle_seconds - idle) / max(now - since, 1e-6)
        if now - self._marks[1][0] >= WINDOW_SECONDS:
            self._marks = [self._marks[1], (now, self.idle_seconds)]
        return min(1.0, fraction)
