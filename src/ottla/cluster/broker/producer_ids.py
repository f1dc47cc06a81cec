"""Producer ids: unique in the cluster for ever, taken from the store a block of 1,000 at a time.

Batches with ids that were never allocated are refused (`is_allocated`), and an id in a log advances the allocator only
if it can have been allocated: one batch with 2^63-1 must not leave nothing to allocate.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import (
    BadVersionError,
    Create,
    MetadataStore,
    MetadataStoreError,
    Node,
    NodeExistsError,
    Set,
)
from ottla.errors import CoordinatorLoadInProgressError, UnknownServerError

log = logging.getLogger("ottla.cluster")

MAX_PLAUSIBLE_ID: Final = 2**48
"""Ids in logs from here on were not allocated: not even a million in each second of nine years come so far."""
MAX_ID: Final = 2**63 - 1
UNSEEN_IDS: Final = 1_000_000
"""How far beyond the last known block an id is accepted while the store is away."""


class ProducerIds:
    """Hands out producer ids. Loop thread."""

    def __init__(self, store: MetadataStore, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id
        self._next = 0
        self._end = 0
        self._lock = asyncio.Lock()
        self.end = 0
        """The id after the last block that is known to be allocated, by any broker."""
        self._refreshing: asyncio.Future[bool] | None = None

    async def next_id(self) -> int:
        """An id that no producer had before. CoordinatorLoadInProgressError: there is none now, but may be later."""
        async with self._lock:
            if self._next >= self._end:
                block = await self.next_block(self._broker_id)
                self._next, self._end = block.start, block.stop
            producer_id = self._next
            self._next += 1
            return producer_id

    async def is_allocated(self, producer_id: int) -> bool:
        """Whether some broker has allocated this id; requests that come meanwhile wait for the same answer."""
        if producer_id < self.end:
            return True
        if self._refreshing is None:
            self._refreshing = asyncio.ensure_future(self._refresh())
        is_known = await asyncio.shield(self._refreshing)
        return producer_id < self.end + (0 if is_known else UNSEEN_IDS)

    async def _refresh(self) -> bool:
        """Learn which blocks the brokers have taken; False while the store is away."""
        try:
            self.end = max(self.end, _end(await self._store.get(znodes.PRODUCER_ID_BLOCK)))
        except MetadataStoreError as error:
            log.warning("producer ids cannot be verified now: %s", error)
            return False
        finally:
            self._refreshing = None
        return True

    async def skip_past(self, producer_id: int) -> None:
        """Allocate none up to this one: it is in a log, although the store does not know of it.

        So it is in data directories that Apache Kafka has written to. An id that cannot have been allocated is ignored.
        """
        if producer_id >= MAX_PLAUSIBLE_ID:
            log.error("ignoring producer id %d in a log: no broker can have allocated it", producer_id)
            return
        while _end(node := await self._store.get(znodes.PRODUCER_ID_BLOCK)) <= producer_id:
            await self._write(node, producer_id + 1, self._broker_id)
        self.end = max(self.end, _end(node))

    async def next_block(self, broker_id: int) -> range:
        """A block of ids for a broker. CoordinatorLoadInProgressError as above."""
        try:
            while True:
                node = await self._store.get(znodes.PRODUCER_ID_BLOCK)
                start = _end(node)
                if start > MAX_ID - znodes.PRODUCER_ID_BLOCK_SIZE:
                    raise UnknownServerError(f"{znodes.PRODUCER_ID_BLOCK}: all producer ids are used up: {node}")
                if await self._write(node, start + znodes.PRODUCER_ID_BLOCK_SIZE, broker_id):
                    self.end = max(self.end, start + znodes.PRODUCER_ID_BLOCK_SIZE)
                    return range(start, start + znodes.PRODUCER_ID_BLOCK_SIZE)
        except MetadataStoreError as error:
            raise CoordinatorLoadInProgressError(f"there are no producer ids now: {error.message}") from error

    async def _write(self, node: Node | None, end: int, broker_id: int) -> bool:
        """Write the end of the last block that was taken; False where another broker was faster: read again."""
        path, value = znodes.PRODUCER_ID_BLOCK, znodes.producer_ids_value(broker_id, end)
        try:
            await self._store.multi([Create(path, value) if node is None else Set(path, value, node.version)])
        except (BadVersionError, NodeExistsError):
            return False
        return True


def _end(node: Node | None) -> int:
    """Behind the last block that was taken; Kafka makes the node before there is one."""
    return 0 if node is None or not node.value else int(znodes.load(node.value)["block_end"]) + 1
