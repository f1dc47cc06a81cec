"""OffsetCommit: commit a group's offsets. From version 10 on, topics are identified by id.

The valid offsets of a request, or of each part of a long one (`request_parts`), are appended as one batch, so all or
none of them are stored. Version 0 is from before Kafka stored offsets in a topic: it writes them to the metadata store,
and checks neither member nor generation. Version 1 may have the time of the commit, versions 2 to 4 a retention time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from ottla.broker.error_responses import errors_in
from ottla.broker.offset_commit_checks import check_partition, codes_of, fail, readable
from ottla.broker.request_context import RequestContext
from ottla.coordinator.group.classic.records import CommittedOffset, offset_record
from ottla.coordinator.group.common.group import Committer
from ottla.errors import KafkaError, code_of
from ottla.logs import listed
from ottla.model import ACLOperation, TopicPartition
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.security.acl import ResourceType

NOW = -1
DEFAULT_RETENTION = -1
METADATA_STORE_VERSION = 0
"""The version that stores offsets in the metadata store."""
TOPIC_IDS_SINCE = 10


def handle(
    request: OffsetCommitRequest, context: RequestContext
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    try:
        context.require(ACLOperation.READ, ResourceType.GROUP, request.group_id)
    except KafkaError as error:
        return _all_failed(request, error)
    return (
        _commit_to_store(request, context) if context.version == METADATA_STORE_VERSION else _commit(request, context)
    )


async def _commit(request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    accepted: dict[TopicPartition, CommittedOffset] = {}
    response = OffsetCommitResponse(topics=[_topic(topic, request, context, accepted) for topic in request.topics])
    if accepted:
        moved = [] if request.member_id else _moved_by_others(request, context, accepted)
        try:
            await _append(request, context, accepted)
        except KafkaError as error:
            fail(response.topics, error)
        else:
            if moved:
                context.log_offset_change("Set offsets of group %s: %s", request.group_id, listed(moved))
    return response


def _moved_by_others(
    request: OffsetCommitRequest, context: RequestContext, accepted: Mapping[TopicPartition, CommittedOffset]
) -> list[str]:
    """Return the offsets to log, as text, if the client that commits them is not a member of the group, such as `ottla
    consumer-groups --reset-offsets`.

    A group that never had members, because its consumers assign themselves partitions, commits like this all the time.
    For such a group, only offsets that move back are returned.
    """
    runtime = context.broker.groups
    group = runtime.groups.by_id.get(request.group_id)
    had_members = group is not None and group.protocol_type is not None
    before = runtime.offsets.by_group.get(request.group_id, {})
    moved = []
    for tp, committed in accepted.items():
        old = before[tp].offset if tp in before else None
        goes_back = old is not None and committed.offset < old
        if goes_back or (had_members and committed.offset != old):
            moved.append(f"{tp}={committed.offset}" + ("" if old is None else f" (was {old})"))
    return moved


def _append(
    request: OffsetCommitRequest, context: RequestContext, accepted: dict[TopicPartition, CommittedOffset]
) -> Awaitable[None]:
    # The check and the append are one step: in between, another broker might have become the coordinator and changed
    # the group.
    runtime = context.broker.groups
    runtime.check(request.group_id)
    committer = Committer(
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        partitions=accepted.keys(),
    )
    runtime.offsets.check_commit(request.group_id, committer, context.version)
    committed = [offset_record(request.group_id, tp, offset) for tp, offset in accepted.items()]
    return runtime.append(request.group_id, committed)


async def _commit_to_store(request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
    topics = []
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            answer = OffsetCommitResponsePartition(partition_index=partition.partition_index)
            with errors_in(answer):
                tp = TopicPartition(readable(topic, context, TOPIC_IDS_SINCE), partition.partition_index)
                check_partition(tp, context)
                context.broker.groups.offsets.checked_metadata(partition.committed_metadata)
                await context.broker.zookeeper_offsets.set(request.group_id, tp, partition.committed_offset)
            answers.append(answer)
        topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=answers))
    return OffsetCommitResponse(topics=topics)


def _topic(
    topic: OffsetCommitRequestTopic,
    request: OffsetCommitRequest,
    context: RequestContext,
    accepted: dict[TopicPartition, CommittedOffset],
) -> OffsetCommitResponseTopic:
    def accept(tp: TopicPartition, partition: OffsetCommitRequestPartition) -> None:
        accepted[tp] = _committed(partition, request, context)

    answers = [
        OffsetCommitResponsePartition(partition_index=index, error_code=code)
        for index, code in codes_of(topic, context, TOPIC_IDS_SINCE, accept)
    ]
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)


def _committed(
    partition: OffsetCommitRequestPartition, request: OffsetCommitRequest, context: RequestContext
) -> CommittedOffset:
    broker = context.broker
    now = broker.clock.now_ms()
    own = request.retention_time_ms
    return CommittedOffset(
        partition.committed_offset,
        partition.committed_leader_epoch,
        broker.groups.offsets.checked_metadata(partition.committed_metadata),
        now if partition.commit_timestamp == NOW else partition.commit_timestamp,
        now + own if own != DEFAULT_RETENTION else -1,
    )


def _all_failed(request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    code = code_of(error)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=t.name,
                topic_id=t.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                    for p in t.partitions
                ],
            )
            for t in request.topics
        ]
    )
