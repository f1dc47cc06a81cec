"""DescribeShareGroupOffsets: the start offsets of share groups, and from version 1 on their lag.

A partition without state has offset -1 and no error. For topics without DESCRIBE, there is an error if the request
names them; if it requests all topics, they are left out.
"""

from __future__ import annotations

import asyncio

from ottla.broker.error_responses import errors_in
from ottla.broker.request_context import RequestContext
from ottla.broker.sessions.share_state import end_offsets
from ottla.coordinator.group.share.share_group import ShareGroup
from ottla.coordinator.share_partition.share_state_records import UNINITIALIZED, ShareKey
from ottla.errors import KafkaError, UnknownTopicOrPartitionError, code_of
from ottla.model import SHARE_GROUP_STATE, ACLOperation, TopicPartition
from ottla.protocol.messages import describe_share_group_offsets as m
from ottla.security.acl import ResourceType


async def handle(
    request: m.DescribeShareGroupOffsetsRequest, context: RequestContext
) -> m.DescribeShareGroupOffsetsResponse:
    return m.DescribeShareGroupOffsetsResponse(groups=[await _group(group, context) for group in request.groups])


async def _group(
    requested: m.DescribeShareGroupOffsetsRequestGroup, context: RequestContext
) -> m.DescribeShareGroupOffsetsResponseGroup:
    try:
        context.require(ACLOperation.DESCRIBE, ResourceType.GROUP, requested.group_id)
        group = context.broker.groups.described(requested.group_id, ShareGroup)
    except KafkaError as error:
        return m.DescribeShareGroupOffsetsResponseGroup(
            group_id=requested.group_id, error_code=code_of(error), error_message=error.message
        )
    topics = [
        await _topic(group.id, name, partitions, context)
        for name, partitions in _requested_topics(requested, group, context)
    ]
    return m.DescribeShareGroupOffsetsResponseGroup(group_id=requested.group_id, topics=topics)


def _requested_topics(
    requested: m.DescribeShareGroupOffsetsRequestGroup, group: ShareGroup, context: RequestContext
) -> list[tuple[str, list[int]]]:
    if requested.topics is not None:
        return [(t.topic_name, t.partitions) for t in requested.topics]
    initialized: dict[str, list[int]] = {}
    for tip in sorted(group.initialized):
        name = context.broker.image.names.get(tip.topic_id)
        if name is not None:
            initialized.setdefault(name, []).append(tip.partition)
    hidden = context.unauthorized(ACLOperation.DESCRIBE, ResourceType.TOPIC, initialized)
    return sorted((name, partitions) for name, partitions in initialized.items() if name not in hidden)


async def _topic(
    group_id: str, name: str, partitions: list[int], context: RequestContext
) -> m.DescribeShareGroupOffsetsResponseTopic:
    try:
        context.require(ACLOperation.DESCRIBE, ResourceType.TOPIC, name)
        topic = context.broker.image.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartitionError
    except KafkaError as error:
        code = code_of(error)
        answers = [
            m.DescribeShareGroupOffsetsResponsePartition(partition_index=p, start_offset=UNINITIALIZED, error_code=code)
            for p in partitions
        ]
        return m.DescribeShareGroupOffsetsResponseTopic(topic_name=name, partitions=answers)
    ends = await end_offsets(
        context.broker,
        (TopicPartition(name, p) for p in partitions),
        f"reporting no lag of share group {group_id} in the partitions that it leads",
    )
    answers = list(
        await asyncio.gather(
            *(
                _partition(ShareKey(group_id, topic.id, p), ends.get(TopicPartition(name, p)), context)
                for p in partitions
            )
        )
    )
    return m.DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic.id, partitions=answers)


async def _partition(
    key: ShareKey, end: int | None, context: RequestContext
) -> m.DescribeShareGroupOffsetsResponsePartition:
    answer = m.DescribeShareGroupOffsetsResponsePartition(partition_index=key.partition, start_offset=UNINITIALIZED)
    with errors_in(answer):
        if SHARE_GROUP_STATE not in context.broker.image.topics:
            return answer
        state = await context.broker.share_persister.summary(key)
        answer.start_offset, answer.leader_epoch = state.start, state.leader_epoch
        if end is not None and state.start != UNINITIALIZED:
            answer.lag = end - state.start - max(state.done, 0)
    return answer
