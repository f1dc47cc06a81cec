"""Transaction markers: the control batch that ends a transaction in each of its partitions.

`LocalMarkers` writes to the partitions that this broker leads; `TransactionMarkerChannel` sends WriteTxnMarkers to the
leaders of the others. Kafka's `TransactionMarkerChannelManager`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.coordinator.transaction.transaction import EPOCH_PER_TRANSACTION
from ottla.errors import KafkaError, UnknownServerError
from ottla.model import CONSUMER_OFFSETS, ProducerIdAndEpoch, TopicPartition
from ottla.records.builder import BatchBuilder, record_size_upper_bound
from ottla.replication.partitions import Partitions
from ottla.storage.producer_state import ABORT, COMMIT, marker_record

Results = dict[TopicPartition, KafkaError | None]
"""The results by partition: None if its marker is committed, else the error."""
OnTransactionEnd = Callable[[TopicPartition, int, bool], None]
"""Called with a partition of `__consumer_offsets`, a producer id, and whether the transaction is committed (or
aborted).
"""


class TransactionEnd(NamedTuple):
    """The outcome of a producer's transaction. `commit`: False to abort. `version`: the transaction version."""

    producer: ProducerIdAndEpoch
    commit: bool
    coordinator_epoch: int
    version: int


class Markers(Protocol):
    """Writes transaction markers."""

    async def write(self, ending: TransactionEnd, partitions: Collection[TopicPartition]) -> Results:
        """Write a marker to each partition. Return the result of each when all markers are committed or have failed."""
        ...


class LocalMarkers:
    """Appends markers to partitions that this broker leads."""

    def __init__(
        self, clock: Clock, partitions: Partitions, image: Callable[[], ClusterImage], offsets_decided: OnTransactionEnd
    ) -> None:
        self._clock = clock
        self._partitions = partitions
        self._image = image
        self._offsets_decided = offsets_decided

    async def write(self, ending: TransactionEnd, partitions: Collection[TopicPartition]) -> Results:
        """Write a marker to each partition. Return the result of each when all markers are committed or have failed."""
        results: Results = {}
        waits: dict[TopicPartition, asyncio.Future[None]] = {}
        for tp in partitions:
            try:
                committed = self._append(ending, tp)
            except KafkaError as error:
                results[tp] = error
                continue
            results[tp] = None
            if committed is not None:
                waits[tp] = committed
        for tp, committed in waits.items():
            results[tp] = await _outcome(committed)
        for tp, failed in results.items():
            if failed is None and tp.topic == CONSUMER_OFFSETS:
                self._offsets_decided(tp, ending.producer.id, ending.commit)
        return results

    def _append(self, ending: TransactionEnd, tp: TopicPartition) -> asyncio.Future[None] | None:
        partition = self._partitions.leader(self._image(), tp)
        if ending.version >= EPOCH_PER_TRANSACTION:
            partition.log.producers.check_bumped(*ending.producer)
        appended = partition.append(_batch(ending, self._clock.now_ms()), from_client=False)
        return partition.when_committed(appended.last_offset + 1)


def _batch(ending: TransactionEnd, now_ms: int) -> memoryview:
    key, value = marker_record(COMMIT if ending.commit else ABORT, ending.coordinator_epoch)
    builder = BatchBuilder(bytearray(record_size_upper_bound(len(key), len(value))))
    builder.append(now_ms, key, value)
    return builder.close(ending.producer.id, ending.producer.epoch, transactional=True, control=True)


async def _outcome(committed: asyncio.Future[None]) -> KafkaError | None:
    try:
        await committed
    except KafkaError as error:
        return error
    except asyncio.CancelledError:
        if not committed.cancelled():
            raise
        return UnknownServerError()
    return None
