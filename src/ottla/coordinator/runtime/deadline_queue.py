"""Deadlines of many keys with one timer, instead of Kafka's `TimingWheel`."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from ottla.clock import Clock

K = TypeVar("K")

NEVER: Final = float("inf")
MIN_TICK_SECONDS: Final = 0.001
"""Minimum delay of the timer in seconds, which is also the resolution of Kafka's timers.

All deadlines that have passed when the timer fires expire together.
"""


class DeadlineQueue(Generic[K]):
    """The next deadline of each key, with one timer for all. Not thread-safe: event loop only."""

    def __init__(self, clock: Clock, on_deadline: Callable[[K], None]) -> None:
        self._clock = clock
        self._on_deadline = on_deadline
        self._due: list[tuple[float, K]] = []
        self._scheduled: dict[K, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def schedule(self, key: K, deadline: float) -> None:
        """Call `on_deadline` with the key at `deadline`, in seconds of the clock's `monotonic`, unless an earlier
        deadline of the key is scheduled. NEVER schedules nothing.
        """
        if deadline < self._scheduled.get(key, NEVER):
            self._scheduled[key] = deadline
            heapq.heappush(self._due, (deadline, key))
            self._set_timer()

    def discard(self, key: K) -> None:
        self._scheduled.pop(key, None)

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def expire(self) -> None:
        """Call `on_deadline` once for each key whose deadline has passed, the earliest deadline first.

        A deadline in the past that `on_deadline` schedules waits for the next tick, because otherwise this loop might
        not end.
        """
        now = self._clock.monotonic()
        passed = []
        while self._due and self._due[0][0] <= now:
            passed.append(heapq.heappop(self._due))
        for deadline, key in passed:
            if self._scheduled.get(key) == deadline:  # otherwise discarded, or replaced by an earlier deadline
                del self._scheduled[key]
                self._on_deadline(key)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._due and not self._closed:
            wait = max(MIN_TICK_SECONDS, self._due[0][0] - self._clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait, self.expire)
