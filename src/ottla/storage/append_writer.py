"""Writes appends to the files of one log directory: on the event loop while the disk keeps up, otherwise in a thread.

A write to the page cache usually takes microseconds, but the kernel may make it wait for the disk: if there are too
many dirty pages, the journal is full, or the disk hangs. The first such write blocks the event loop. After it, all
appends to the directory are written by one thread in order, until its writes have been fast for a while. In Kafka, the
threads that handle requests wait for the disk.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.storage.files import LogFile
from ottla.storage.validation import DeferredAppendError

if TYPE_CHECKING:
    from typing_extensions import Buffer

log = logging.getLogger("ottla.storage")

SLOW_SECONDS: Final = 0.01
"""A write that takes longer than this, in seconds, is assumed to have waited for the disk."""
CALM_SECONDS: Final = 2.0
"""Time in seconds without a slow write after which the event loop writes again."""
MAX_QUEUED_BYTES: Final = 64 * 1024 * 1024
"""Number of queued bytes of a directory from which producers have to wait."""


class QueueFullError(DeferredAppendError):
    """A batch cannot be appended until the queue of writes has space."""


Result = Callable[[OSError | None], None]
"""Called on the event loop after a queued write, with its error, or None."""


class AppendWriter:
    """The writer of one log directory. Not thread-safe: event loop only."""

    def __init__(
        self, directory: Path, clock: Callable[[], float] = time.perf_counter, thread: Executor | None = None
    ) -> None:
        """`clock`: returns seconds.

        `thread`: an executor that runs one call at a time, in order; None: start one when the disk is slow.
        """
        self._directory = directory
        self._clock = clock
        self._slow_until: float | None = None
        """The time until which the thread writes, if there is no further slow write; None while the disk keeps up."""
        self._thread = thread
        self._waiters: list[asyncio.Future[None]] = []
        self.queued = 0
        """Number of writes in the queue."""
        self.queued_bytes = 0
        self.slow_writes = 0
        """Number of writes that took longer than SLOW_SECONDS."""

    @property
    def keeps_up(self) -> bool:
        """Whether the next append is written on the event loop."""
        if self._slow_until is not None and self._clock() >= self._slow_until:
            self._slow_until = None
        return self._slow_until is None and not self.queued

    @property
    def is_full(self) -> bool:
        """Whether the queue has reached its limit, so that producers have to wait."""
        return self.queued_bytes >= MAX_QUEUED_BYTES

    def write(self, file: LogFile, position: int, data: Buffer) -> bool:
        """Write on the event loop and return True, or return False if the disk does not keep up. Raises OSError."""
        if (self.queued or self._slow_until is not None) and not self.keeps_up:
            return False
        began = self._clock()
        file.write(position, data)
        seconds = self._clock() - began
        if seconds > SLOW_SECONDS:
            self._on_slow_write(seconds)
        return True

    def _on_slow_write(self, seconds: float) -> None:
        self.slow_writes += 1
        now = self._clock()
        if self._slow_until is None:
            log.info(
                "A write to %s took %.0f ms; a thread writes to it until the disk is faster",
                self._directory,
                seconds * 1e3,
            )
        self._slow_until = now + CALM_SECONDS

    def submit(self, file: LogFile, position: int, data: bytes, on_result: Result) -> Future[float]:
        """Queue a write. Return a future of its duration in seconds. `on_result` is called on the event loop."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, f"ottla-append-{self._directory.name}")
        loop = asyncio.get_running_loop()
        self.queued += 1
        self.queued_bytes += len(data)

        def write() -> float:
            began = self._clock()
            file.write(position, data)
            return self._clock() - began

        def on_done(done: Future[float]) -> None:
            try:
                loop.call_soon_threadsafe(self._on_done, done, len(data), on_result)
            except RuntimeError:  # the event loop is closed, so nothing waits for the result
                return

        queued = self._thread.submit(write)
        queued.add_done_callback(on_done)
        return queued

    def _on_done(self, done: Future[float], nbytes: int, on_result: Result) -> None:
        self.queued -= 1
        self.queued_bytes -= nbytes
        error = done.exception()
        if error is None and done.result() > SLOW_SECONDS:
            self._on_slow_write(done.result())
        on_result(error if error is None or isinstance(error, OSError) else OSError(str(error)))
        if not self.is_full:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def wait_for_space(self) -> None:
        """Wait until the queue is below its limit."""
        while self.is_full:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def close(self) -> None:
        """Let the thread end after the queued writes. Do not wait for it."""
        if self._thread is not None:
            self._thread.shutdown(wait=False)
            self._thread = None
