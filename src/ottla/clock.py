"""Time as an argument: the real clock, and one that a test moves by hand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio


class Clock(Protocol):
    """What Ottla asks of time. Kafka's `Time`."""

    def now_ms(self) -> int:
        """Milliseconds since 1970: what is written into records and files."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow: what deadlines and durations are made of."""
        ...

    async def wait(self, event: asyncio.Event, until: float | None) -> None:
        """Until the event is set, or this clock's `monotonic` has reached `until`."""
        ...


def now_ms() -> int:
    """Milliseconds since 1970 by the machine's clock, for what no test has to move."""
    return time.time_ns() // 1_000_000


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return now_ms()

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment."""
        return time.monotonic()

    async def wait(self, event: asyncio.Event, until: float | None) -> None:
        """Until the event is set, or `monotonic` has reached `until`."""
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
        """Milliseconds since 1970."""
        return self._now_ms

    def monotonic(self) -> float:
        """Seconds since this clock was made."""
        return self._monotonic

    async def wait(self, event: asyncio.Event, until: float | None) -> None:
        """Until the event is set, or `advance` has moved the clock far enough."""
        import asyncio

        if until is None:
            await event.wait()
            return
        # Its own event: that of the caller is for the caller to set.
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
        """The moments that somebody waits for, in seconds of `monotonic`: what a test looks at before `advance`."""
        return [moment for moment, _, _ in list(self._sleepers)]

    def advance(self, ms: float) -> None:
        """Move both times forward, and wake those whose time has come. Any thread may do so."""
        if ms < 0:
            raise ValueError(f"a clock does not go back: {ms} ms")
        self._now_ms += round(ms)
        self._monotonic += ms / 1000
        for until, loop, over in list(self._sleepers):
            if until <= self._monotonic:
                loop.call_soon_threadsafe(over.set)


SYSTEM_CLOCK = SystemClock()
"""The clock of everything that was not given another."""
