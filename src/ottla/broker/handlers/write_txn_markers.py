"""WriteTxnMarkers: end transactions in partitions that this broker leads. Served in all versions.

Coordinators of transactions send it to the leaders of the partitions; `kafka-transactions.sh abort` does too, for a
transaction that was left open. Who asks has to be allowed to alter the cluster, or to act for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ottla.acl import ResourceType
from ottla.broker.services import Call
from ottla.coordinator.state_log import Producer
from ottla.coordinator.transaction_markers import Ending, Results
from ottla.errors import KafkaError, code_of
from ottla.model import ACLOperation, TopicPartition
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
    refusal = None
    if not call.allows(ACLOperation.ALTER, ResourceType.CLUSTER):
        refusal = call.why_not(ACLOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
    # all at once: each waits for its replicas
    written = await asyncio.gather(*(_write(marker, refusal, call) for marker in request.markers))
    return WriteTxnMarkersResponse(markers=written)


async def _write(marker: WritableTxnMarker, refusal: KafkaError | None, call: Call) -> WritableTxnMarkerResult:
    producer = Producer(marker.producer_id, marker.producer_epoch)
    ending = Ending(producer, marker.transaction_result, marker.coordinator_epoch, marker.transaction_version)
    partitions = [TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]
    if refusal is not None:
        results: Results = dict.fromkeys(partitions, refusal)
    else:
        results = await call.services.markers.write(ending, partitions)
    return WritableTxnMarkerResult(producer_id=producer.id, topics=_by_topic(results))


def _by_topic(results: Results) -> list[WritableTxnMarkerTopicResult]:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for tp, error in results.items():
        code = 0 if error is None else code_of(error)
        result = WritableTxnMarkerPartitionResult(partition_index=tp.partition, error_code=code)
        topics.setdefault(tp.topic, []).append(result)
    return [WritableTxnMarkerTopicResult(name=name, partitions=found) for name, found in topics.items()]
