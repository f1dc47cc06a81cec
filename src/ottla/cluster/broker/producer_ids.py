"""Producer ids, unique in the cluster: allocated from the metadata store in blocks of 1,000.

While the store can be read, batches with ids above the last allocated block are rejected (`is_allocated`). An id in a
log advances the allocator only if it is plausible; otherwise one batch with id 2^63-1 would exhaust all ids.
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
    NodeExistsError,
    Set,
    ZNode,
)
from ottla.errors import CoordinatorLoadInProgressError, UnknownServerError
from ottla.futures import shielded

log = logging.getLogger("ottla.cluster")

MAX_PLAUSIBLE_ID: Final = 2**48
"""Ids from this one on cannot have been allocated: at a million ids per second, that would take almost nine years."""
MAX_ID: Final = 2**63 - 1
UNSEEN_IDS: Final = 1_000_000
"""While the store is unreachable, ids up to this distance after the last known block are accepted."""


class ProducerIds:
    """Allocates producer ids. Not thread-safe: event loop only."""

    def __init__(self, store: MetadataStore, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id
        self._next = 0
        self._end = 0
        self._lock = asyncio.Lock()
        self.end = 0
        """The id after the last block that any broker has allocated, as far as this broker knows."""
        self._refreshing: asyncio.Future[bool] | None = None

    async def next_id(self) -> int:
        """Return a new producer id.

        Raises the errors of `next_block` if a new block is needed.
        """
        async with self._lock:
            if self._next >= self._end:
                block = await self.next_block(self._broker_id)
                self._next, self._end = block.start, block.stop
            producer_id = self._next
            self._next += 1
            return producer_id

    async def is_allocated(self, producer_id: int) -> bool:
        """Return whether an id is below the end of the last allocated block. If the store is unreachable, accept
        UNSEEN_IDS further ids.

        Concurrent calls share one read of the store.
        """
        if producer_id < self.end:
            return True
        if self._refreshing is None:
            self._refreshing = asyncio.ensure_future(self._refresh())
        is_known = await shielded(self._refreshing)
        return producer_id < self.end + (0 if is_known else UNSEEN_IDS)

    async def _refresh(self) -> bool:
        """Read the last allocated block. Return False, after a warning in the log, if the store fails."""
        try:
            self.end = max(self.end, _end(await self._store.get(znodes.PRODUCER_ID_BLOCK)))
        except MetadataStoreError as error:
            log.warning(
                "Cannot read the last allocated producer id from the metadata store; until that succeeds, batches with"
                " producer ids below %d are accepted: %s",
                self.end + UNSEEN_IDS,
                error,
            )
            return False
        finally:
            self._refreshing = None
        return True

    async def skip_past(self, producer_id: int) -> None:
        """Let new blocks begin after `producer_id`, an id in a log of this broker.

        Logs of Apache Kafka may have ids that this store has not allocated. An id from MAX_PLAUSIBLE_ID on is ignored.
        """
        if producer_id >= MAX_PLAUSIBLE_ID:
            log.error(
                "Not advancing the producer id allocator past producer_id=%d, which is in a log of this broker: no "
                "broker can have allocated an id of %d or more",
                producer_id,
                MAX_PLAUSIBLE_ID,
            )
            return
        while _end(node := await self._store.get(znodes.PRODUCER_ID_BLOCK)) <= producer_id:
            await self._write(node, producer_id + 1, self._broker_id)
        self.end = max(self.end, _end(node))

    async def next_block(self, broker_id: int) -> range:
        """Allocate a block of ids for a broker.

        Raises CoordinatorLoadInProgressError if the store fails, and UnknownServerError if no block is left.
        """
        try:
            while True:
                node = await self._store.get(znodes.PRODUCER_ID_BLOCK)
                start = _end(node)
                if start > MAX_ID - znodes.PRODUCER_ID_BLOCK_SIZE:
                    raise UnknownServerError(f"{znodes.PRODUCER_ID_BLOCK}: all producer ids are allocated: {node}")
                if await self._write(node, start + znodes.PRODUCER_ID_BLOCK_SIZE, broker_id):
                    self.end = max(self.end, start + znodes.PRODUCER_ID_BLOCK_SIZE)
                    return range(start, start + znodes.PRODUCER_ID_BLOCK_SIZE)
        except MetadataStoreError as error:
            raise CoordinatorLoadInProgressError(f"no producer ids are available now: {error.message}") from error

    async def _write(self, node: ZNode | None, end: int, broker_id: int) -> bool:
        """Write the end of the last allocated block.

        Return False if another broker has changed it since `node` was read.
        """
        path, value = znodes.PRODUCER_ID_BLOCK, znodes.producer_ids_value(broker_id, end)
        try:
            await self._store.multi([Create(path, value) if node is None else Set(path, value, node.version)])
        except (BadVersionError, NodeExistsError):
            return False
        return True


def _end(node: ZNode | None) -> int:
    """Return the id after the last allocated block; 0 if there is none (Kafka creates the znode empty)."""
    return 0 if node is None or not node.value else int(znodes.load(node.value)["block_end"]) + 1
