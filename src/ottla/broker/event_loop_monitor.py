"""Counts and logs stalls: times in which the event loop is blocked, so that every client of the broker has to wait.

A thread repeatedly schedules a callback on the event loop, and waits for it. If this takes longer than a threshold, the
thread logs which code the event loop is running. It logs a long stall while it still lasts, because neither the HTTP
listener nor the metrics can show it then. If the thread itself did not run, either the whole process did not run
(SIGSTOP, swapping, too few cores), or a call held the lock of Python's interpreter.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Final, Self

from ottla.logs import RateLimitFilter

log = logging.getLogger("ottla.broker")
log.addFilter(RateLimitFilter())

PAUSE_SECONDS: Final = 0.05
"""Time in seconds between a callback and the next one. A stall is measured too short by up to this time."""
STOPPED_SECONDS: Final = 1.0
"""Minimum pause of the monitor's thread, in seconds, that counts as a stall, if the threshold is not larger.

Shorter pauses are normal on a busy machine.
"""
FIRST_REPORT_SECONDS: Final = 5.0
"""Time in seconds after which a stall that has not ended is logged."""
REPORT_SECONDS: Final = 30.0
"""Interval in seconds at which a stall that has not ended is logged again."""
FRAMES: Final = 5
"""Number of innermost stack frames that a log line shows."""


class EventLoopMonitor:
    """Context manager that monitors the running event loop."""

    def __init__(self, threshold_seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._threshold = threshold_seconds
        self._monotonic = monotonic
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ottla-event-loop-monitor", daemon=True)
        self.stalls = 0
        """The number of stalls longer than the threshold."""
        self.stalled_seconds = 0.0
        """The total duration in seconds of the stalls that `stalls` counts."""
        self.longest_stall_seconds = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()

    def _watch(self) -> None:
        ran_at, cpu_seconds = self._monotonic(), time.process_time()
        while not self._closed.wait(PAUSE_SECONDS):
            answered = threading.Event()
            began = self._monotonic()
            late = began - ran_at - PAUSE_SECONDS
            if late > max(self._threshold, STOPPED_SECONDS):
                self._on_stop(late, time.process_time() - cpu_seconds)
            ran_at, cpu_seconds = began, time.process_time()
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # the event loop is closed
                return
            if answered.wait(self._threshold):
                continue
            place = _place(sys._current_frames().get(self._thread_id))
            report_at = began + FIRST_REPORT_SECONDS
            while not answered.wait(1.0):
                if self._closed.is_set():
                    return
                if self._monotonic() >= report_at:
                    report_at += REPORT_SECONDS
                    self._report_hang(self._monotonic() - began)
            ran_at, cpu_seconds = self._monotonic(), time.process_time()
            self._on_stall(ran_at - began, place)

    def _report_hang(self, seconds: float) -> None:
        log.warning(
            "The event loop has been blocked for %.0f s, and no client is served. It is running: %s. If the last of "
            "these functions reads, writes or flushes a file, the disk probably hangs.",
            seconds,
            _place(sys._current_frames().get(self._thread_id)),
        )

    def _on_stop(self, seconds: float, cpu_seconds: float) -> None:
        self._count(seconds)
        if cpu_seconds < seconds / 2:
            log.warning(
                "The process did not run for %.1f s; no client was served meanwhile. Possible causes: it was stopped, "
                "its machine had too few cores, or its memory was swapped out",
                seconds,
            )
        else:
            log.warning(
                "No client was served for %.1f s: probably a call held Python's global interpreter lock (GIL), so that "
                "no other code ran",
                seconds,
            )

    def _count(self, seconds: float) -> None:
        self.stalls += 1
        self.stalled_seconds += seconds
        self.longest_stall_seconds = max(self.longest_stall_seconds, seconds)

    def _on_stall(self, seconds: float, place: str) -> None:
        self._count(seconds)
        log.warning(
            "The event loop was blocked for %.0f ms, probably by a slow call, or because the machine has too few "
            "cores; no client was served meanwhile. It was running: %s",
            seconds * 1e3,
            place,
        )


def _place(frame: FrameType | None) -> str:
    """Return a description of the innermost stack frames: files, line numbers and functions."""
    stack = traceback.extract_stack(frame)[-FRAMES:] if frame is not None else []
    return " > ".join(f"{entry.filename.rpartition('/')[2]}:{entry.lineno} {entry.name}" for entry in stack)
