"""The flushes of the logs in one log directory: their threads, their durations, and warnings if the disk is slow.

Each directory has threads of its own, because a flush blocks its thread as long as the disk hangs. Flushes to other
disks, and the broker's workers, which validate large batches, must not wait for that.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from ottla.latency import LatencyHistogram
from ottla.model import TopicPartition

log = logging.getLogger("ottla.storage")

THREADS: Final = 8
"""Number of threads for the flushes of a directory: the default of `num.io.threads`."""
SLOW_SECONDS: Final = 0.5
"""Duration in seconds above which a flush that acknowledgements wait for is slow."""
HANG_SECONDS: Final = 10.0
"""Duration in seconds from which `check` reports a flush that acknowledgements wait for and that has not returned."""
REPEAT_SECONDS: Final = 60.0
"""Minimum time in seconds between two warnings about a directory.

Also the time without a slow flush after which the disk counts as fast again.
"""


class RunningFlush(NamedTuple):
    """A flush that has not returned yet."""

    topic_partition: TopicPartition
    began: float
    is_awaited: bool


class LogFlusher:
    """The flushes of one log directory. Thread-safe."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.perf_counter) -> None:
        """`clock`: returns seconds."""
        self._directory = directory
        self._clock = clock
        self.workers = ThreadPoolExecutor(THREADS, f"ottla-flush-{directory.name}")
        self.times = LatencyHistogram()
        self.slow_flushes = 0
        """Number of flushes that took longer than SLOW_SECONDS while acknowledgements waited for them."""
        self._running: dict[int, RunningFlush] = {}
        self._next_id = 0
        self._lock = Lock()
        self._slow_at = 0.0
        """The time at which the last slow flush returned, if `_unreported` is not None."""
        self._unreported: int | None = None
        """The number of slow flushes since the last warning; None while the disk is fast."""
        self._warn_at = 0.0

    @contextmanager
    def measured(self, tp: TopicPartition, *, is_awaited: bool) -> Iterator[None]:
        """Measure the flush in the block (context manager), unless it raises an error.

        `is_awaited`: whether acknowledgements wait for the flush. Only such a flush is reported if it is slow, because
        others may take long: for example, the flush of a closed segment of a gigabyte.
        """
        began = self._clock()
        with self._lock:
            self._next_id += 1
            flush_id = self._next_id
            self._running[flush_id] = RunningFlush(tp, began, is_awaited)
        try:
            yield
        finally:
            del self._running[flush_id]
        seconds = self._clock() - began
        self.times.record(seconds)
        if is_awaited and seconds > SLOW_SECONDS:
            self._on_slow(tp, seconds)
        elif self._unreported is not None:
            self._on_fast()

    def _on_slow(self, tp: TopicPartition, seconds: float) -> None:
        with self._lock:
            self.slow_flushes += 1
            now = self._clock()
            if self._unreported is None:
                self._unreported = 0
            self._slow_at = now
            self._unreported += 1
            if now < self._warn_at:
                return
            self._warn_at, number, self._unreported = now + REPEAT_SECONDS, self._unreported, 0
        more = f" ({number} flushes were slow since the last warning)" if number > 1 else ""
        log.warning(
            "The disk of %s is slow: flushing %s took %.0f ms, and producers may have waited%s",
            self._directory,
            tp,
            seconds * 1e3,
            more,
        )

    def _on_fast(self) -> None:
        with self._lock:
            now = self._clock()
            running = list(self._running.values())
            is_slow = any(flush.is_awaited and now - flush.began > SLOW_SECONDS for flush in running)
            if is_slow or self._unreported is None or now - self._slow_at < REPEAT_SECONDS:
                return
            self._unreported = None
            seconds = now - self._slow_at
        log.info(
            "The disk of %s is fast again: producers have not waited for a slow flush in the last %.0f s",
            self._directory,
            seconds,
        )

    def longest_running_seconds(self) -> float:
        """Return how long the oldest flush that has not returned has been running; 0 if there is none."""
        running = list(self._running.values())
        return self._clock() - min(flush.began for flush in running) if running else 0.0

    def check(self) -> None:
        """Warn if acknowledgements have waited for a flush for HANG_SECONDS. To be called every few seconds.

        Do nothing within REPEAT_SECONDS after a warning.
        """
        awaited = [flush for flush in list(self._running.values()) if flush.is_awaited]
        now = self._clock()
        if not awaited or now < self._warn_at:
            return
        oldest = min(awaited, key=lambda flush: flush.began)
        if now - oldest.began < HANG_SECONDS:
            return
        self._warn_at = now + REPEAT_SECONDS
        log.warning(
            "The disk of %s hangs: the flush of %s has not returned for %.0f s, and producers of at least %d "
            "partition(s) may be waiting",
            self._directory,
            oldest.topic_partition,
            now - oldest.began,
            len({flush.topic_partition for flush in awaited}),  # others wait for a thread
        )

    def close(self) -> None:
        """Wait for the flushes, and end the threads."""
        self.workers.shutdown(wait=True)
