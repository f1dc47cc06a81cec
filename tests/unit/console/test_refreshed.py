"""Snapshots that pages read while they are refreshed."""

import asyncio
import itertools
import time

import pytest

from ottla_console.cluster import collector
from ottla_console.cluster.collector import Refreshed


async def test_old_snapshot_is_returned_while_it_is_refreshed_and_a_very_old_one_is_not(
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


async def test_a_change_during_a_refresh_leads_to_another_one() -> None:
    values = iter(range(5))
    started, go_on = asyncio.Event(), asyncio.Event()

    async def load() -> int:
        value = next(values)
        started.set()
        await go_on.wait()
        return value

    snapshot = Refreshed(load, seconds=1000, share=0.05)
    loop = asyncio.get_running_loop()
    first = asyncio.ensure_future(snapshot.get(loop))
    await started.wait()
    snapshot.invalidate()
    readers = [asyncio.ensure_future(snapshot.get(loop)) for _ in range(2)]
    await asyncio.sleep(0)
    go_on.set()
    assert await asyncio.gather(*readers) == [1, 1]
    await first
    assert next(values) == 2, "one refresh is enough for both"


async def test_a_reader_after_a_change_waits_for_the_refresh_that_runs() -> None:
    values = itertools.count()
    started, go_on = asyncio.Event(), asyncio.Event()
    go_on.set()

    async def load() -> int:
        value = next(values)
        started.set()
        await go_on.wait()
        return value

    snapshot = Refreshed(load, seconds=0, share=1)
    loop = asyncio.get_running_loop()
    assert await snapshot.get(loop) == 0
    go_on.clear()
    started.clear()
    snapshot.invalidate()
    periodic = asyncio.ensure_future(snapshot.run())
    await started.wait()
    reader = asyncio.ensure_future(snapshot.get(loop))
    await asyncio.sleep(0)
    assert not reader.done()
    go_on.set()
    assert await reader >= 1
    periodic.cancel()
