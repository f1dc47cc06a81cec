"""Settings and fixtures of all tests."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings
from tests.effort import repeats

# On a busy machine an example may take any time; the runner has its own time limit.
settings.register_profile("ottla", deadline=None, max_examples=repeats(40, 500))
settings.load_profile("ottla")

# Each full garbage collection would visit the items of thousands of tests, which are never garbage.
gc.disable()


def pytest_collection_finish() -> None:
    """Exclude the collected items from garbage collection, which saves a tenth of the unit tests' time."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_interrupts() -> Iterator[None]:
    """Handle SIGINT, which a shell lets background jobs ignore, so that tests of Ctrl+C would fail."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
