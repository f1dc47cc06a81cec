"""What peers can make us write to the log is bounded: who sends garbage all day must not fill a disk with it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

WINDOW_SECONDS = 10.0
PER_WINDOW = 20
"""Lines of one kind in a window; what is more is counted, and told with the next line that is let through."""


class FloodFilter(logging.Filter):
    """Lets so many lines of one kind (the text before its arguments) through in each window of time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._windows: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        now = self._clock()
        kind = str(record.msg)
        began, count = self._windows.get(kind, (now, 0))
        if now - began >= WINDOW_SECONDS:
            if count > PER_WINDOW:
                record.msg = f"{record.msg} (and {count - PER_WINDOW} more like this were not written)"
            began, count = now, 0
        self._windows[kind] = (began, count + 1)
        return count < PER_WINDOW
