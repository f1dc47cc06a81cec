"""AlterShareGroupOffsets: set where a share group without members begins in partitions. Served in all versions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ottla.broker.services import Call
from ottla.broker.topic_creation import create_internal
from ottla.cluster.metadata import SHARE_GROUP_STATE
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.state_records import ShareKey
from ottla.errors import (
    GroupIdNotFoundError,
    KafkaError,
    NonEmptyGroupError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
    code_of,
)
from ottla.model import TopicPartition
from ottla.protocol.messages import alter_share_group_offsets as m


def handle(request: m.AlterShareGroupOffsetsRequest, call: Call) -> Awaitable[m.AlterShareGroupOffsetsResponse]:
    """Set each partition; one that fails does not stop the others."""
    check_empty_share_group(request.group_id, call)
    return _alter_all(request, call)


def check_empty_share_group(group_id: str, call: Call) -> None:
    """Raise the error that tells why a group's progress cannot be changed."""
    runtime = call.services.groups
    runtime.check(group_id)
    group = runtime.groups.by_id.get(group_id)
    if not isinstance(group, ShareGroup):
        raise GroupIdNotFoundError(f"Group {group_id} is not a share group.")
    if group.members:
        raise NonEmptyGroupError(f"Group {group_id} has members.")


async def _alter_all(request: m.AlterShareGroupOffsetsRequest, call: Call) -> m.AlterShareGroupOffsetsResponse:
    await create_internal(call.services, SHARE_GROUP_STATE)
    return m.AlterShareGroupOffsetsResponse(
        responses=[await _alter_topic(request.group_id, topic, call) for topic in request.topics]
    )


async def _alter_topic(
    group_id: str, wanted: m.AlterShareGroupOffsetsRequestTopic, call: Call
) -> m.AlterShareGroupOffsetsResponseTopic:
    answer = m.AlterShareGroupOffsetsResponseTopic(topic_name=wanted.topic_name)
    topic = call.services.image.topics.get(wanted.topic_name)
    if topic is not None:
        answer.topic_id = topic.id
    for asked in wanted.partitions:
        result = m.AlterShareGroupOffsetsResponsePartition(partition_index=asked.partition_index)
        try:
            safe = _reset(group_id, TopicPartition(wanted.topic_name, asked.partition_index), asked.start_offset, call)
            if safe is not None:
                await safe
        except KafkaError as error:
            result.error_code, result.error_message = code_of(error), error.message
        answer.partitions.append(result)
    return answer


def _reset(group_id: str, tp: TopicPartition, start: int, call: Call) -> asyncio.Future[None] | None:
    topic = call.services.image.topics.get(tp.topic)
    partition = call.services.partitions.get(tp)
    if topic is None or partition is None:
        raise UnknownTopicOrPartitionError(f"{tp} does not exist.")
    if not 0 <= start <= partition.high_watermark:
        raise OffsetOutOfRangeError(f"{tp}: offset {start} is outside 0 to {partition.high_watermark}")
    return call.services.share_states.reset(ShareKey(group_id, topic.id, tp.partition), start)
