"""Dynamic configs of several brokers over one tree in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from uuid import UUID

import pytest
from tests.unit.cluster.shared_tree import SharedTree

from ottla.cluster.broker import config_store
from ottla.cluster.broker.config_store import DynamicConfigStore
from ottla.cluster.broker.metadata_updates import ControllerRequestHandler
from ottla.cluster.image.cluster_image import ClusterImage, TopicImage
from ottla.cluster.image.metadata_cache import MetadataCache
from ottla.cluster.image.store_reader import create_persistent_nodes
from ottla.cluster.store.metadata_store import Watcher, ZNode
from ottla.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)


def test_change_after_another_brokers_change_is_based_on_it() -> None:
    async def test() -> None:
        tree, path = SharedTree(), "clients/app"
        await create_persistent_nodes(tree.session())
        caches = MetadataCache(), MetadataCache()
        one, two = (DynamicConfigStore(tree.session(), c) for c in caches)  # neither applies the other's changes
        await one.set(path, {"producer_byte_rate": "1"})
        await two.change(path, lambda: two.set(path, {**caches[1].image.configs[path], "consumer_byte_rate": "2"}))
        await one.change(path, nothing)
        assert caches[0].image.configs[path] == {"producer_byte_rate": "1", "consumer_byte_rate": "2"}

    asyncio.run(test())


async def nothing() -> None:
    pass


@pytest.mark.parametrize("path", ["clients/app", "users/u/clients/app", "topics/t"])
@pytest.mark.parametrize("exists", [False, True])
def test_concurrent_changes_of_two_brokers_keep_both(path: str, exists: bool) -> None:
    async def test() -> None:
        tree = SharedTree()
        await create_persistent_nodes(tree.session())
        image = ClusterImage("", topics={"t": TopicImage("t", UUID(int=1), ())})
        caches = MetadataCache(image), MetadataCache(image)
        stores = [DynamicConfigStore(tree.session(), cache) for cache in caches]
        both = asyncio.Barrier(2)
        attempts = 0

        def configs(cache: MetadataCache) -> Mapping[str, str]:
            return cache.image.topics["t"].configs if path == "topics/t" else cache.image.configs.get(path, {})

        async def write(store: DynamicConfigStore, new: Mapping[str, str]) -> None:
            await (store.set_topic("t", new) if path == "topics/t" else store.set(path, new))

        async def add(store: DynamicConfigStore, cache: MetadataCache, name: str) -> None:
            async def attempt() -> None:
                nonlocal attempts
                attempts += 1
                before = configs(cache)
                if attempts <= 2:
                    await both.wait()
                await write(store, {**before, name: "1"})

            await store.change(path, attempt)

        if exists:
            await write(stores[0], {"old": "1"})
        await asyncio.gather(*map(add, stores, caches, ("one", "two")))
        await asyncio.gather(*(store.change(path, nothing) for store in stores))
        expected = {"one": "1", "two": "1", **({"old": "1"} if exists else {})}
        assert [configs(cache) for cache in caches] == [expected, expected]
        assert attempts == 3

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
            await store.change(path, lambda: store.set(path, {**cache.image.configs.get(path, {}), name: "1"}))

        await asyncio.gather(*(add(f"rate-{n}") for n in range(5)))
        assert len(cache.image.configs[path]) == 5

    asyncio.run(test())


async def test_config_of_a_new_topic_that_changes_while_it_is_read_is_applied() -> None:
    tree = SharedTree()
    session = tree.session()
    await create_persistent_nodes(session)
    read, changed = asyncio.Event(), asyncio.Event()
    get = session.get

    async def get_slowly(path: str, watch: Watcher | None = None) -> ZNode | None:
        node = await get(path, watch)
        read.set()
        await changed.wait()
        return node

    session.get = get_slowly  # type: ignore[method-assign]
    cache, other = MetadataCache(), MetadataCache(ClusterImage("", topics={"t": TopicImage("t", UUID(int=1), ())}))
    configs = DynamicConfigStore(tree.session(), cache)
    partition = UpdateMetadataPartitionState(partition_index=0, leader=1, leader_epoch=0, replicas=[1], isr=[1])
    topic = UpdateMetadataTopicState(topic_name="t", topic_id=UUID(int=1), partition_states=[partition])
    handler = ControllerRequestHandler(session, cache, 0)
    update = asyncio.create_task(handler.update_metadata(UpdateMetadataRequest(topic_states=[topic])))
    await read.wait()
    await DynamicConfigStore(tree.session(), other).set_topic("t", {"retention.ms": "1"})
    reader = asyncio.create_task(configs._read_notifications())
    for _ in range(20):
        await asyncio.sleep(0)  # the notification is read, and its config unless that waits for the update
    changed.set()
    await asyncio.gather(update, reader)
    assert cache.image.topics["t"].configs == {"retention.ms": "1"}
