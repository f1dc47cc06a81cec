"""Reading from remote storage for a request: Fetch, ShareFetch or ListOffsets.

Handlers read from the local log. If a record is only in remote storage, this raises RemoteReadNeededError, and the
handler reads the record from there without blocking the event loop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.broker_context import BrokerContext
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla.storage.txn_index import AbortedTransaction


class RemoteReadNeededError(Exception):
    """A record of a partition is only in remote storage."""

    def __init__(self, partition: Partition, offset: int) -> None:
        super().__init__(f"offset {offset} of {partition.topic_partition} is only in remote storage")
        self.partition = partition
        self.offset = offset


class RemoteRecords(NamedTuple):
    """Whole batches (none, for example, if remote storage has not answered in time), and the aborted transactions that
    may have records in them.
    """

    data: memoryview
    aborted: list[AbortedTransaction]


def check_is_local(broker: BrokerContext, partition: Partition, offset: int) -> None:
    """Raise RemoteReadNeededError if an offset of the partition is only in remote storage."""
    log = partition.log
    if broker.remote_log is not None and log.log_start_offset <= offset < log.segments[0].base_offset:
        raise RemoteReadNeededError(partition, offset)


class RemoteReads:
    """Reads from remote storage that together may take at most remote.fetch.max.wait.ms."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._deadline: float | None = None

    async def read(
        self, partition: Partition, offset: int, max_bytes: int, *, at_least_one: bool, committed_only: bool
    ) -> RemoteRecords:
        """Return batches from the one that contains `offset` on. Raises KafkaError if they cannot be read.

        If compaction has removed the records from remote storage, return the first ones of the local log.
        """
        now = asyncio.get_running_loop().time()
        if self._deadline is None:
            self._deadline = now + self._broker.config.remote_fetch_max_wait_ms / 1000
        assert self._broker.remote_log is not None
        result = await self._broker.remote_log.read(
            partition,
            offset,
            max_bytes,
            seconds=max(self._deadline - now, 0.0),
            at_least_one=at_least_one,
            with_aborted=committed_only,
        )
        partition.check_open()
        if result is not None:
            return RemoteRecords(*result)
        # compaction has removed the records up to the local log
        log = partition.log
        start = log.local_log_start_offset
        with partition.read(start, max_bytes, committed_only=committed_only, at_least_one=at_least_one) as records:
            data = memoryview(records.read())
        aborted = log.aborted_transactions(start, log.offset_after(start, len(data))) if committed_only and data else []
        return RemoteRecords(data, aborted)
