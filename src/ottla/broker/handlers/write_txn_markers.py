"""WriteTxnMarkers: end transactions in partitions that this broker leads. Served in all versions.

Coordinators of transactions send it to the leaders of the partitions; `kafka-transactions.sh abort` does too, for a
transaction that was left open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ottla.broker.services import Call
from ottla.coordinator.state_log import Producer
from ottla.coordinator.transaction_markers import Ending, Results
from ottla.errors import code_of
from ottla.model import TopicPartition
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def handle(request: WriteTxnMarkersRequest, call: Call) -> Awaitable[WriteTxnMarkersResponse]:
    """Write the markers."""
    return _answer(request, call)


async def _answer(request: WriteTxnMarkersRequest, call: Call) -> WriteTxnMarkersResponse:
    # all at once: each waits for its replicas
    return WriteTxnMarkersResponse(markers=await asyncio.gather(*(_write(marker, call) for marker in request.markers)))


async def _write(marker: WritableTxnMarker, call: Call) -> WritableTxnMarkerResult:
    producer = Producer(marker.producer_id, marker.producer_epoch)
    ending = Ending(producer, marker.transaction_result, marker.coordinator_epoch, marker.transaction_version)
    partitions = [TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]
    results = await call.services.markers.write(ending, partitions)
    return WritableTxnMarkerResult(producer_id=producer.id, topics=_by_topic(results))


def _by_topic(results: Results) -> list[WritableTxnMarkerTopicResult]:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for tp, error in results.items():
        code = 0 if error is None else code_of(error)
        result = WritableTxnMarkerPartitionResult(partition_index=tp.partition, error_code=code)
        topics.setdefault(tp.topic, []).append(result)
    return [WritableTxnMarkerTopicResult(name=name, partitions=found) for name, found in topics.items()]
