"""DescribeTopicPartitions: topics page by page, for admin clients (KIP-966).

If a request is for all topics, those without DESCRIBE are left out. If it names such a topic, there is an authorization
error, whether or not the topic exists.
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.broker.security.authorized_operations import on_topic
from ottla.cluster.image.cluster_image import NO_LEADER, PartitionImage, TopicImage
from ottla.errors import LeaderNotAvailableError, UnknownTopicOrPartitionError, code_of
from ottla.model import ACLOperation
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.security.acl import ResourceType

MAX_PARTITIONS = 2000
"""The default of Kafka's max.request.partition.size.limit."""


def handle(request: DescribeTopicPartitionsRequest, context: RequestContext) -> DescribeTopicPartitionsResponse:
    """Return the topics in the order of their names, from the cursor on, up to the limit of partitions."""
    image = context.broker.image
    requested_names = {t.name for t in request.topics}
    unauthorized = context.unauthorized_errors(ACLOperation.DESCRIBE, ResourceType.TOPIC, requested_names)
    names = sorted(
        requested_names
        or image.topics.keys() - context.unauthorized(ACLOperation.DESCRIBE, ResourceType.TOPIC, image.topics)
    )
    first_partition = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        if names and names[0] == request.cursor.topic_name:
            first_partition = max(0, request.cursor.partition_index)
    left = max(1, min(request.response_partition_limit, MAX_PARTITIONS))
    answer = DescribeTopicPartitionsResponse(next_cursor=None)
    for name in names:
        topic = image.topics.get(name)
        if topic is None or name in unauthorized:
            code = code_of(unauthorized.get(name) or UnknownTopicOrPartitionError())
            answer.topics.append(DescribeTopicPartitionsResponseTopic(error_code=code, name=name))
            continue
        if left <= 0:
            answer.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        first_partition = min(first_partition, len(topic.partitions))  # the topic may have been created again
        end = min(len(topic.partitions), first_partition + left)
        answer.topics.append(_topic(topic, range(first_partition, end), context))
        left -= end - first_partition
        if end < len(topic.partitions):
            answer.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
        first_partition = 0
    return answer


def _topic(topic: TopicImage, shown: range, context: RequestContext) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[_partition(index, topic.partitions[index], context) for index in shown],
        topic_authorized_operations=on_topic(context, topic.name),
    )


def _partition(index: int, p: PartitionImage, context: RequestContext) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=code_of(LeaderNotAvailableError()) if p.leader == NO_LEADER else 0,
        partition_index=index,
        leader_id=p.leader,
        leader_epoch=p.leader_epoch,
        replica_nodes=list(p.replicas),
        isr_nodes=list(p.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=context.broker.image.offline_replicas(p),
    )
