"""What all tests share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_interrupts() -> Iterator[None]:
    """A shell starts background jobs with SIGINT ignored, and tests of Ctrl+C would see nothing of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
