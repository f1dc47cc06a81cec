"""Producer ids: unique in the cluster for ever, taken from the registry a block of 1,000 at a time."""

from __future__ import annotations

import asyncio

from ottla.cluster import znodes
from ottla.cluster.registry import BadVersionError, Create, Node, NodeExistsError, Registry, RegistryError, Set
from ottla.errors import CoordinatorLoadInProgressError


class ProducerIds:
    """Hands out producer ids. Loop thread."""

    def __init__(self, registry: Registry, broker_id: int) -> None:
        self._registry = registry
        self._broker_id = broker_id
        self._next = 0
        self._end = 0
        self._lock = asyncio.Lock()

    async def next_id(self) -> int:
        """An id that no producer had before. CoordinatorLoadInProgressError: there is none now, but may be later."""
        async with self._lock:
            while self._next >= self._end:
                try:
                    await self._take_block()
                except RegistryError as error:
                    raise CoordinatorLoadInProgressError(f"there are no producer ids now: {error.message}") from error
            found = self._next
            self._next += 1
            return found

    async def skip_past(self, producer_id: int) -> None:
        """Hand out none up to this one: it was met in a log, although the registry does not know of it."""
        while _end(node := await self._registry.get(znodes.PRODUCER_ID_BLOCK)) <= producer_id:
            await self._write(node, producer_id + 1)

    async def _take_block(self) -> None:
        node = await self._registry.get(znodes.PRODUCER_ID_BLOCK)
        start = _end(node)
        end = start + znodes.PRODUCER_ID_BLOCK_SIZE
        if await self._write(node, end):
            self._next, self._end = start, end

    async def _write(self, node: Node | None, end: int) -> bool:
        """Write the end of the last block that was taken; False where another broker was faster: read again."""
        path, value = znodes.PRODUCER_ID_BLOCK, znodes.producer_ids_value(self._broker_id, end)
        try:
            await self._registry.multi([Create(path, value) if node is None else Set(path, value, node.version)])
        except (BadVersionError, NodeExistsError):
            return False
        return True


def _end(node: Node | None) -> int:
    """Behind the last block that was taken; Kafka makes the node before there is one."""
    return 0 if node is None or not node.value else int(znodes.load(node.value)["block_end"]) + 1
