"""Progress reports of a run's processes to their parent: one JSON object per line on stdout."""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def report(**facts: Any) -> None:
    """Report facts at once."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Ticker:
    """Limits how often a loop does something. Checking is cheap, so that a hot loop may check often."""

    def __init__(self, interval_s: float = 0.2) -> None:
        self.interval_s = interval_s
        self._next = 0.0

    def is_due(self) -> bool:
        """Return True at most once per interval."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self.interval_s
        return True
