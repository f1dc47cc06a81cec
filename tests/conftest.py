"""What all tests share."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings
from tests.effort import repeats

# On a busy machine an example may take any time; what takes too long is for the runner's own limit to say.
settings.register_profile("ottla", deadline=None, max_examples=repeats(40, 500))
settings.load_profile("ottla")

# The items of thousands of tests are looked at by each full garbage collection, and none is ever garbage.
gc.disable()


def pytest_collection_finish() -> None:
    """Let the garbage collector leave out what collection has made, which saves a tenth of the unit tests' time."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_interrupts() -> Iterator[None]:
    """A shell starts background jobs with SIGINT ignored, and tests of Ctrl+C would see nothing of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
