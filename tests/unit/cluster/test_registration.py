"""The ids of brokers that register without one."""

from __future__ import annotations

import asyncio

from tests.unit.cluster.shared_tree import SharedTree

from ottla.cluster.broker.registration import next_broker_id
from ottla.cluster.image.store_reader import create_persistent_nodes


async def test_brokers_that_start_at_the_same_time_get_different_ids() -> None:
    tree = SharedTree()
    await create_persistent_nodes(tree.session())
    ids = await asyncio.gather(*[next_broker_id(tree.session(), 1000) for _ in range(3)])
    assert sorted(ids) == [1001, 1002, 1003]
