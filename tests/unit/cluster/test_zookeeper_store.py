"""Calls of the ZooKeeper store without a ZooKeeper: results come from threads of kazoo, cancellations from the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("kazoo")

from ottla.cluster.store.zookeeper_store import ZooKeeperMetadataStore


class PendingResult:
    """kazoo's IAsyncResult, as far as the store uses it."""

    def __init__(self) -> None:
        self.arrive: Callable[[Any], None] = lambda _: None

    def rawlink(self, callback: Callable[[Any], None]) -> None:
        self.arrive = callback


def test_cancellation_of_a_call_is_not_lost_when_the_result_arrives_at_the_same_moment() -> None:
    async def run() -> None:
        store = ZooKeeperMetadataStore("127.0.0.1:1")
        store._loop = asyncio.get_running_loop()
        pending = PendingResult()
        call = asyncio.ensure_future(store._call(lambda: pending))
        await asyncio.sleep(0)
        pending.arrive(SimpleNamespace(exception=None, value=b"znode"))
        store._loop.call_soon(call.cancel)  # after the result is set, before the call is resumed with it
        await asyncio.wait([call], timeout=10)
        assert call.cancelled()

    asyncio.run(run())
