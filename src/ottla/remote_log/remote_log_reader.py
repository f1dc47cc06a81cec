"""Reading a partition's records and offsets in remote storage, for consumers. Kafka's RemoteLogReader.

Not thread-safe: event loop only. Downloads run in threads.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from ottla.errors import OffsetOutOfRangeError
from ottla.model import OffsetAndTimestamp
from ottla.remote_log.chunk_cache import ChunkReader
from ottla.remote_log.metadata_store import RemotePartitionMetadataStore, common_end
from ottla.remote_log.remote_segment import RemoteSegment
from ottla.storage.log import Log
from ottla.storage.txn_index import AbortedTransaction

AT_ONCE: Final = 200
"""Number of segments that are looked at before other tasks may run."""


class RemoteRead(NamedTuple):
    """Whole batches from remote storage and, if requested, the aborted transactions that may have records in them."""

    data: memoryview
    aborted: list[AbortedTransaction]


class RemoteLogReader:
    """Reads the segments that the metadata store of a partition has, along the leader epochs of its log."""

    def __init__(self, chunks: ChunkReader) -> None:
        self._chunks = chunks

    async def read(
        self,
        log: Log,
        store: RemotePartitionMetadataStore,
        offset: int,
        max_bytes: int,
        *,
        at_least_one: bool,
        with_aborted: bool,
    ) -> RemoteRead | None:
        """Return whole batches of one segment, from the batch that contains `offset` on, of at most `max_bytes`
        together; with `at_least_one`, at least the first batch.

        Return None if the next batch is in the local log. Raises OffsetOutOfRangeError if no segment has the offset,
        and the errors of RemoteSegment.
        """
        while offset < log.local_log_start_offset:
            metadata = store.find_in(log.leader_epochs, offset)
            if metadata is None:
                raise OffsetOutOfRangeError(
                    f"{log.topic_partition}: no segment in remote storage has offset {offset} of leader epoch "
                    f"{log.epoch_for_offset(offset)}"
                )
            until = common_end(metadata, log.leader_epochs, offset)
            segment = RemoteSegment(metadata, self._chunks)
            batches = await segment.read(offset, max_bytes, until, at_least_one=at_least_one)
            if batches is not None:
                aborted = await self._aborted(log, store, offset, batches.until) if with_aborted else []
                return RemoteRead(batches.data, aborted)
            offset = until
        return None

    async def _aborted(
        self, log: Log, store: RemotePartitionMetadataStore, offset: int, until: int
    ) -> list[AbortedTransaction]:
        """Return the aborted transactions that may have records in [offset, until). Their markers may be in later
        segments, in remote storage or on this broker.
        """
        transactions: dict[int, AbortedTransaction] = {}
        for metadata in store.with_aborted_transactions(log.leader_epochs, offset):
            for aborted in await RemoteSegment(metadata, self._chunks).aborted_transactions():
                if aborted.last_offset >= offset and aborted.first_offset < until:
                    transactions[aborted.last_offset] = aborted
                if aborted.last_stable_offset >= until:
                    return list(transactions.values())
        for aborted in log.aborted_transactions(log.local_log_start_offset, until):
            if aborted.first_offset < until:
                transactions[aborted.last_offset] = aborted
        return list(transactions.values())

    async def offset_for_time(
        self, log: Log, store: RemotePartitionMetadataStore, timestamp_ms: int
    ) -> OffsetAndTimestamp | None:
        """Return offset and timestamp of the first record at `timestamp_ms` or later in the segments that begin below
        the local log; None if there is none.
        """
        start = log.log_start_offset
        for number, (metadata, until) in enumerate(store.chain(log.leader_epochs, start)):
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
            if metadata.start_offset >= log.local_log_start_offset:
                return None
            if metadata.max_timestamp_ms >= timestamp_ms:
                result = await RemoteSegment(metadata, self._chunks).find_timestamp(timestamp_ms, start)
                if result is not None and result.offset < until:
                    return result
        return None

    def max_timestamp(self, log: Log, store: RemotePartitionMetadataStore) -> int:
        """Return the highest timestamp of the log in remote storage in ms; -1 if there is none."""
        chain = store.chain(log.leader_epochs, log.log_start_offset)
        return max((metadata.max_timestamp_ms for metadata, _ in chain), default=-1)
