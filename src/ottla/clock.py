"""Clocks that components get as an argument: the system clock, and clocks for tests that are moved with `advance`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio


class Clock(Protocol):
    """The interface of clocks, like Kafka's `Time`."""

    def now_ms(self) -> int:
        """Return the milliseconds since 1970, for timestamps in records and files."""
        ...

    def monotonic(self) -> float:
        """Return the seconds of a monotonic clock, for deadlines and durations."""
        ...

    async def wait(self, event: asyncio.Event, until: float | None) -> None:
        """Wait until the event is set, or until `monotonic()` reaches `until` (None: no limit)."""
        ...


def now_ms() -> int:
    """Return the milliseconds since 1970 by the system clock. Use it in code whose tests need not control the time."""
    return time.time_ns() // 1_000_000


class SystemClock:
    """The clock of the operating system."""

    def now_ms(self) -> int:
        return now_ms()

    def monotonic(self) -> float:
        return time.monotonic()

    async def wait(self, event: asyncio.Event, until: float | None) -> None:
        import asyncio

        try:
            async with asyncio.timeout(None if until is None else until - self.monotonic()):
                await event.wait()
        except TimeoutError:
            pass


class ShiftedClock(SystemClock):
    """The system clock, moved forward by the sum of all `advance` calls. They do not shorten `wait` calls that are
    already pending.
    """

    def __init__(self) -> None:
        self._seconds = 0.0

    def now_ms(self) -> int:
        return now_ms() + round(self._seconds * 1000)

    def monotonic(self) -> float:
        return time.monotonic() + self._seconds

    def advance(self, seconds: float) -> None:
        """Move the clock forward. Raises ValueError for a negative time."""
        if seconds < 0:
            raise ValueError(f"cannot move a clock back by {-seconds:g} s")
        self._seconds += seconds


class ManualClock:
    """A clock for tests, which only `advance` moves."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic = 0.0
        self._sleepers: list[tuple[float, asyncio.AbstractEventLoop, asyncio.Event]] = []

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._monotonic

    async def wait(self, event: asyncio.Event, until: float | None) -> None:
        import asyncio

        if until is None:
            await event.wait()
            return
        # A separate event, because only the caller may set `event`.
        over = asyncio.Event()
        sleeper = (until, asyncio.get_running_loop(), over)
        self._sleepers.append(sleeper)
        if self._monotonic >= until:
            over.set()
        waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(over.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._sleepers.remove(sleeper)
            for wait in waits:
                wait.cancel()

    @property
    def waited_for(self) -> list[float]:
        """The deadlines of pending `wait` calls, in seconds of `monotonic`."""
        return [moment for moment, _, _ in list(self._sleepers)]

    def advance(self, ms: float) -> None:
        """Move the clock forward by a number of milliseconds, and wake waiters whose deadlines are reached.
        Can be called in any thread. Raises ValueError for a negative number.
        """
        if ms < 0:
            raise ValueError(f"cannot move a clock back by {-ms} ms")
        self._now_ms += round(ms)
        self._monotonic += ms / 1000
        for until, loop, over in list(self._sleepers):
            if until <= self._monotonic:
                loop.call_soon_threadsafe(over.set)


SYSTEM_CLOCK = SystemClock()
"""The default clock."""
