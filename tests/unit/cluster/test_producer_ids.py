"""Producer ids of one broker and of several."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.cluster.shared_tree import Session, SharedTree

from ottla.broker.server.broker_node import _highest_producer_id
from ottla.cluster.broker.producer_ids import MAX_PLAUSIBLE_ID, ProducerIds
from ottla.cluster.image.store_reader import create_persistent_nodes
from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import MetadataStoreTimeoutError, Set, Watcher, ZNode
from ottla.errors import CoordinatorLoadInProgressError, UnknownServerError


def test_next_id_of_several_brokers_is_unique() -> None:
    async def test() -> None:
        tree = SharedTree()
        await create_persistent_nodes(tree.session())
        brokers = [ProducerIds(tree.session(), broker_id) for broker_id in range(3)]
        requests = [broker.next_id() for _ in range(znodes.PRODUCER_ID_BLOCK_SIZE + 10) for broker in brokers]
        ids = await asyncio.gather(*requests)
        assert len(set(ids)) == len(ids)

    asyncio.run(test())


def test_skip_past_of_concurrent_brokers_reserves_all_ids() -> None:
    async def test() -> None:
        tree = SharedTree()
        await create_persistent_nodes(tree.session())
        brokers = [ProducerIds(tree.session(), broker_id) for broker_id in range(3)]
        highest_ids = [5_000, 70_000, 300]
        await asyncio.gather(*[broker.skip_past(highest) for broker, highest in zip(brokers, highest_ids, strict=True)])
        assert min(await asyncio.gather(*[broker.next_id() for broker in brokers])) > max(highest_ids)

    asyncio.run(test())


class UnreachableSession(Session):
    """A session whose ZooKeeper does not respond."""

    async def get(self, path: str, watch: Watcher | None = None) -> ZNode | None:
        raise MetadataStoreTimeoutError


def test_next_id_while_the_store_is_unreachable_is_retriable() -> None:
    async def test() -> None:
        with pytest.raises(CoordinatorLoadInProgressError):
            await ProducerIds(UnreachableSession(SharedTree()), 0).next_id()

    asyncio.run(test())


def test_implausible_id_in_a_log_does_not_advance_the_allocator() -> None:
    async def test() -> None:
        tree = SharedTree()
        await create_persistent_nodes(tree.session())
        ids = ProducerIds(tree.session(), 0)
        for poisoned in (2**63 - 1, MAX_PLAUSIBLE_ID):
            await ids.skip_past(poisoned)
        assert await ids.next_id() == 0

    asyncio.run(test())


def test_implausible_id_of_a_transactional_id_does_not_hide_the_others() -> None:
    coordinators = SimpleNamespace(producer_ids=[5, MAX_PLAUSIBLE_ID])
    assert _highest_producer_id(cast("Any", []), cast("Any", coordinators)) == 5


def test_block_that_would_exceed_the_range_is_not_allocated() -> None:
    async def test() -> None:
        tree = SharedTree()
        await create_persistent_nodes(tree.session())
        value = znodes.producer_ids_value(0, 2**63 - 1)
        await tree.session().multi([Set(znodes.PRODUCER_ID_BLOCK, value)])
        with pytest.raises(UnknownServerError, match="all producer ids are allocated"):
            await ProducerIds(tree.session(), 0).next_id()

    asyncio.run(test())


def test_is_allocated_is_true_only_for_allocated_ids() -> None:
    async def test() -> None:
        tree = SharedTree()
        await create_persistent_nodes(tree.session())
        one, two = (ProducerIds(tree.session(), broker_id) for broker_id in range(2))
        allocated = await one.next_id()
        assert allocated >= two.end
        assert all(await asyncio.gather(*(two.is_allocated(allocated) for _ in range(3))))
        assert not await two.is_allocated(two.end)
        assert not await two.is_allocated(2**63 - 1)

    asyncio.run(test())


def test_plausible_id_while_the_store_is_unreachable_is_accepted() -> None:
    async def test() -> None:
        ids = ProducerIds(UnreachableSession(SharedTree()), 0)
        assert await ids.is_allocated(1)
        assert not await ids.is_allocated(2**40)

    asyncio.run(test())
