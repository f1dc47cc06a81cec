"""Memory for requests that are being received or worked on: buffers that are used again, and a bound on all of them.

The bound is Kafka's `queued.max.request.bytes` (KIP-72). As there, a request is let in as long as anything is left, so
that the largest request can always be taken: what is held is at most the bound and one request more. Who is not let in
waits, first come first served, and is called when memory is given back. Loop thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

STANDARD_BYTES = 64 * 1024
"""A typical request with one batch fits."""
KEPT_STANDARD = 64
LARGE_BYTES = 1024 * 1024
KEPT_LARGE = 8
"""How many free buffers of a size are kept to be used again."""

Waiter = Callable[[], None]


class FrameMemory:
    """Shared by all connections of a broker."""

    def __init__(self, limit: int = -1) -> None:
        self.limit = limit
        """The most bytes of requests; not positive: no bound."""
        self.used = 0
        self._free: dict[int, list[bytearray]] = {STANDARD_BYTES: [], LARGE_BYTES: []}
        self._waiters: dict[Waiter, None] = {}
        self._waking: asyncio.Handle | None = None

    def reserve(self, nbytes: int, waiter: Waiter) -> bool:
        """Whether `nbytes` may be held now; if not, `waiter` is called when it is worth another try."""
        if 0 < self.limit <= self.used:
            self._waiters[waiter] = None
            return False
        self.used += nbytes
        return True

    def release(self, nbytes: int) -> None:
        """Give back what was reserved, and let in who waits."""
        self.used -= nbytes
        self._wake_soon()

    def forget(self, waiter: Waiter) -> None:
        """It does not wait any more."""
        self._waiters.pop(waiter, None)

    def _wake_soon(self) -> None:
        # one after the other, each by the loop: who is let in may finish at once and let in the next, a long chain
        if self._waiters and self.used < self.limit and self._waking is None:
            self._waking = asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        self._waking = None
        if self._waiters and self.used < self.limit:
            first = next(iter(self._waiters))
            del self._waiters[first]
            first()
            self._wake_soon()

    def take(self, nbytes: int) -> bytearray:
        """A buffer of that size."""
        free = self._free.get(nbytes)
        return free.pop() if free else bytearray(nbytes)

    def give_back(self, buffer: bytearray) -> None:
        """The buffer is not used any more; nobody may hold a view into it."""
        size = len(buffer)
        free = self._free.get(size)
        if free is not None and len(free) < (KEPT_STANDARD if size == STANDARD_BYTES else KEPT_LARGE):
            free.append(buffer)
