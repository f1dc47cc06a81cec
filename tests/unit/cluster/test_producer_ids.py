"""Producer ids from the registry, of one broker and of several."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.cluster.shared_tree import Session, SharedTree

from ottla.cluster import znodes
from ottla.cluster.producer_ids import ProducerIds
from ottla.cluster.registry import Node, RegistryTimeoutError, Watcher
from ottla.cluster.tree import make_persistent_nodes
from ottla.errors import CoordinatorLoadInProgressError


def test_brokers_never_hand_out_the_same_id() -> None:
    async def test() -> None:
        tree = SharedTree()
        await make_persistent_nodes(tree.session())
        brokers = [ProducerIds(tree.session(), broker_id) for broker_id in range(3)]
        asked = [broker.next_id() for _ in range(znodes.PRODUCER_ID_BLOCK_SIZE + 10) for broker in brokers]
        ids = await asyncio.gather(*asked)
        assert len(set(ids)) == len(ids)

    asyncio.run(test())


def test_brokers_that_start_at_once_skip_what_each_has_met() -> None:
    async def test() -> None:
        tree = SharedTree()
        await make_persistent_nodes(tree.session())
        brokers = [ProducerIds(tree.session(), broker_id) for broker_id in range(3)]
        met = [5_000, 70_000, 300]
        await asyncio.gather(*[broker.skip_past(highest) for broker, highest in zip(brokers, met, strict=True)])
        assert min(await asyncio.gather(*[broker.next_id() for broker in brokers])) > max(met)

    asyncio.run(test())


class Away(Session):
    """A session whose ZooKeeper does not answer."""

    async def get(self, path: str, watch: Watcher | None = None) -> Node | None:
        raise RegistryTimeoutError


def test_while_the_registry_is_away_producers_are_told_to_ask_again() -> None:
    async def test() -> None:
        with pytest.raises(CoordinatorLoadInProgressError):
            await ProducerIds(Away(SharedTree()), 0).next_id()

    asyncio.run(test())
