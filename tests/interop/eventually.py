"""Waiting for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable

STEP_SECONDS = 0.05


def eventually(condition: Callable[[], object], seconds: float) -> None:
    """Return when the condition holds; fail the test if it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition does not hold in time"
        time.sleep(STEP_SECONDS)
