"""AlterShareGroupOffsets: set the start offsets of a share group without members.

If the group does not exist, it is created, so that its first member starts at these offsets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ottla import errors
from ottla.broker.error_responses import errors_in
from ottla.broker.request_context import RequestContext
from ottla.broker.sessions.share_state import end_offsets, record_initialized
from ottla.broker.topic_creation import create_internal
from ottla.cluster.image.cluster_image import TopicImage
from ottla.coordinator.group.share.share_group import ShareGroup
from ottla.coordinator.share_partition.share_state_records import ShareKey
from ottla.logs import listed
from ottla.model import SHARE_GROUP_STATE, ACLOperation, TopicIdPartition, TopicPartition
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
    ends = await end_offsets(
        context.broker,
        (TopicPartition(t.topic_name, p.partition_index) for t in request.topics for p in t.partitions),
        f"not altering the offsets of share group {request.group_id} in the partitions that it leads",
    )
    altered = OffsetAlteration(request.group_id, context, ends)
    answers = []
    for topic in request.topics:
        error = unauthorized.get(topic.topic_name)
        answers.append(await altered.alter(topic) if error is None else _failed(topic, error))
    await record_initialized(context.broker, request.group_id, altered.partitions)
    if altered.offsets:
        offsets = [f"{tp}={offset}" for tp, offset in altered.offsets.items()]
        context.log_change("Set start offsets of share group %s: %s", request.group_id, listed(offsets))
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


class OffsetAlteration:
    """The alteration of a group's start offsets. `ends`: the high watermarks of the partitions."""

    def __init__(self, group_id: str, context: RequestContext, ends: Mapping[TopicPartition, int]) -> None:
        group = context.broker.groups.groups.by_id[group_id]
        assert isinstance(group, ShareGroup)
        self._group_id = group_id
        self._state_epoch = group.epoch
        self._broker = context.broker
        self._ends = ends
        self.partitions: list[TopicIdPartition] = []
        """The partitions whose start offset was set."""
        self.offsets: dict[TopicPartition, int] = {}
        """The new start offsets of the partitions in `partitions`."""

    async def alter(self, requested: m.AlterShareGroupOffsetsRequestTopic) -> m.AlterShareGroupOffsetsResponseTopic:
        """Set the start offsets of a topic's partitions concurrently. An error of one does not affect the others."""
        answer = m.AlterShareGroupOffsetsResponseTopic(topic_name=requested.topic_name)
        topic = self._broker.image.topics.get(requested.topic_name)
        if topic is not None:
            answer.topic_id = topic.id
        answer.partitions = list(
            await asyncio.gather(*(self._partition(topic, requested.topic_name, p) for p in requested.partitions))
        )
        return answer

    async def _partition(
        self, topic: TopicImage | None, name: str, requested: m.AlterShareGroupOffsetsRequestPartition
    ) -> m.AlterShareGroupOffsetsResponsePartition:
        result = m.AlterShareGroupOffsetsResponsePartition(partition_index=requested.partition_index)
        with errors_in(result):
            tp, start = TopicPartition(name, requested.partition_index), requested.start_offset
            if topic is None or self._broker.image.partition(tp) is None:
                raise errors.UnknownTopicOrPartitionError(f"{tp} does not exist.")
            if tp not in self._ends:
                raise errors.LeaderNotAvailableError(f"{tp}: its end offset is not available.")
            if not 0 <= start <= self._ends[tp]:
                raise errors.OffsetOutOfRangeError(f"{tp}: offset {start} is not in the range 0 to {self._ends[tp]}")
            tip = TopicIdPartition(topic.id, tp.partition)
            await self._broker.share_persister.initialize(ShareKey(self._group_id, *tip), self._state_epoch, start)
            self.partitions.append(tip)
            self.offsets[tp] = start
        return result
