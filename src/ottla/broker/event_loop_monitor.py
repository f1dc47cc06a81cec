"""Counts and logs stalls: times in which the event loop is blocked, so that every client of the broker has to wait.

A thread repeatedly schedules a callback on the event loop, and waits for it. If this takes longer than a threshold, the
thread logs which code the event loop is running.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from types import FrameType, TracebackType
from typing import Final, Self

from ottla.logs import RateLimitFilter

log = logging.getLogger("ottla.broker")
log.addFilter(RateLimitFilter())

PAUSE_SECONDS: Final = 0.05
"""Time in seconds between a callback and the next one. A stall is measured too short by up to this time."""
FRAMES: Final = 5
"""Number of innermost stack frames that a log line shows."""


class EventLoopMonitor:
    """Context manager that monitors the running event loop."""

    def __init__(self, threshold_seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._threshold = threshold_seconds
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ottla-event-loop-monitor", daemon=True)
        self.stalls = 0
        """The number of stalls longer than the threshold."""
        self.stalled_seconds = 0.0
        """The total duration of these stalls in seconds."""
        self.longest_stall_seconds = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(PAUSE_SECONDS):
            answered = threading.Event()
            began = time.monotonic()
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # the event loop is closed
                return
            if answered.wait(self._threshold):
                continue
            place = _place(sys._current_frames().get(self._thread_id))
            while not answered.wait(1.0):
                if self._closed.is_set():
                    return
            self._on_stall(time.monotonic() - began, place)

    def _on_stall(self, seconds: float, place: str) -> None:
        self.stalls += 1
        self.stalled_seconds += seconds
        self.longest_stall_seconds = max(self.longest_stall_seconds, seconds)
        log.warning(
            "The event loop was blocked for %.0f ms; no client was served meanwhile. Blocked at: %s",
            seconds * 1e3,
            place,
        )


def _place(frame: FrameType | None) -> str:
    """Return a description of the innermost stack frames: files, line numbers and functions."""
    stack = traceback.extract_stack(frame)[-FRAMES:] if frame is not None else []
    return " > ".join(f"{entry.filename.rpartition('/')[2]}:{entry.lineno} {entry.name}" for entry in stack)
