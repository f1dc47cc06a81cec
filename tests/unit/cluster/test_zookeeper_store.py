"""The ZooKeeper store without ZooKeeper: results arrive from threads of kazoo, cancellations from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("kazoo")

from ottla.cluster.store import zookeeper_store
from ottla.cluster.store.zookeeper_store import ZooKeeperMetadataStore
from ottla.errors import StartupError


class PendingResult:
    """kazoo's IAsyncResult, as far as the store uses it."""

    def __init__(self) -> None:
        self.complete: Callable[[Any], None] = lambda _: None

    def rawlink(self, callback: Callable[[Any], None]) -> None:
        self.complete = callback


def test_cancellation_at_the_moment_of_the_result_is_not_lost() -> None:
    async def run() -> None:
        store = ZooKeeperMetadataStore("127.0.0.1:1")
        store._loop = asyncio.get_running_loop()
        pending = PendingResult()
        call = asyncio.ensure_future(store._call(lambda: pending))
        await asyncio.sleep(0)
        pending.complete(SimpleNamespace(exception=None, value=b"znode"))
        store._loop.call_soon(call.cancel)  # after the result is set, before the call is resumed with it
        await asyncio.wait([call], timeout=10)
        assert call.cancelled()

    asyncio.run(run())


async def test_unreachable_zookeeper_is_reported_while_the_broker_waits(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_store, "FIRST_REPORT_SECONDS", 0.05)
    store = ZooKeeperMetadataStore("127.0.0.1:1", connection_timeout_ms=400)
    opening = asyncio.ensure_future(store.open())
    with caplog.at_level("INFO", "ottla.cluster"):
        while not caplog.messages:
            assert not opening.done()
            await asyncio.sleep(0.01)
        assert store.waits_for.startswith("ZooKeeper at 127.0.0.1:1 has not answered for 0 s")
        assert caplog.messages[0].startswith("Waiting: ZooKeeper at 127.0.0.1:1 has not answered")
        with pytest.raises(StartupError):
            await opening
    assert store.waits_for == ""


async def test_lost_zookeeper_connection_is_reported_until_it_is_restored(caplog: pytest.LogCaptureFixture) -> None:
    store = ZooKeeperMetadataStore("127.0.0.1:1")
    store._loop, store._session_id = asyncio.get_running_loop(), 7
    store._client = kazoo = SimpleNamespace(client_id=None)
    with caplog.at_level("INFO", "ottla.cluster"):
        for state in ("SUSPENDED", "LOST"):
            store._state_changed(state)
        await asyncio.sleep(0)
        assert store.waits_for.startswith("ZooKeeper at 127.0.0.1:1 has not answered")
        kazoo.client_id = (7, b"")
        store._state_changed("CONNECTED")
        kazoo.client_id = None  # lost again, before the event loop has run
        await asyncio.sleep(0)
        assert store.waits_for == ""
        kazoo.client_id = (8, b"")
        store._state_changed("CONNECTED")
        kazoo.client_id = None
        await asyncio.sleep(0)
    assert (store.session_id, store.expirations) == (8, 1)
    assert [(record.levelname, record.message.partition("ZooKeeper")[0]) for record in caplog.records] == [
        ("WARNING", "Lost connection to "),
        ("WARNING", "Lost session with "),
        ("INFO", "Reconnected to "),
        ("WARNING", "Session 0x7 with "),
    ]
