"""OffsetCommit: keep how far a group has read. Served from version 2; topics by id from version 10.

A commit of several partitions is one batch: all of it is kept or none.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.services import Call
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

DEFAULT_RETENTION = -1
TOPIC_IDS_SINCE = 10


def handle(request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Commit what may be committed; answer when it is safe."""
    runtime = call.services.groups
    try:
        if request.group_id:
            runtime.check(request.group_id)
        runtime.offsets.check_commit(
            request.group_id, request.generation_id_or_member_epoch, request.member_id, request.group_instance_id
        )
    except KafkaError as error:
        return _all_failed(request, error)
    accepted: list[Record] = []
    response = OffsetCommitResponse(topics=[_topic(topic, request, call, accepted) for topic in request.topics])
    return _commit(request, response, accepted, call) if accepted else response


async def _commit(
    request: OffsetCommitRequest, response: OffsetCommitResponse, accepted: list[Record], call: Call
) -> OffsetCommitResponse:
    try:
        await call.services.groups.append(request.group_id, accepted)
    except KafkaError as error:
        return _all_failed(request, error)
    return response


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
    if services.image.partition(tp) is None:
        raise UnknownTopicOrPartitionError
    now = services.clock.now_ms()
    own = request.retention_time_ms
    committed = Committed(
        partition.committed_offset,
        partition.committed_leader_epoch,
        services.groups.offsets.check(partition.committed_metadata),
        now,
        now + own if own != DEFAULT_RETENTION else -1,
    )
    return offset_record(request.group_id, tp, committed)


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
