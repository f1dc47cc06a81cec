"""Writes appends to the files of one log directory: on the event loop while the disk keeps up, otherwise in a thread.

A write to the page cache usually takes microseconds, but the kernel may make it wait for the disk: if there are too
many dirty pages, the journal is full, or the disk hangs. The first such write blocks the event loop. After it, all
appends to the directory are written by one thread in order, until its writes have been fast for a while. In Kafka, the
threads that handle requests wait for the disk.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.storage.files import LogFile
from ottla.storage.validation import DeferredAppendError

if TYPE_CHECKING:
    from typing_extensions import Buffer

log = logging.getLogger("ottla.storage")

SLOW_SECONDS: Final = 0.01
"""A write that takes longer than this, in seconds, is assumed to have waited for the disk."""
CALM_SECONDS: Final = 2.0
"""Time in seconds without a slow write after which the event loop writes again, once the queue is empty."""
MAX_QUEUED_BYTES: Final = 64 * 1024 * 1024
"""Number of queued bytes of a directory from which producers have to wait."""


class QueueFullError(DeferredAppendError):
    """A batch cannot be appended until the queue of writes has space."""


class QueuedWrite:
    """A write that the thread carries out. `error` and `seconds` are its result.

    After the write, `on_result` is called on the event loop with the QueuedWrite and its error, or None.
    """

    __slots__ = ("data", "error", "file", "is_finished", "on_result", "position", "seconds")

    def __init__(
        self, file: LogFile, position: int, data: bytes, on_result: Callable[[Any, OSError | None], None]
    ) -> None:
        self.file = file
        self.position = position
        self.data = data
        self.on_result = on_result
        self.error: Exception | None = None
        self.seconds = 0.0
        self.is_finished = False
        """Whether the thread has finished the write. The event loop may not have handled the result yet."""


class Thread(Protocol):
    """Runs one call at a time, in order."""

    def run_later(self, call: Callable[[], object], /) -> object:
        """Queue a call."""
        ...

    def wait(self) -> None:
        """Wait until all queued calls have run."""
        ...

    def shutdown(self, wait: bool = True) -> None:
        """End the thread after the queued calls."""
        ...


class WriterThread:
    """A thread that runs queued calls in order.

    It takes less time per call than an executor, which creates a future for each call and wakes up its waiters.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def run_later(self, call: Callable[[], object], /) -> None:
        """Queue a call, which must not raise an error."""
        self._calls.put(call)

    def wait(self) -> None:
        """Wait until all queued calls have run."""
        ended = threading.Event()
        self._calls.put(ended.set)
        ended.wait()

    def shutdown(self, wait: bool = True) -> None:
        """End the thread after the queued calls."""
        self._calls.put(None)
        if wait:
            self._thread.join()


class AppendWriter:
    """The writer of one log directory. Not thread-safe: event loop only."""

    def __init__(
        self, directory: Path, clock: Callable[[], float] = time.perf_counter, thread: Thread | None = None
    ) -> None:
        """`clock`: returns seconds.

        `thread`: runs one call at a time, in order; None: start one when the disk is slow.
        """
        self._directory = directory
        self._clock = clock
        self._slow_until: float | None = None
        """The time CALM_SECONDS after the last slow write; None before the first one, and after `keeps_up` has found
        that the time has passed.
        """
        self._thread = thread
        self._finished: deque[QueuedWrite] = deque()
        """The writes that the thread has finished, and whose results the event loop has not handled."""
        self._is_notified = False
        """Whether the event loop will handle the results, so that the thread need not wake it up for each of them."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self.queued = 0
        """Number of submitted writes whose results have not been handled."""
        self.queued_bytes = 0
        self.slow_writes = 0
        """Number of successful writes that took longer than SLOW_SECONDS."""

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
                "A write to %s took %.0f ms. Until the disk is faster, a thread writes to it, so that the event loop "
                "does not wait",
                self._directory,
                seconds * 1e3,
            )
        self._slow_until = now + CALM_SECONDS

    def submit(self, write: QueuedWrite) -> None:
        """Queue a write. Its `on_result` is called on the event loop."""
        if self._thread is None:
            self._thread = WriterThread(f"ottla-append-{self._directory.name}")
        self._loop = asyncio.get_running_loop()
        write.is_finished, write.error = False, None
        self.queued += 1
        self.queued_bytes += len(write.data)
        self._thread.run_later(functools.partial(self._run, write))

    def _run(self, write: QueuedWrite) -> None:
        """Carry out a write. Called in the writer thread."""
        began = self._clock()
        try:
            write.file.write(write.position, write.data)
        except Exception as error:
            write.error = error
        write.seconds = self._clock() - began
        write.is_finished = True
        self._finished.append(write)
        if not self._is_notified:
            self._is_notified = True
            loop = self._loop
            assert loop is not None
            try:
                loop.call_soon_threadsafe(self._handle_results)
            except RuntimeError:  # the event loop is closed, so nothing waits for the result
                return

    def _handle_results(self) -> None:
        # The order matters: a write that is finished from here on wakes the event loop up again.
        self._is_notified = False
        try:
            while self._finished:
                self._handle_result(self._finished.popleft())
        except BaseException:
            asyncio.get_running_loop().call_soon(self._handle_results)
            raise
        if not self.is_full:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def _handle_result(self, write: QueuedWrite) -> None:
        self.queued -= 1
        self.queued_bytes -= len(write.data)
        error = write.error
        if error is None and write.seconds > SLOW_SECONDS:
            self._on_slow_write(write.seconds)
        write.on_result(write, error if error is None or isinstance(error, OSError) else OSError(str(error)))

    def wait(self, writes: Iterable[QueuedWrite]) -> None:
        """Wait until the thread has finished these writes, or raise the error of the first one that has failed."""
        for write in writes:
            if not write.is_finished:
                assert self._thread is not None
                self._thread.wait()
            if write.error is not None:
                raise write.error

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
