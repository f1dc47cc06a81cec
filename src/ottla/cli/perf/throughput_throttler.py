"""Limits the rate of records, like the ThroughputThrottler of Kafka's tools."""

from __future__ import annotations

import threading
import time
from typing import Final

SHORTEST_SLEEP: Final = 0.002
"""The shortest wait in seconds. A wait takes longer than requested, so shorter ones are postponed until they add up to
this time.
"""


class ThroughputThrottler:
    """Allows `rate` records per second. A negative rate means no limit; with zero only the first record is allowed.
    Waits end when the event `ended` is set.
    """

    def __init__(self, rate: float, ended: threading.Event | None = None) -> None:
        self.is_limited = rate >= 0
        self._rate = rate
        self._ended = ended or threading.Event()
        self._start = time.monotonic()

    def wait(self, number: int) -> None:
        """Wait until the record with this number may be sent. Numbers start at 0."""
        if self._rate > 0:
            early = self._start + number / self._rate - time.monotonic()
            if early >= SHORTEST_SLEEP:
                self._ended.wait(early)
        elif self.is_limited and number:
            self._ended.wait()
