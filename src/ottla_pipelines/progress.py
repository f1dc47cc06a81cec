"""Progress reports from the processes of a run to their parent: one JSON object per line on stdout."""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def report(**facts: Any) -> None:
    """Write the facts to stdout as a JSON object."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Ticker:
    """Limits how often a loop does something. Calling `is_due` is cheap."""

    def __init__(self, interval_s: float = 0.2) -> None:
        self.interval_s = interval_s
        self._next = 0.0

    def is_due(self) -> bool:
        """Return whether at least `interval_s` seconds have passed since this last returned True. The first call
        returns True.
        """
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self.interval_s
        return True
