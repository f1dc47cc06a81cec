"""Dynamic configs of several brokers over one tree in memory."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.cluster.shared_tree import SharedTree

from ottla.cluster.broker import config_store
from ottla.cluster.broker.config_store import DynamicConfigStore
from ottla.cluster.image.metadata_cache import MetadataCache
from ottla.cluster.image.store_reader import create_persistent_nodes


def test_change_after_another_brokers_change_is_based_on_it() -> None:
    async def test() -> None:
        tree, path = SharedTree(), "clients/app"
        await create_persistent_nodes(tree.session())
        caches = MetadataCache(), MetadataCache()
        one, two = (DynamicConfigStore(tree.session(), c) for c in caches)  # neither applies the other's changes
        await one.set(path, {"producer_byte_rate": "1"})
        async with two.changing(path):
            await two.set(path, {**caches[1].image.configs[path], "consumer_byte_rate": "2"})
        async with one.changing(path):
            assert caches[0].image.configs[path] == {"producer_byte_rate": "1", "consumer_byte_rate": "2"}

    asyncio.run(test())


def test_refresh_reads_another_brokers_last_change(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        tree, path = SharedTree(), "clients/app"
        await create_persistent_nodes(tree.session())
        cache, paused = MetadataCache(), tree.session()
        await DynamicConfigStore(tree.session(), MetadataCache()).set(path, {"producer_byte_rate": "1"})
        await DynamicConfigStore(tree.session(), cache).refresh([path, "clients/none", "topics/none"])
        assert cache.image.configs == {path: {"producer_byte_rate": "1"}}
        paused.pause()
        monkeypatch.setattr(config_store, "REFRESH_SECONDS", 0.01)
        await DynamicConfigStore(paused, cache).refresh([path])
        assert f"Cannot read the dynamic configs of {path}; using the last known ones: no response" in caplog.text

    asyncio.run(test())


def test_concurrent_changes_of_one_broker_are_serialized() -> None:
    async def test() -> None:
        tree, path, cache = SharedTree(), "clients/app", MetadataCache()
        await create_persistent_nodes(tree.session())
        store = DynamicConfigStore(tree.session(), cache)

        async def add(name: str) -> None:
            async with store.changing(path):
                await store.set(path, {**cache.image.configs.get(path, {}), name: "1"})

        await asyncio.gather(*(add(f"rate-{n}") for n in range(5)))
        assert len(cache.image.configs[path]) == 5

    asyncio.run(test())
