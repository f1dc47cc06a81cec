"""Who waits until a partition has reached an offset."""

from __future__ import annotations

import asyncio

from ottla.errors import KafkaError


class OffsetWaiters:
    """Futures that complete when an offset (or a time) is reached. Not thread-safe: event loop only."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, offset: float) -> asyncio.Future[None]:
        """What becomes done when `offset` is reached."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((offset, future))
        return future

    def reach(self, offset: float) -> None:
        """Everything up to `offset` is there."""
        if not self._waiting:
            return
        still = []
        for wanted, future in self._waiting:
            if future.done():
                continue  # who waited has given up
            if wanted > offset:
                still.append((wanted, future))
            else:
                future.set_result(None)
        self._waiting = still

    def fail(self, error: KafkaError) -> None:
        """It is in vain."""
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # who appended need not wait, and then it is no error that nobody has heard of
