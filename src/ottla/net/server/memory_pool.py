"""Memory for requests that are being received or worked on: buffers that are used again, and a bound on large ones.

The bound is Kafka's `queued.max.request.bytes` (KIP-72), held against what requests beyond the standard size really
take, not against what they claim: a peer that promises much and sends little must not keep others out. Small requests
never wait, as they hold a buffer only while they are worked on. Who asks for more while the bound is reached waits,
first come first served. Two rules keep that from standing still: a peer that does not finish its request in time is cut
off while others wait; and where all that hold memory wait for more, the first goes on beyond the bound. So what is held
is at most the bound and one request more. Loop thread.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

log = logging.getLogger("ottla.net")

STANDARD_BYTES = 64 * 1024
"""A typical request with one batch fits."""
KEPT_STANDARD = 64
LARGE_BYTES = 1024 * 1024
KEPT_LARGE = 8
"""How many free buffers of a size are kept to be used again."""
REAP_SECONDS = 1.0


class PoolClient(Protocol):
    """A connection that receives a large request."""

    peer: str

    def resume(self) -> None:
        """Ask again: there may be memory now."""
        ...

    def overdue(self) -> bool:
        """Whether the peer has had its time to send the rest of its request."""
        ...

    def close(self) -> None:
        """Drop the peer."""
        ...


class MemoryPool:
    """Shared by all connections of a broker."""

    def __init__(self, limit: int = -1) -> None:
        self.limit = limit
        """The most bytes of large requests; not positive: no bound."""
        self.used = 0
        self._held: dict[PoolClient, int] = {}
        self._waiting: dict[PoolClient, None] = {}
        self._free: dict[int, list[bytearray]] = {STANDARD_BYTES: [], LARGE_BYTES: []}
        self._wake_handle: asyncio.Handle | None = None
        self._reap_handle: asyncio.TimerHandle | None = None

    def hold(self, holder: PoolClient, nbytes: int) -> bool:
        """Whether `holder` may have `nbytes` in all; if not, it is resumed when it is worth another try."""
        if not self._has_room(holder):
            self._waiting[holder] = None
            self._wake_soon()
            self._reap_later()
            return False
        self._waiting.pop(holder, None)
        self.used += nbytes - self._held.get(holder, 0)
        self._held[holder] = nbytes
        return True

    def drop(self, holder: PoolClient) -> None:
        """It holds nothing any more, and does not wait."""
        self._waiting.pop(holder, None)
        self.used -= self._held.pop(holder, 0)
        self._wake_soon()

    def allocate(self, nbytes: int) -> bytearray:
        """A buffer of that size."""
        free = self._free.get(nbytes)
        return free.pop() if free else bytearray(nbytes)

    def release(self, buffer: bytearray) -> None:
        """The buffer is not used any more; nobody may hold a view into it."""
        size = len(buffer)
        free = self._free.get(size)
        if free is not None and len(free) < (KEPT_STANDARD if size == STANDARD_BYTES else KEPT_LARGE):
            free.append(buffer)

    def _has_room(self, holder: PoolClient) -> bool:
        """Whether `holder` can have more: there is some left, or nobody but those that wait for it has any."""
        return self.limit <= 0 or self.used < self.limit or self._held.keys() <= {*self._waiting, holder}

    def _wake_soon(self) -> None:
        # one after the other, each by the loop: who is let in may finish at once and let in the next, a long chain
        if self._waiting and self._wake_handle is None and self._has_room(next(iter(self._waiting))):
            self._wake_handle = asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        self._wake_handle = None
        if self._waiting:
            first = next(iter(self._waiting))
            del self._waiting[first]
            first.resume()
            self._wake_soon()

    def _reap_later(self) -> None:
        if self._reap_handle is None:
            self._reap_handle = asyncio.get_running_loop().call_later(REAP_SECONDS, self._reap)

    def _reap(self) -> None:
        """Cut off who keeps memory that others wait for and does not go on."""
        self._reap_handle = None
        if not self._waiting:
            return
        for holder in list(self._held):
            if holder not in self._waiting and holder.overdue():
                log.warning("%s: cut off, others need the memory of its unfinished request", holder.peer)
                holder.close()
        if self._waiting:
            self._reap_later()
