"""AlterShareGroupOffsets: set the start offsets of a share group without members.

A group that does not exist is created, so that its first member starts there.
"""

from __future__ import annotations

import asyncio

from ottla import errors
from ottla.broker.error_codes import errors_in
from ottla.broker.request_context import RequestContext
from ottla.broker.topic_creation import create_internal
from ottla.coordinator.share_partition.share_state_records import ShareKey
from ottla.model import SHARE_GROUP_STATE, ACLOperation, TopicPartition
from ottla.protocol.messages import alter_share_group_offsets as m
from ottla.security.acl import ResourceType


async def handle(request: m.AlterShareGroupOffsetsRequest, context: RequestContext) -> m.AlterShareGroupOffsetsResponse:
    context.require(ACLOperation.READ, ResourceType.GROUP, request.group_id)
    context.broker.groups.check(request.group_id)
    await create_internal(context.broker, SHARE_GROUP_STATE)
    runtime = context.broker.groups
    await runtime.append(request.group_id, runtime.groups.share.reset_epoch(request.group_id))
    unauthorized = context.unauthorized_errors(
        ACLOperation.READ, ResourceType.TOPIC, (topic.topic_name for topic in request.topics)
    )
    answers = []
    for topic in request.topics:
        error = unauthorized.get(topic.topic_name)
        answers.append(await _alter_topic(request.group_id, topic, context) if error is None else _failed(topic, error))
    return m.AlterShareGroupOffsetsResponse(responses=answers)


def _failed(
    topic: m.AlterShareGroupOffsetsRequestTopic, error: errors.KafkaError
) -> m.AlterShareGroupOffsetsResponseTopic:
    code, message = errors.code_of(error), error.message
    return m.AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            m.AlterShareGroupOffsetsResponsePartition(
                partition_index=p.partition_index, error_code=code, error_message=message
            )
            for p in topic.partitions
        ],
    )


async def _alter_topic(
    group_id: str, requested: m.AlterShareGroupOffsetsRequestTopic, context: RequestContext
) -> m.AlterShareGroupOffsetsResponseTopic:
    answer = m.AlterShareGroupOffsetsResponseTopic(topic_name=requested.topic_name)
    topic = context.broker.image.topics.get(requested.topic_name)
    if topic is not None:
        answer.topic_id = topic.id
    for partition in requested.partitions:
        result = m.AlterShareGroupOffsetsResponsePartition(partition_index=partition.partition_index)
        with errors_in(result):
            safe = _reset(
                group_id,
                TopicPartition(requested.topic_name, partition.partition_index),
                partition.start_offset,
                context,
            )
            if safe is not None:
                await safe
        answer.partitions.append(result)
    return answer


def _reset(group_id: str, tp: TopicPartition, start: int, context: RequestContext) -> asyncio.Future[None] | None:
    topic = context.broker.image.topics.get(tp.topic)
    partition = context.broker.partitions.get_leader(tp)
    if topic is None or partition is None:
        raise errors.UnknownTopicOrPartitionError(f"{tp} does not exist.")
    if not 0 <= start <= partition.high_watermark:
        raise errors.OffsetOutOfRangeError(f"{tp}: offset {start} is not in the range 0 to {partition.high_watermark}")
    return context.broker.share_states.reset(ShareKey(group_id, topic.id, tp.partition), start)
