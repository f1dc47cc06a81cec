"""Time as an argument: the real clock, and one that a test moves by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What Ottla asks of time. Kafka's `Time`."""

    def now_ms(self) -> int:
        """Milliseconds since 1970: what is written into records and files."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow: what deadlines and durations are made of."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment."""
        return time.monotonic()


class ManualClock:
    """A clock that stands still until `advance` moves it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic = 0.0

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return self._now_ms

    def monotonic(self) -> float:
        """Seconds since this clock was made."""
        return self._monotonic

    def advance(self, ms: float) -> None:
        """Move both times forward."""
        if ms < 0:
            raise ValueError(f"a clock does not go back: {ms} ms")
        self._now_ms += round(ms)
        self._monotonic += ms / 1000


SYSTEM_CLOCK = SystemClock()
"""The clock of everything that was not given another."""
