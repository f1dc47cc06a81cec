"""Waiting for what others bring about."""

from __future__ import annotations

import time
from collections.abc import Callable

STEP_SECONDS = 0.05


def eventually(condition: Callable[[], object], seconds: float) -> None:
    """Return when something holds; a test that waits for longer has failed."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(STEP_SECONDS)
