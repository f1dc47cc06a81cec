"""Injected time: the system clock, and a manual clock for tests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio


class Clock(Protocol):
    """The clock of a component. Kafka's `Time`."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970, for timestamps in records and files."""
        ...

    def monotonic(self) -> float:
        """Return seconds of a monotonic clock, for deadlines and durations."""
        ...

    async def wait(self, event: asyncio.Event, until: float | None) -> None:
        """Wait until the event is set or `monotonic()` has reached `until`."""
        ...


def now_ms() -> int:
    """Return milliseconds since 1970 by the system clock, for code in which tests need not control time."""
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
            async with asyncio.timeout(None if until is None else until - time.monotonic()):
                await event.wait()
        except TimeoutError:
            pass


class ManualClock:
    """A clock that stands still until `advance` moves it."""

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
        # A separate event: only the caller may set its own.
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
        """Return the deadlines of pending `wait` calls, in seconds of `monotonic`."""
        return [moment for moment, _, _ in list(self._sleepers)]

    def advance(self, ms: float) -> None:
        """Move both times forward, and wake the waiters whose deadline has passed. Thread-safe."""
        if ms < 0:
            raise ValueError(f"cannot move a clock back by {-ms} ms")
        self._now_ms += round(ms)
        self._monotonic += ms / 1000
        for until, loop, over in list(self._sleepers):
            if until <= self._monotonic:
                loop.call_soon_threadsafe(over.set)


SYSTEM_CLOCK = SystemClock()
"""The default clock."""
