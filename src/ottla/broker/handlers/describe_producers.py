"""DescribeProducers: the active producers of partitions with a replica on this broker. Requires READ on the topic.

`kafka-transactions.sh find-hanging` uses it to find open transactions. Followers also answer, based on the batches that
they have fetched.
"""

from __future__ import annotations

from collections.abc import Collection

from ottla.broker.request_context import RequestContext
from ottla.errors import KafkaError, TopicAuthorizationFailedError, code_of
from ottla.model import ACLOperation, TopicPartition
from ottla.names import check_topic_name
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.security.acl import ResourceType
from ottla.storage.producer_state import ProducerState as StoredProducer


def handle(request: DescribeProducersRequest, context: RequestContext) -> DescribeProducersResponse:
    unauthorized = context.unauthorized_errors(
        ACLOperation.READ, ResourceType.TOPIC, (topic.name for topic in request.topics)
    )
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_partition(topic.name, i, context, unauthorized) for i in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _partition(name: str, index: int, context: RequestContext, unauthorized: Collection[str]) -> PartitionResponse:
    broker = context.broker
    try:
        check_topic_name(name)
        if name in unauthorized:
            raise TopicAuthorizationFailedError
        partition = broker.partitions.replica(broker.image, TopicPartition(name, index))
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=code_of(error), error_message=error.message)
    producers = partition.log.producers.producers.values()
    return PartitionResponse(partition_index=index, active_producers=[_state(producer) for producer in producers])


def _state(producer: StoredProducer) -> ProducerState:
    return ProducerState(
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.first_txn_offset,
    )
