"""OffsetDelete: delete a group's offsets of topics that it is not subscribed to (KIP-496)."""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.coordinator.runtime.result import CoordinatorRecord
from ottla.errors import GroupSubscribedToTopicError, KafkaError, UnknownTopicOrPartitionError, code_of
from ottla.logs import listed
from ottla.model import ACLOperation, TopicPartition
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.security.acl import ResourceType


async def handle(request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    """Delete the offsets. It is not an error if a partition has none."""
    context.require(ACLOperation.DELETE, ResourceType.GROUP, request.group_id)
    runtime = context.broker.groups
    runtime.check(request.group_id)
    partitions = [TopicPartition(t.name, p.partition_index) for t in request.topics for p in t.partitions]
    unauthorized = context.unauthorized_errors(
        ACLOperation.READ, ResourceType.TOPIC, (topic.name for topic in request.topics)
    )
    codes: dict[TopicPartition, int] = {}
    tombstones: list[CoordinatorRecord] = []
    deleted: list[TopicPartition] = []
    for tp, record in runtime.offsets.delete(request.group_id, partitions):
        error = unauthorized.get(tp.topic)
        codes[tp] = _code(tp, record, context) if error is None else code_of(error)
        if not codes[tp] and record is not None and runtime.offsets.has(request.group_id, tp):
            tombstones.append(record)
            deleted.append(tp)
    try:
        await runtime.append(request.group_id, tombstones)
        if deleted:
            context.log_change("Deleted offsets of group %s: %s", request.group_id, listed(deleted))
    except KafkaError as error:
        codes = {tp: code or code_of(error) for tp, code in codes.items()}
    return OffsetDeleteResponse(
        topics=[_topic(t.name, [p.partition_index for p in t.partitions], codes) for t in request.topics]
    )


def _code(tp: TopicPartition, record: CoordinatorRecord | None, context: RequestContext) -> int:
    if context.broker.image.partition(tp) is None:
        return code_of(UnknownTopicOrPartitionError())
    return code_of(GroupSubscribedToTopicError()) if record is None else 0


def _topic(name: str, partitions: list[int], codes: dict[TopicPartition, int]) -> OffsetDeleteResponseTopic:
    answers = [
        OffsetDeleteResponsePartition(partition_index=p, error_code=codes[TopicPartition(name, p)]) for p in partitions
    ]
    return OffsetDeleteResponseTopic(name=name, partitions=answers)
