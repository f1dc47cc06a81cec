"""DescribeShareGroupOffsets: the start offsets of share groups; their lag from version 1 on.

A partition without state has offset -1 and no error. Topics without DESCRIBE have an error if the client names them,
and are left out of a request for all topics.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.request_context import RequestContext
from ottla.cluster.image.cluster_image import TopicImage
from ottla.coordinator.group.share.share_group import ShareGroup
from ottla.coordinator.share_partition.share_state_records import ShareKey
from ottla.errors import GroupIdNotFoundError, KafkaError, UnknownTopicOrPartitionError, code_of
from ottla.model import ACLOperation, TopicPartition
from ottla.protocol.messages import describe_share_group_offsets as m
from ottla.security.acl import ResourceType

NOT_BEGUN = -1


def handle(request: m.DescribeShareGroupOffsetsRequest, context: RequestContext) -> m.DescribeShareGroupOffsetsResponse:
    return m.DescribeShareGroupOffsetsResponse(groups=[_group(group, context) for group in request.groups])


def _group(
    requested: m.DescribeShareGroupOffsetsRequestGroup, context: RequestContext
) -> m.DescribeShareGroupOffsetsResponseGroup:
    try:
        context.require(ACLOperation.DESCRIBE, ResourceType.GROUP, requested.group_id)
        context.broker.groups.check(requested.group_id)
        group = context.broker.groups.groups.by_id.get(requested.group_id)
        if not isinstance(group, ShareGroup):
            raise GroupIdNotFoundError(f"Group {requested.group_id} is not a share group.")
    except KafkaError as error:
        return m.DescribeShareGroupOffsetsResponseGroup(
            group_id=requested.group_id, error_code=code_of(error), error_message=error.message
        )
    topics = [
        _topic(requested.group_id, name, partitions, context)
        for name, partitions in _requested_topics(requested, context)
    ]
    return m.DescribeShareGroupOffsetsResponseGroup(group_id=requested.group_id, topics=topics)


def _requested_topics(
    group: m.DescribeShareGroupOffsetsRequestGroup, context: RequestContext
) -> Iterator[tuple[str, list[int]]]:
    if group.topics is not None:
        yield from ((t.topic_name, t.partitions) for t in group.topics)
        return
    begun: dict[str, list[int]] = {}
    for key in context.broker.share_states.keys_of_group(group.group_id):
        name = context.broker.image.names.get(key.topic_id)
        if name is not None:
            begun.setdefault(name, []).append(key.partition)
    hidden = context.unauthorized(ACLOperation.DESCRIBE, ResourceType.TOPIC, begun)
    yield from sorted((name, sorted(partitions)) for name, partitions in begun.items() if name not in hidden)


def _topic(
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
            m.DescribeShareGroupOffsetsResponsePartition(partition_index=p, start_offset=NOT_BEGUN, error_code=code)
            for p in partitions
        ]
        return m.DescribeShareGroupOffsetsResponseTopic(topic_name=name, partitions=answers)
    return m.DescribeShareGroupOffsetsResponseTopic(
        topic_name=name, topic_id=topic.id, partitions=[_partition(group_id, topic, p, context) for p in partitions]
    )


def _partition(
    group_id: str, topic: TopicImage, index: int, context: RequestContext
) -> m.DescribeShareGroupOffsetsResponsePartition:
    shared = context.broker.share_states.get(ShareKey(group_id, topic.id, index))
    answer = m.DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=NOT_BEGUN)
    if shared is not None:
        answer.start_offset = shared.start
        partition = context.broker.partitions.get_leader(TopicPartition(topic.name, index))
        if partition is not None:
            answer.lag = partition.high_watermark - shared.start - shared.done
    return answer
