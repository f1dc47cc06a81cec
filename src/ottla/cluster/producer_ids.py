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
            if self._next >= self._end:
                block = await self.next_block(self._broker_id)
                self._next, self._end = block.start, block.stop
            found = self._next
            self._next += 1
            return found

    async def skip_past(self, producer_id: int) -> None:
        """Hand out none up to this one: it was met in a log, although the registry does not know of it."""
        while _end(node := await self._registry.get(znodes.PRODUCER_ID_BLOCK)) <= producer_id:
            await self._write(node, producer_id + 1, self._broker_id)

    async def next_block(self, broker_id: int) -> range:
        """A block of ids for a broker. CoordinatorLoadInProgressError as above."""
        try:
            while True:
                node = await self._registry.get(znodes.PRODUCER_ID_BLOCK)
                start = _end(node)
                if await self._write(node, start + znodes.PRODUCER_ID_BLOCK_SIZE, broker_id):
                    return range(start, start + znodes.PRODUCER_ID_BLOCK_SIZE)
        except RegistryError as error:
            raise CoordinatorLoadInProgressError(f"there are no producer ids now: {error.message}") from error

    async def _write(self, node: Node | None, end: int, broker_id: int) -> bool:
        """Write the end of the last block that was taken; False where another broker was faster: read again."""
        path, value = znodes.PRODUCER_ID_BLOCK, znodes.producer_ids_value(broker_id, end)
        try:
            await self._registry.multi([Create(path, value) if node is None else Set(path, value, node.version)])
        except (BadVersionError, NodeExistsError):
            return False
        return True


def _end(node: Node | None) -> int:
    """Behind the last block that was taken; Kafka makes the node before there is one."""
    return 0 if node is None or not node.value else int(znodes.load(node.value)["block_end"]) + 1
