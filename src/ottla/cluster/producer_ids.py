"""Producer ids: unique in the cluster for ever, taken from the registry a block of 1,000 at a time."""

from __future__ import annotations

import asyncio

from ottla.cluster import znodes
from ottla.cluster.registry import BadVersionError, Create, NodeExistsError, Registry, Set


class ProducerIds:
    """Hands out producer ids. Loop thread."""

    def __init__(self, registry: Registry, broker_id: int) -> None:
        self._registry = registry
        self._broker_id = broker_id
        self._next = 0
        self._end = 0
        self._lock = asyncio.Lock()

    async def next_id(self) -> int:
        """An id that no producer had before."""
        async with self._lock:
            while self._next >= self._end:
                await self._take_block()
            found = self._next
            self._next += 1
            return found

    async def skip_past(self, producer_id: int) -> None:
        """Hand out none up to this one: it was met in a log, although the registry does not know of it."""
        node = await self._registry.get(znodes.PRODUCER_ID_BLOCK)
        if node is None or int(znodes.load(node.value)["block_end"]) < producer_id:
            path, value = znodes.PRODUCER_ID_BLOCK, znodes.producer_ids_value(self._broker_id, producer_id + 1)
            await self._registry.multi([Create(path, value) if node is None else Set(path, value, node.version)])

    async def _take_block(self) -> None:
        node = await self._registry.get(znodes.PRODUCER_ID_BLOCK)
        start = 0 if node is None else int(znodes.load(node.value)["block_end"]) + 1
        end = start + znodes.PRODUCER_ID_BLOCK_SIZE
        value = znodes.producer_ids_value(self._broker_id, end)
        path = znodes.PRODUCER_ID_BLOCK
        try:
            await self._registry.multi([Create(path, value) if node is None else Set(path, value, node.version)])
        except (BadVersionError, NodeExistsError):
            return  # another broker took this block; read again
        self._next, self._end = start, end
