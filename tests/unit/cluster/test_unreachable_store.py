"""Log lines of a broker whose metadata store is unreachable: retries do not repeat them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

import pytest
from tests.unit.cluster.shared_tree import Session, SharedTree
from tests.unit.replication import virtual_loop

from ottla.cluster.broker.registration import Registration
from ottla.cluster.controller.election import ControllerElection, ControllerTerm
from ottla.cluster.image.cluster_image import BrokerImage
from ottla.cluster.image.metadata_cache import MetadataCache
from ottla.cluster.image.store_reader import create_persistent_nodes
from ottla.cluster.store.metadata_store import MetadataStoreTimeoutError, Watcher, ZNode


class OutageSession(Session):
    """A session whose store does not respond during an outage."""

    fails = False
    calls = 0

    async def get(self, path: str, watch: Watcher | None = None) -> ZNode | None:
        self.calls += 1
        if self.fails:
            raise MetadataStoreTimeoutError
        return await super().get(path, watch)


def warnings_in_an_outage(caplog: pytest.LogCaptureFixture, start: Any) -> list[str]:
    """Return the warnings of work that is retried for 10 seconds, in which the store does not respond."""

    async def test() -> None:
        session = OutageSession(SharedTree())
        await create_persistent_nodes(session)
        work: Awaitable[Any] = await start(session)
        session.fails, session.calls = True, 0
        task = asyncio.ensure_future(work)
        await asyncio.sleep(10)
        assert session.calls > 50
        task.cancel()

    with caplog.at_level(logging.WARNING):
        virtual_loop.run(test())
    return [record.getMessage() for record in caplog.records]


def test_registration_in_an_outage_of_the_store_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def renew(session: OutageSession) -> Awaitable[None]:
        registration = Registration(session, MetadataCache())
        await registration.register(BrokerImage(1, ()))
        return registration.renew()

    (line,) = warnings_in_an_outage(caplog, renew)
    assert line.startswith("Cannot register broker 1 again, so the cluster considers it dead; retrying in 0.1 s: ")


def test_elections_in_an_outage_of_the_store_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def elect(session: OutageSession) -> Awaitable[None]:
        async def begin(term: ControllerTerm) -> None:
            raise AssertionError

        async def end() -> None:
            raise AssertionError

        return ControllerElection(session, MetadataCache(), 1, begin, end)._run()

    (line,) = warnings_in_an_outage(caplog, elect)
    assert "failed; taking part in the next election in 0.1 s: " in line
