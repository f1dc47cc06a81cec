from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
from tests.unit.client.scripted import ScriptedBroker


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        broker.add_topic("t", 1)
        yield broker


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def no_leaks() -> Iterator[None]:
    """Assert that a test leaves no threads and descriptors."""
    threads, files = set(threading.enumerate()), descriptors()
    yield
    assert set(threading.enumerate()) <= threads
    assert descriptors() <= files
