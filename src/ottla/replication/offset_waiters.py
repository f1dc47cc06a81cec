"""Futures that complete when a partition has reached an offset, or a time."""

from __future__ import annotations

import asyncio

from ottla.errors import KafkaError


class OffsetWaiters:
    """Futures that complete when an offset, or a time, is reached. Not thread-safe: event loop only."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, offset: float) -> asyncio.Future[None]:
        """Return a future that completes when `offset` is reached."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((offset, future))
        return future

    def complete_up_to(self, offset: float) -> None:
        """Complete the futures of offsets up to `offset`."""
        if not self._waiting:
            return
        remaining = []
        for due, future in self._waiting:
            if future.done():
                continue  # cancelled
            if due > offset:
                remaining.append((due, future))
            else:
                future.set_result(None)
        self._waiting = remaining

    def fail_all(self, error: KafkaError) -> None:
        """Fail every pending future with `error`."""
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # marks the exception as retrieved, because not every append is awaited
