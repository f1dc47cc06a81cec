"""WriteTxnMarkers: write the markers that end transactions to partitions that this broker leads.

Transaction coordinators send it to leaders, and `kafka-transactions.sh abort` for a hanging transaction. Requires ALTER
or CLUSTER_ACTION on the cluster.

A client that is not a broker of the cluster can only abort, and only if the partition has an open transaction of this
producer id and epoch. This is not checked for brokers, because they may repeat a marker.
"""

from __future__ import annotations

import asyncio

from ottla.broker.request_context import RequestContext
from ottla.coordinator.transaction.transaction_markers import Results, TransactionEnd
from ottla.errors import InvalidProducerEpochError, InvalidTxnStateError, KafkaError, code_of
from ottla.logs import listed
from ottla.model import ACLOperation, ProducerIdAndEpoch, TopicPartition
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.security.acl import ResourceType


async def handle(request: WriteTxnMarkersRequest, context: RequestContext) -> WriteTxnMarkersResponse:
    authorization_error = None
    if not context.allows(ACLOperation.ALTER, ResourceType.CLUSTER):
        authorization_error = context.authorization_error(ACLOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
    # concurrently, because each marker waits for its replicas
    written = await asyncio.gather(*(_write(marker, authorization_error, context) for marker in request.markers))
    return WriteTxnMarkersResponse(markers=written)


async def _write(
    marker: WritableTxnMarker, authorization_error: KafkaError | None, context: RequestContext
) -> WritableTxnMarkerResult:
    producer = ProducerIdAndEpoch(marker.producer_id, marker.producer_epoch)
    ending = TransactionEnd(producer, marker.transaction_result, marker.coordinator_epoch, marker.transaction_version)
    partitions = [TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]
    results: Results = {}
    if authorization_error is not None:
        results = dict.fromkeys(partitions, authorization_error)
    elif not context.is_broker:
        results = {tp: error for tp in partitions if (error := _why_not(ending, tp, context)) is not None}
    results |= await context.broker.markers.write(ending, [tp for tp in partitions if tp not in results])
    if not context.is_broker and (aborted := [tp for tp, error in results.items() if error is None]):
        context.log_change("Aborted the transaction of producer %s in %s", producer, listed(aborted))
    return WritableTxnMarkerResult(producer_id=producer.id, topics=_by_topic(results))


def _why_not(ending: TransactionEnd, tp: TopicPartition, context: RequestContext) -> KafkaError | None:
    """Return None if the client may end this transaction in a partition, else the error that says why not."""
    broker = context.broker
    try:
        producers = broker.partitions.leader(broker.image, tp).log.producers
    except KafkaError as error:
        return error
    producer = producers.producers.get(ending.producer.id)
    if producer is not None and ending.producer.epoch < producer.epoch:
        return InvalidProducerEpochError(f"{tp} already has epoch {producer.epoch} of producer {ending.producer}")
    if ending.commit or not producers.has_open_transaction(*ending.producer):
        return InvalidTxnStateError(f"{tp} has no open transaction of producer {ending.producer} to abort")
    return None


def _by_topic(results: Results) -> list[WritableTxnMarkerTopicResult]:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for tp, error in results.items():
        code = 0 if error is None else code_of(error)
        result = WritableTxnMarkerPartitionResult(partition_index=tp.partition, error_code=code)
        topics.setdefault(tp.topic, []).append(result)
    return [WritableTxnMarkerTopicResult(name=name, partitions=partitions) for name, partitions in topics.items()]
