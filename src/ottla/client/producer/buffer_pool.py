"""Memory for batches, limited by buffer.memory. Kafka's `BufferPool`.

Buffers of batch.size bytes are reused, and the last few of other sizes, because `send_batch` often needs the same size
again. If memory is short, callers wait in a queue and get memory in its order, even if a later one needs less.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from ottla.errors import BufferExhaustedError, IllegalStateError

MAX_SPARES: Final = 8
"""Maximum number of released buffers of other sizes than batch.size that the pool holds for reuse."""


class Waiter:
    """A caller that waits for memory. `granted` is called without holding the lock when the memory is reserved or the
    pool is closed, unless the caller has stopped waiting before.
    """

    __slots__ = ("granted", "ready", "size")

    def __init__(self, size: int, granted: Callable[[], None]) -> None:
        self.size: int = size
        self.granted: Callable[[], None] = granted
        self.ready: bool = False


class BufferPool:
    """A pool of `total` bytes. Buffers of `poolable` bytes are reused, and the last few of other sizes. Thread-safe."""

    def __init__(self, total: int, poolable: int) -> None:
        self.total = total
        self.poolable = poolable
        self._available = total
        """Bytes that are neither used nor part of a free buffer."""
        self._free: deque[bytearray] = deque()
        self._spares: deque[bytearray] = deque()
        """Released buffers of other sizes, the last one at the end. They are reused because the page faults of a new
        buffer take half as long as filling it.
        """
        self._waiters: deque[Waiter] = deque()
        self._lock = threading.Lock()
        self.closed: bool = False
        """Whether the pool is closed, so that no caller waits for memory any more."""

    @property
    def available(self) -> int:
        """The number of bytes that could be allocated now."""
        with self._lock:
            return self._available + len(self._free) * self.poolable + sum(map(len, self._spares))

    @property
    def queued(self) -> int:
        """The number of waiting callers."""
        return len(self._waiters)

    def try_allocate(self, size: int) -> bytearray | None:
        """Return a buffer of `size` bytes; None if the caller has to wait for memory."""
        with self._lock:
            if self._waiters:
                return None
            if size == self.poolable and self._free:
                return self._free.pop()
            for number, spare in enumerate(self._spares):
                if len(spare) == size:
                    del self._spares[number]  # not remove(), which would compare the bytes
                    return spare
            if not self._reserve(size):
                return None
        return bytearray(size)

    def wait(self, size: int, granted: Callable[[], None]) -> Waiter | None:
        """Enter the queue for `size` bytes, and return the entry. Return None if the bytes have become available: they
        are then reserved, and the caller must call `allocate`. Raises IllegalStateError after close.
        """
        waiter = Waiter(size, granted)
        with self._lock:
            if self.closed:
                raise closed_error()
            if not self._waiters and self._reserve(size):
                return None
            self._waiters.append(waiter)
        return waiter

    def allocate(self, size: int) -> bytearray:
        """Return a buffer for memory that was reserved before."""
        return bytearray(size)

    def cancel(self, waiter: Waiter) -> bool:
        """Stop waiting. Return True if the memory has been reserved meanwhile; the caller then owns it."""
        with self._lock:
            if waiter.ready:
                return True
            if waiter in self._waiters:  # it is not after close
                self._waiters.remove(waiter)
            served = self._serve()
        _notify(served)
        return False

    def collect(self, waiter: Waiter) -> bytearray:
        """Return the buffer for which the caller has waited.

        If the memory has not been reserved yet, raises BufferExhaustedError, or IllegalStateError after close.
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
        """Stop waiting, and release the memory if it has been reserved meanwhile."""
        if self.cancel(waiter):
            self.release(bytearray(waiter.size))

    def close(self) -> None:
        """Close the pool, and call `granted` of every waiter. Their `collect` then raises IllegalStateError."""
        with self._lock:
            self.closed = True
            waiters = list(self._waiters)
            self._waiters.clear()
        _notify(waiters)

    def release(self, buffer: bytearray) -> None:
        """Release a buffer, which must not be used afterwards."""
        with self._lock:
            if len(buffer) == self.poolable and not self._waiters:
                self._free.append(buffer)
                return
            if not self._waiters and len(buffer) <= self.total // MAX_SPARES:
                self._spares.append(buffer)
                buffer = self._spares.popleft() if len(self._spares) > MAX_SPARES else bytearray()
            self._available += len(buffer)
            served = self._serve()
        _notify(served)

    def exchange(self, buffer: bytearray, size: int) -> None:
        """Release a buffer, but count `size` bytes as still used, by a smaller copy of its content."""
        with self._lock:
            if len(buffer) == self.poolable and not self._waiters and self._available >= size:
                self._free.append(buffer)
                self._available -= size
                return
            self._available += len(buffer) - size
            served = self._serve()
        _notify(served)

    def release_bytes(self, size: int) -> None:
        """Release bytes that were counted without a buffer."""
        with self._lock:
            self._available += size
            served = self._serve()
        _notify(served)

    def _reserve(self, size: int) -> bool:
        while self._available < size and self._free:
            self._free.pop()
            self._available += self.poolable
        while self._available < size and self._spares:
            self._available += len(self._spares.popleft())
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
    """Return the error of a record that was not in a batch yet when the producer was closed."""
    return IllegalStateError("the producer was closed while the record was being sent")


def _notify(waiters: list[Waiter]) -> None:
    for waiter in waiters:
        waiter.granted()
