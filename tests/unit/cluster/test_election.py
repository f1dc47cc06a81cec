"""The controller election ends when its broker stops, whatever it is waiting for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ottla.cluster.controller.election import ControllerElection, ControllerTerm
from ottla.cluster.image.metadata_cache import MetadataCache
from ottla.cluster.store.sqlite_store import SqliteMetadataStore


def test_close_ends_a_term_whose_start_has_lost_the_cancellation(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteMetadataStore(tmp_path)
        store.open()
        started, ended = asyncio.Event(), asyncio.Event()

        async def begin(_: ControllerTerm) -> None:
            started.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass  # as asyncio.wait_for does if the future that it waits for is done at the same moment

        async def end() -> None:
            ended.set()

        election = ControllerElection(store, MetadataCache(), 1, begin, end)
        start = asyncio.ensure_future(election.start())
        await asyncio.wait_for(started.wait(), 10)
        await asyncio.wait_for(election.close(), 10)
        assert ended.is_set()
        start.cancel()
        await store.close()

    asyncio.run(run())
