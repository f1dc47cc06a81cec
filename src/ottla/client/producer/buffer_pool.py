"""Memory for batches, limited by buffer.memory. Kafka's `BufferPool`.

Buffers of batch.size are reused; others are only counted. If memory is short, callers wait in a queue: the first one is
served first, even if a later one needs less.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from ottla.errors import BufferExhaustedError, IllegalStateError


class Waiter:
    """A waiting caller. `granted` is called once, without a lock, when the memory is reserved."""

    __slots__ = ("granted", "ready", "size")

    def __init__(self, size: int, granted: Callable[[], None]) -> None:
        self.size = size
        self.granted = granted
        self.ready = False


class BufferPool:
    """A pool of `total` bytes of memory; released buffers of `poolable` bytes are reused. Thread-safe."""

    def __init__(self, total: int, poolable: int) -> None:
        self.total = total
        self.poolable = poolable
        self._available = total
        """Bytes that are neither in use nor in a pooled buffer."""
        self._free: deque[bytearray] = deque()
        self._waiters: deque[Waiter] = deque()
        self._lock = threading.Lock()
        self.closed = False
        """Whether no more memory is granted."""

    @property
    def available(self) -> int:
        """The number of available bytes."""
        with self._lock:
            return self._available + len(self._free) * self.poolable

    @property
    def queued(self) -> int:
        """The number of waiting callers."""
        return len(self._waiters)

    def try_allocate(self, size: int) -> bytearray | None:
        """Return a buffer of `size` bytes; None if the caller has to wait."""
        with self._lock:
            if self._waiters:
                return None
            if size == self.poolable and self._free:
                return self._free.pop()
            if not self._reserve(size):
                return None
        return bytearray(size)

    def wait(self, size: int, granted: Callable[[], None]) -> Waiter | None:
        """Join the queue, and return None if the memory is available after all, and reserved: then `allocate` it."""
        waiter = Waiter(size, granted)
        with self._lock:
            if self.closed:
                raise closed_error()
            if not self._waiters and self._reserve(size):
                return None
            self._waiters.append(waiter)
        return waiter

    def allocate(self, size: int) -> bytearray:
        """Return the buffer for reserved memory."""
        return bytearray(size)

    def cancel(self, waiter: Waiter) -> bool:
        """Leave the queue, and return True if memory was reserved in the meantime, which belongs to the caller."""
        with self._lock:
            if waiter.ready:
                return True
            if waiter in self._waiters:  # it is not after close
                self._waiters.remove(waiter)
            served = self._serve()
        _notify(served)
        return False

    def collect(self, waiter: Waiter) -> bytearray:
        """Return the buffer of a caller whose wait is over.

        Raises BufferExhaustedError if no memory is reserved by now, IllegalStateError after close.
        """
        if self.cancel(waiter):
            return self.allocate(waiter.size)
        if self.closed:
            raise closed_error()
        raise BufferExhaustedError(
            f"no memory for {waiter.size} bytes within max.block.ms: buffer.memory is {self.total},"
            f" {self.available} bytes are available"
        )

    def cancel_and_release(self, waiter: Waiter) -> None:
        """Leave the queue, and release the memory if it has been reserved meanwhile."""
        if self.cancel(waiter):
            self.release(bytearray(waiter.size))

    def close(self) -> None:
        """Fail all waiting callers: `granted` is called without a reservation."""
        with self._lock:
            self.closed = True
            waiters = list(self._waiters)
            self._waiters.clear()
        _notify(waiters)

    def release(self, buffer: bytearray) -> None:
        """Release a buffer, which must not be used any more."""
        with self._lock:
            if len(buffer) == self.poolable and not self._waiters:
                self._free.append(buffer)
                return
            self._available += len(buffer)
            served = self._serve()
        _notify(served)

    def exchange(self, buffer: bytearray, size: int) -> None:
        """Release a buffer but count `size` bytes of it as used: its content lives on in a smaller copy."""
        with self._lock:
            if len(buffer) == self.poolable and not self._waiters and self._available >= size:
                self._free.append(buffer)
                self._available -= size
                return
            self._available += len(buffer) - size
            served = self._serve()
        _notify(served)

    def release_bytes(self, size: int) -> None:
        """Release bytes that were only counted."""
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
    """Return the error of a record whose producer was closed before it was in a batch."""
    return IllegalStateError("the producer was closed while the record was being sent")


def _notify(waiters: list[Waiter]) -> None:
    for waiter in waiters:
        waiter.granted()
