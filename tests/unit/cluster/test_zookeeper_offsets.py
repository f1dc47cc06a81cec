"""Committed offsets in the metadata store."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.cluster.shared_tree import SharedTree

from ottla.cluster.broker.zookeeper_offsets import ZooKeeperOffsets
from ottla.cluster.store.metadata_store import Set, UnreadableNodeError
from ottla.model import TopicPartition

T0 = TopicPartition("t", 0)


def test_offset_that_is_not_a_number_is_an_unreadable_znode() -> None:
    async def test() -> None:
        session = SharedTree().session()
        offsets = ZooKeeperOffsets(session)
        assert await offsets.get("g", T0) is None
        await offsets.set("g", T0, 7)
        assert await offsets.get("g", T0) == 7
        await session.multi([Set("/consumers/g/offsets/t/0", b"seven")])
        with pytest.raises(UnreadableNodeError, match="/consumers/g/offsets/t/0 is not an offset: b'seven'"):
            await offsets.get("g", T0)

    asyncio.run(test())
