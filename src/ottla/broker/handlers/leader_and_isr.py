"""LeaderAndIsr: the controller tells this broker which partitions it leads or follows. Between brokers.

Served in all versions. A topic that is not known yet is led or followed when UpdateMetadata tells of it, which comes
right behind; see `cluster/broker/metadata_updates`.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.services import Call
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


def handle(request: LeaderAndIsrRequest, call: Call) -> Awaitable[LeaderAndIsrResponse]:
    """Take the roles over."""
    return _answer(request, call)


async def _answer(request: LeaderAndIsrRequest, call: Call) -> LeaderAndIsrResponse:
    await call.services.following.leader_and_isr(request)
    if call.version >= TOPIC_IDS_SINCE:
        return LeaderAndIsrResponse(
            topics=[
                LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=_outcomes(topic, call))
                for topic in request.topic_states
            ]
        )
    errors = [error for topic in request.topic_states for error in _outcomes(topic, call)]
    for state in request.ungrouped_partition_states:
        errors.append(_outcome(TopicPartition(state.topic_name, state.partition_index), call))
    return LeaderAndIsrResponse(partition_errors=errors)


def _outcomes(topic: LeaderAndIsrTopicState, call: Call) -> list[LeaderAndIsrPartitionError]:
    return [_outcome(TopicPartition(topic.topic_name, p.partition_index), call) for p in topic.partition_states]


def _outcome(tp: TopicPartition, call: Call) -> LeaderAndIsrPartitionError:
    """Whether the replica can do its work: one whose disk has failed cannot, and the controller has others lead."""
    services = call.services
    partition, known = services.partitions.get(tp), services.image.partition(tp)
    has_none = partition is None and known is not None and services.broker_id in known.replicas
    code = KafkaStorageError.code if has_none or (partition is not None and partition.failed) else 0
    return LeaderAndIsrPartitionError(topic_name=tp.topic, partition_index=tp.partition, error_code=code or 0)
