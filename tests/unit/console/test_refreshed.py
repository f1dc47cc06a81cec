"""Snapshots that are refreshed in the background while pages read them."""

import asyncio
import itertools
import time

import pytest

from ottla_console.cluster import collector
from ottla_console.cluster.collector import Refreshed


async def test_old_snapshot_is_returned_during_refresh_unless_too_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loads = 0

    async def load() -> int:
        nonlocal loads
        loads += 1
        return loads

    now = 1000.0
    monkeypatch.setattr(time, "time", lambda: now)
    loop = asyncio.get_running_loop()
    snapshot = Refreshed(load, seconds=5.0, share=0.05)
    assert await snapshot.get_recent(loop) == 1
    now += 6
    assert await snapshot.get_recent(loop) == 1
    while loads < 2:
        await asyncio.sleep(0)
    assert await snapshot.get_recent(loop) == 2
    now += collector.MAX_AGE_SECONDS + 1
    assert await snapshot.get_recent(loop) == 3


class SlowLoad:
    """Returns 0, 1, …, each once `proceed` is set."""

    def __init__(self) -> None:
        self.values = itertools.count()
        self.started, self.proceed = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> int:
        value = next(self.values)
        self.started.set()
        await self.proceed.wait()
        return value


async def test_change_during_a_refresh_causes_another_refresh() -> None:
    load = SlowLoad()
    snapshot = Refreshed(load, seconds=1000, share=0.05)
    loop = asyncio.get_running_loop()
    first = asyncio.ensure_future(snapshot.get(loop))
    await load.started.wait()
    snapshot.invalidate()
    readers = [asyncio.ensure_future(snapshot.get(loop)) for _ in range(2)]
    await asyncio.sleep(0)
    load.proceed.set()
    assert await asyncio.gather(*readers) == [1, 1]
    await first
    assert next(load.values) == 2, "one refresh is enough for both"


async def test_reader_after_a_change_waits_for_the_running_refresh() -> None:
    load = SlowLoad()
    load.proceed.set()
    snapshot = Refreshed(load, seconds=0, share=1)
    loop = asyncio.get_running_loop()
    assert await snapshot.get(loop) == 0
    load.proceed.clear()
    load.started.clear()
    snapshot.invalidate()
    periodic = asyncio.ensure_future(snapshot.run())
    await load.started.wait()
    reader = asyncio.ensure_future(snapshot.get(loop))
    await asyncio.sleep(0)
    assert not reader.done()
    load.proceed.set()
    assert await reader >= 1
    periodic.cancel()
