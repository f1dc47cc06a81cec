"""So many things per second, and no more, as the ThroughputThrottler of Kafka's tools has it."""

from __future__ import annotations

import threading
import time
from typing import Final

SHORTEST_SLEEP: Final = 0.002
"""In seconds. Sleeping takes longer than it should: it is done seldom, for several things at once."""


class ThroughputThrottler:
    """`rate` per second from now on; below 0: as many as can be; 0: nothing but the first. `ended` ends waiting."""

    def __init__(self, rate: float, ended: threading.Event | None = None) -> None:
        self.is_limited = rate >= 0
        self._rate = rate
        self._ended = ended or threading.Event()
        self._start = time.monotonic()

    def wait(self, number: int) -> None:
        """Return when it is time for this one; the first is 0."""
        if self._rate > 0:
            early = self._start + number / self._rate - time.monotonic()
            if early >= SHORTEST_SLEEP:
                self._ended.wait(early)
        elif self.is_limited and number:
            self._ended.wait()
