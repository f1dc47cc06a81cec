"""OffsetCommit: keep how far a group has read. Served in all versions; topics by id from version 10.

A commit of several partitions is one batch: all of it is kept or none. Version 0 is of the time before offsets were
kept in Kafka: it writes into the registry, and asks neither for a member nor for a generation. Version 1 may bring the
time of the commit, 2 to 4 an expiry of their own.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.services import Call
from ottla.coordinator.any_group import Committer
from ottla.coordinator.effects import Record
from ottla.coordinator.records import Committed, offset_record
from ottla.errors import KafkaError, UnknownTopicIdError, UnknownTopicOrPartitionError, code_of
from ottla.model import TopicPartition
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

NOW = -1
DEFAULT_RETENTION = -1
IN_REGISTRY = 0
"""The version whose offsets lie in the registry."""
TOPIC_IDS_SINCE = 10


def handle(request: OffsetCommitRequest, call: Call) -> Awaitable[OffsetCommitResponse]:
    """Commit what may be committed; answer when it is safe."""
    return _commit_in_registry(request, call) if call.version == IN_REGISTRY else _commit(request, call)


async def _commit(request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    runtime = call.services.groups
    epoch = request.generation_id_or_member_epoch
    accepted: list[Record] = []
    try:
        # in one step with the append: in between the group could be lost to another broker, and come back changed
        runtime.check(request.group_id)
        who = Committer(request.member_id, request.group_instance_id, epoch)
        runtime.offsets.check_commit(request.group_id, who, call.version)
        response = OffsetCommitResponse(topics=[_topic(topic, request, call, accepted) for topic in request.topics])
        await runtime.append(request.group_id, accepted)
    except KafkaError as error:
        return _all_failed(request, error)
    return response


async def _commit_in_registry(request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    topics = []
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            answer = OffsetCommitResponsePartition(partition_index=partition.partition_index)
            tp = TopicPartition(topic.name, partition.partition_index)
            try:
                _check_partition(tp, call)
                call.services.groups.offsets.check(partition.committed_metadata)
                await call.services.old_offsets.set(request.group_id, tp, partition.committed_offset)
            except KafkaError as error:
                answer.error_code = code_of(error)
            answers.append(answer)
        topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=answers))
    return OffsetCommitResponse(topics=topics)


def _topic(
    topic: OffsetCommitRequestTopic, request: OffsetCommitRequest, call: Call, accepted: list[Record]
) -> OffsetCommitResponseTopic:
    answers = []
    for partition in topic.partitions:
        answer = OffsetCommitResponsePartition(partition_index=partition.partition_index)
        try:
            accepted.append(_record(topic, partition, request, call))
        except KafkaError as error:
            answer.error_code = code_of(error)
        answers.append(answer)
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)


def _record(
    topic: OffsetCommitRequestTopic, partition: OffsetCommitRequestPartition, request: OffsetCommitRequest, call: Call
) -> Record:
    services = call.services
    name: str | None = topic.name
    if call.version >= TOPIC_IDS_SINCE:
        name = services.image.names.get(topic.topic_id)
        if name is None:
            raise UnknownTopicIdError
    assert name is not None
    tp = TopicPartition(name, partition.partition_index)
    _check_partition(tp, call)
    now = services.clock.now_ms()
    own = request.retention_time_ms
    committed = Committed(
        partition.committed_offset,
        partition.committed_leader_epoch,
        services.groups.offsets.check(partition.committed_metadata),
        now if partition.commit_timestamp == NOW else partition.commit_timestamp,
        now + own if own != DEFAULT_RETENTION else -1,
    )
    return offset_record(request.group_id, tp, committed)


def _check_partition(tp: TopicPartition, call: Call) -> None:
    if call.services.image.partition(tp) is None:
        raise UnknownTopicOrPartitionError


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
