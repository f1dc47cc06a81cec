"""Fixtures of the unit tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.slow_disk import SlowDisk

from ottla import page_cache
from ottla.net.server import connection


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    """A disk that is cold once the test says so. The test fails if the event loop waits for it."""
    disk = SlowDisk()
    monkeypatch.setattr(page_cache, "os", disk)
    monkeypatch.setattr(page_cache, "RWF_NOWAIT", 8)
    monkeypatch.setattr(connection, "os", disk)
    yield disk
    disk.spins.set()
    assert not disk.waits_on_the_loop
