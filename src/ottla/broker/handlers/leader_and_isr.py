"""LeaderAndIsr: the controller makes this broker the leader or a follower of partitions. Between brokers.

Partitions of topics that this broker does not know yet get their role with the UpdateMetadata that follows (see
`cluster/broker/metadata_updates`).
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.errors import KafkaStorageError
from ottla.model import TopicPartition
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)

TOPIC_IDS_SINCE = 5


async def handle(request: LeaderAndIsrRequest, context: RequestContext) -> LeaderAndIsrResponse:
    await context.broker.controller_requests.leader_and_isr(request)
    if context.version >= TOPIC_IDS_SINCE:
        return LeaderAndIsrResponse(
            topics=[
                LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=_outcomes(topic, context))
                for topic in request.topic_states
            ]
        )
    errors = [error for topic in request.topic_states for error in _outcomes(topic, context)]
    for state in request.ungrouped_partition_states:
        errors.append(_outcome(TopicPartition(state.topic_name, state.partition_index), context))
    return LeaderAndIsrResponse(partition_errors=errors)


def _outcomes(topic: LeaderAndIsrTopicState, context: RequestContext) -> list[LeaderAndIsrPartitionError]:
    return [_outcome(TopicPartition(topic.topic_name, p.partition_index), context) for p in topic.partition_states]


def _outcome(tp: TopicPartition, context: RequestContext) -> LeaderAndIsrPartitionError:
    """Return the result for a partition: KAFKA_STORAGE_ERROR if the replica is on a failed disk, so that the controller
    elects another leader.
    """
    broker = context.broker
    partition, image = broker.partitions.get(tp), broker.image.partition(tp)
    has_none = partition is None and image is not None and broker.broker_id in image.replicas
    code = KafkaStorageError.code if has_none or (partition is not None and partition.failed) else 0
    return LeaderAndIsrPartitionError(topic_name=tp.topic, partition_index=tp.partition, error_code=code or 0)
