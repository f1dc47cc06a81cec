"""AlterPartition: a leader changes the ISR of its partitions through the controller (KIP-497). Between brokers.

Only the controller handles it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.request_context import RequestContext
from ottla.cluster.controller.alter_partition import AlterPartitionItem
from ottla.cluster.image.cluster_image import PartitionImage
from ottla.errors import KafkaError, UnknownTopicIdError, UnknownTopicOrPartitionError, code_of
from ottla.model import TopicPartition
from ottla.protocol.messages.alter_partition import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    AlterPartitionTopic,
    AlterPartitionTopicResult,
)

TOPIC_IDS_SINCE = 2


async def handle(request: AlterPartitionRequest, context: RequestContext) -> AlterPartitionResponse:
    proposals = list(_proposals(request, context))
    states = await context.broker.controller.isr_updates.alter_partitions(
        request.broker_id, request.broker_epoch, proposals
    )
    by_partition = {proposal.tp: state for proposal, state in zip(proposals, states, strict=True)}
    return AlterPartitionResponse(topics=[_topic(topic, by_partition, context) for topic in request.topics])


def _proposals(request: AlterPartitionRequest, context: RequestContext) -> Iterator[AlterPartitionItem]:
    for topic in request.topics:
        name = _name(topic, context)
        for p in topic.partitions if name is not None else ():
            epochs = {member.broker_id: member.broker_epoch for member in p.new_isr_with_epochs}
            isr = tuple(epochs) or tuple(p.new_isr)
            yield AlterPartitionItem(
                TopicPartition(name or "", p.partition_index), p.leader_epoch, p.partition_epoch, isr, epochs
            )


def _name(topic: AlterPartitionTopic, context: RequestContext) -> str | None:
    return context.broker.image.names.get(topic.topic_id) if context.version >= TOPIC_IDS_SINCE else topic.topic_name


def _topic(
    topic: AlterPartitionTopic, states: dict[TopicPartition, PartitionImage | KafkaError], context: RequestContext
) -> AlterPartitionTopicResult:
    name = _name(topic, context)
    unknown = UnknownTopicIdError() if name is None else UnknownTopicOrPartitionError()
    with_states = [(p, states.get(TopicPartition(name or "", p.partition_index), unknown)) for p in topic.partitions]
    return AlterPartitionTopicResult(
        topic_name=topic.topic_name, topic_id=topic.topic_id, partitions=[_result(p, state) for p, state in with_states]
    )


def _result(p: AlterPartitionData, state: PartitionImage | KafkaError) -> AlterPartitionResult:
    if isinstance(state, KafkaError):
        return AlterPartitionResult(partition_index=p.partition_index, error_code=code_of(state))
    return AlterPartitionResult(
        partition_index=p.partition_index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=state.state_version,
    )
