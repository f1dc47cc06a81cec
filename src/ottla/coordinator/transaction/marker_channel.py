"""Transaction markers for all partitions of the cluster: appended by this broker if it leads the partition, else sent
to the leader with WriteTxnMarkers.

The leaders are taken from the cluster image. If a leader does not answer, or has resigned, the results of its
partitions are errors, and the coordinator retries. Kafka's `TransactionMarkerChannelManager`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from ottla.cluster.image.cluster_image import NO_LEADER, ClusterImage
from ottla.cluster.interbroker.client import RequestSender
from ottla.cluster.interbroker.request_batcher import RequestBatcher
from ottla.coordinator.transaction.transaction_markers import LocalMarkers, Results, TransactionEnd
from ottla.errors import KafkaError, LeaderNotAvailableError, UnknownServerError, for_code
from ottla.model import TopicPartition
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

VERSION: Final = 1
"""The WriteTxnMarkers version that is sent: the newest of Kafka 3.9."""
PURPOSE: Final = "markers"


class MarkerBatch(NamedTuple):
    """The markers of one transaction in partitions that one broker leads."""

    ending: TransactionEnd
    partitions: list[TopicPartition]


class TransactionMarkerChannel:
    """Writes markers to partitions of the whole cluster. Not thread-safe: event loop only."""

    def __init__(
        self,
        broker_id: int,
        local: LocalMarkers,
        sender: RequestSender,
        image: Callable[[], ClusterImage],
        timeout: float,
    ) -> None:
        self._broker_id = broker_id
        self._local = local
        self._sender = sender
        self._image = image
        self._timeout = timeout
        self._batcher: RequestBatcher[MarkerBatch, Results] = RequestBatcher(self._send)

    async def write(self, ending: TransactionEnd, partitions: Collection[TopicPartition]) -> Results:
        """Write a marker to each partition. Return the result of each when all markers are committed or have failed."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp in partitions:
            by_leader.setdefault(self._leader(tp), []).append(tp)
        if by_leader.keys() == {self._broker_id}:
            return await self._local.write(ending, partitions)
        parts = [self._write(leader, MarkerBatch(ending, led)) for leader, led in by_leader.items()]
        results: Results = {}
        for part in await asyncio.gather(*parts):
            results |= part
        return results

    def _leader(self, tp: TopicPartition) -> int:
        """Return the broker id of a partition's leader, or NO_LEADER.

        For an unknown partition, return this broker, which then reports the error.
        """
        partition = self._image().partition(tp)
        return self._broker_id if partition is None else partition.leader

    async def _write(self, leader: int, item: MarkerBatch) -> Results:
        if leader == self._broker_id:
            return await self._local.write(*item)
        if leader == NO_LEADER:
            return dict.fromkeys(item.partitions, LeaderNotAvailableError())
        try:
            return await self._batcher.submit(leader, item)
        except KafkaError as error:
            return dict.fromkeys(item.partitions, error)

    async def _send(self, broker_id: int, items: list[MarkerBatch]) -> list[Results]:
        request = WriteTxnMarkersRequest(markers=[_marker(item) for item in items])
        response = await self._sender.send(broker_id, request, VERSION, timeout=self._timeout, purpose=PURPOSE)
        codes = _codes(response)
        return [{tp: _error(codes.get((item.ending.producer.id, tp))) for tp in item.partitions} for item in items]


def _marker(item: MarkerBatch) -> WritableTxnMarker:
    ending = item.ending
    topics: dict[str, list[int]] = {}
    for tp in item.partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return WritableTxnMarker(
        producer_id=ending.producer.id,
        producer_epoch=ending.producer.epoch,
        transaction_result=ending.commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
        coordinator_epoch=ending.coordinator_epoch,
        transaction_version=ending.version,
    )


def _codes(response: WriteTxnMarkersResponse) -> dict[tuple[int, TopicPartition], int]:
    """Return the error codes by producer id and partition. Kafka's responses are not in the order of the request."""
    return {
        (marker.producer_id, TopicPartition(topic.name, partition.partition_index)): partition.error_code
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }


def _error(code: int | None) -> KafkaError | None:
    if code == 0:
        return None
    return UnknownServerError("the leader's response does not have the marker") if code is None else for_code(code)()
