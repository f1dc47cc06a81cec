"""Memory for requests that are received or processed: reused buffers, and a limit for large ones.

The limit is Kafka's `queued.max.request.bytes` (KIP-72), applied to the memory that requests above the standard size
really use, not to the size that they claim: a peer that announces much and sends little must not block others. Small
requests never wait, as they hold a buffer only while they are processed. Requests above the limit wait, first come
first served. Two rules prevent a standstill: a peer that does not complete its request in time is disconnected if
others wait, and if all holders of memory wait for more, the first one continues beyond the limit. So at most the limit
and one request are used. Not thread-safe: event loop only.
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
"""Free buffers of each size that are kept for reuse."""
REAP_SECONDS = 1.0


class PoolClient(Protocol):
    """A connection that receives a large request."""

    peer: str

    def resume(self) -> None:
        """Try again: memory may be available now."""
        ...

    def overdue(self) -> bool:
        """Return whether the peer had enough time to send the rest of its request."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class MemoryPool:
    """The memory for requests that all connections of a broker share."""

    def __init__(self, limit: int = -1) -> None:
        self.limit = limit
        """Maximum bytes of large requests; no limit if it is not positive."""
        self.used = 0
        self._held: dict[PoolClient, int] = {}
        self._waiting: dict[PoolClient, None] = {}
        self._free: dict[int, list[bytearray]] = {STANDARD_BYTES: [], LARGE_BYTES: []}
        self._wake_handle: asyncio.Handle | None = None
        self._reap_handle: asyncio.TimerHandle | None = None

    def hold(self, holder: PoolClient, nbytes: int) -> bool:
        """Return whether `holder` may use `nbytes` in total; if not, it is resumed when it should try again."""
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
        """Remove a holder, or one that waits."""
        self._waiting.pop(holder, None)
        self.used -= self._held.pop(holder, 0)
        self._wake_soon()

    def allocate(self, nbytes: int) -> bytearray:
        """Return a buffer of that size."""
        free = self._free.get(nbytes)
        return free.pop() if free else bytearray(nbytes)

    def release(self, buffer: bytearray) -> None:
        """Take back a buffer that no view refers to."""
        size = len(buffer)
        free = self._free.get(size)
        if free is not None and len(free) < (KEPT_STANDARD if size == STANDARD_BYTES else KEPT_LARGE):
            free.append(buffer)

    def _has_room(self, holder: PoolClient) -> bool:
        """Return whether `holder` can have more: memory is left, or all holders wait for it."""
        return self.limit <= 0 or self.used < self.limit or self._held.keys() <= {*self._waiting, holder}

    def _wake_soon(self) -> None:
        # one per iteration of the event loop: a resumed one may finish at once and resume the next, in a deep recursion
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
        """Disconnect a slow holder of memory that others wait for."""
        self._reap_handle = None
        if not self._waiting:
            return
        for holder in list(self._held):
            if holder not in self._waiting and holder.overdue():
                log.warning("Disconnected %s: it does not complete a request whose memory others wait for", holder.peer)
                holder.close()
        if self._waiting:
            self._reap_later()
