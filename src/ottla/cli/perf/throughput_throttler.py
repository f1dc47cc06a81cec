"""Limits the rate of records, as the ThroughputThrottler of Kafka's tools."""

from __future__ import annotations

import threading
import time
from typing import Final

SHORTEST_SLEEP: Final = 0.002
"""The shortest sleep in seconds. Sleeping takes longer than requested, so shorter sleeps are skipped until they add
up.
"""


class ThroughputThrottler:
    """Allows `rate` records per second: negative is unlimited, zero only the first. The event `ended` ends waiting."""

    def __init__(self, rate: float, ended: threading.Event | None = None) -> None:
        self.is_limited = rate >= 0
        self._rate = rate
        self._ended = ended or threading.Event()
        self._start = time.monotonic()

    def wait(self, number: int) -> None:
        """Wait until record `number` is due; the first is 0."""
        if self._rate > 0:
            early = self._start + number / self._rate - time.monotonic()
            if early >= SHORTEST_SLEEP:
                self._ended.wait(early)
        elif self.is_limited and number:
            self._ended.wait()
