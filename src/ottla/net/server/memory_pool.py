"""The memory that connections share: reusable buffers, and a limit for large requests.

The limit is Kafka's `queued.max.request.bytes` (KIP-72). It applies to the buffers of requests above the standard size,
while the requests are received and processed.
The buffer of a connection's first such request grows with the bytes that arrive, so that a peer that announces much and
sends little does not block others; later ones are allocated as a whole. Small requests never wait for memory. If the
limit is reached, large requests wait. Two rules prevent a deadlock: a peer that does not complete its request in time
is disconnected if others wait, and if all requests with memory wait for more, one request continues beyond the limit.
So the usage may exceed the limit by one or two requests. Not thread-safe: event loop only.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

log = logging.getLogger("ottla.net")

STANDARD_BYTES = 64 * 1024
"""Size of a standard buffer in bytes, into which a typical request with one batch fits."""
KEPT_STANDARD = 64
LARGE_BYTES = 17 * 64 * 1024
"""Size of a large buffer in bytes: 1 MiB of batches, producers' default `max.request.size`, and 64 KiB more."""
KEPT_LARGE = 8
"""KEPT_STANDARD and KEPT_LARGE: maximum number of free buffers of each size that are kept for reuse."""
REAP_SECONDS = 1.0


class PoolClient(Protocol):
    """A connection with a large request."""

    peer: str

    def resume(self) -> None:
        """Continue reading, because memory may be available now."""
        ...

    def overdue(self) -> bool:
        """Return whether the peer has not completed its request in time."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class MemoryPool:
    """Reusable buffers, and the memory of large requests, which all connections of a broker share."""

    def __init__(self, limit: int = -1) -> None:
        self.limit = limit
        """The total size of large requests in bytes at which further ones wait; 0 or less for no limit."""
        self.used = 0
        self._held: dict[PoolClient, int] = {}
        self._waiting: dict[PoolClient, None] = {}
        self._free: dict[int, list[bytearray]] = {STANDARD_BYTES: [], LARGE_BYTES: []}
        self._wake_handle: asyncio.Handle | None = None
        self._reap_handle: asyncio.TimerHandle | None = None

    def hold(self, holder: PoolClient, nbytes: int) -> bool:
        """Let `holder` use `nbytes` in total, and return True, or return False if it has to wait.

        In that case, its `resume` is called when it should try again.
        """
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
        """Remove a connection that has memory or waits for it."""
        self._waiting.pop(holder, None)
        self.used -= self._held.pop(holder, 0)
        self._wake_soon()

    def allocate(self, nbytes: int) -> bytearray:
        """Return a buffer of this size, a free one if possible."""
        free = self._free.get(nbytes)
        return free.pop() if free else bytearray(nbytes)

    def release(self, buffer: bytearray) -> None:
        """Let the pool reuse a buffer. There must be no view of it."""
        size = len(buffer)
        free = self._free.get(size)
        if free is not None and len(free) < (KEPT_STANDARD if size == STANDARD_BYTES else KEPT_LARGE):
            free.append(buffer)

    def _has_room(self, holder: PoolClient) -> bool:
        """Return whether `holder` may have more memory: there is no limit, it is not reached, or all others with
        memory wait for more.
        """
        return self.limit <= 0 or self.used < self.limit or self._held.keys() <= {*self._waiting, holder}

    def _wake_soon(self) -> None:
        # One per iteration of the event loop. Otherwise a resumed connection that finishes at once would resume the
        # next one, and so on, recursively.
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
        """Disconnect slow peers that hold memory while others wait for it."""
        self._reap_handle = None
        if not self._waiting:
            return
        for holder in list(self._held):
            if holder not in self._waiting and holder.overdue():
                log.warning(
                    "Disconnected the client %s: it did not send a large request completely in time, while others wait "
                    "for memory (queued.max.request.bytes)",
                    holder.peer,
                )
                holder.close()
        if self._waiting:
            self._reap_later()
