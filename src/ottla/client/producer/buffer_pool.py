"""Memory for batches, bounded by buffer.memory. Kafka's `BufferPool`.

Buffers of batch.size are kept for the next batch; others are only counted. When memory is short, those who want some
wait in a line: the first in line is served first, even when a later one wants less.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from ottla.errors import BufferExhaustedError, IllegalStateError


class Waiter:
    """Somebody in line. `granted` is called once, without any lock, when the memory is set aside."""

    __slots__ = ("granted", "ready", "size")

    def __init__(self, size: int, granted: Callable[[], None]) -> None:
        self.size = size
        self.granted = granted
        self.ready = False


class BufferPool:
    """`total` bytes, of which buffers of `poolable` bytes are kept when they come back. Thread-safe."""

    def __init__(self, total: int, poolable: int) -> None:
        self.total = total
        self.poolable = poolable
        self._available = total
        """Bytes that are neither in use nor in a kept buffer."""
        self._free: deque[bytearray] = deque()
        self._waiters: deque[Waiter] = deque()
        self._lock = threading.Lock()
        self.closed = False
        """Whether nobody gets memory any more who has not got it."""

    @property
    def available(self) -> int:
        """Bytes that could be given out."""
        with self._lock:
            return self._available + len(self._free) * self.poolable

    @property
    def queued(self) -> int:
        """How many wait."""
        return len(self._waiters)

    def try_allocate(self, size: int) -> bytearray | None:
        """A buffer of `size` bytes; None when somebody has to wait for it."""
        with self._lock:
            if self._waiters:
                return None
            if size == self.poolable and self._free:
                return self._free.pop()
            if not self._reserve(size):
                return None
        return bytearray(size)

    def wait(self, size: int, granted: Callable[[], None]) -> Waiter | None:
        """Get in line; None when the memory is there after all (it is set aside then: `take` it)."""
        waiter = Waiter(size, granted)
        with self._lock:
            if self.closed:
                raise closed_error()
            if not self._waiters and self._reserve(size):
                return None
            self._waiters.append(waiter)
        return waiter

    def allocate(self, size: int) -> bytearray:
        """The buffer for memory that was set aside."""
        return bytearray(size)

    def cancel(self, waiter: Waiter) -> bool:
        """Get out of the line; True when the memory was set aside in the meantime, and is the caller's."""
        with self._lock:
            if waiter.ready:
                return True
            if waiter in self._waiters:  # it is not after close
                self._waiters.remove(waiter)
            served = self._serve()
        _notify(served)
        return False

    def collect(self, waiter: Waiter) -> bytearray:
        """The buffer of somebody who has waited long enough.

        Raises BufferExhaustedError where the memory was not set aside by now, IllegalStateError after close.
        """
        if self.cancel(waiter):
            return self.allocate(waiter.size)
        if self.closed:
            raise closed_error()
        raise BufferExhaustedError(
            f"no room for {waiter.size} bytes within max.block.ms: buffer.memory is {self.total},"
            f" {self.available} bytes are free"
        )

    def cancel_and_release(self, waiter: Waiter) -> None:
        """Get out of the line for good: what was set aside goes back."""
        if self.cancel(waiter):
            self.release(bytearray(waiter.size))

    def close(self) -> None:
        """Send everybody in line away: `granted` is called, and nothing is set aside."""
        with self._lock:
            self.closed = True
            waiters = list(self._waiters)
            self._waiters.clear()
        _notify(waiters)

    def release(self, buffer: bytearray) -> None:
        """Give a buffer back. Nobody may look at it any more."""
        with self._lock:
            if len(buffer) == self.poolable and not self._waiters:
                self._free.append(buffer)
                return
            self._available += len(buffer)
            served = self._serve()
        _notify(served)

    def exchange(self, buffer: bytearray, size: int) -> None:
        """Give a buffer back but keep `size` of its bytes counted: what was in it lives on in a smaller place."""
        with self._lock:
            if len(buffer) == self.poolable and not self._waiters and self._available >= size:
                self._free.append(buffer)
                self._available -= size
                return
            self._available += len(buffer) - size
            served = self._serve()
        _notify(served)

    def release_bytes(self, size: int) -> None:
        """Give counted bytes back."""
        with self._lock:
            self._available += size
            served = self._serve()
        _notify(served)

    def _reserve(self, size: int) -> bool:
        while self._available < size and self._free:
            self._free.pop()
            self._available += self.poolable
        if self._available < size:
            return False
        self._available -= size
        return True

    def _serve(self) -> list[Waiter]:
        served = []
        while self._waiters and self._reserve(self._waiters[0].size):
            waiter = self._waiters.popleft()
            waiter.ready = True
            served.append(waiter)
        return served


def closed_error() -> IllegalStateError:
    """For who finds the producer closed on the way into a batch."""
    return IllegalStateError("the producer was closed while the record was being sent")


def _notify(waiters: list[Waiter]) -> None:
    for waiter in waiters:
        waiter.granted()
