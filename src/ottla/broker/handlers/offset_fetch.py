"""OffsetFetch: how far groups have read. Served in all versions; several groups from 8, topics by id from 10.

A partition without a commit has offset -1 and no error. Version 0 reads what version 0 of OffsetCommit wrote into the
registry, and has UNKNOWN_TOPIC_OR_PARTITION where nothing was written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from itertools import groupby
from uuid import UUID

from ottla.broker.services import Call
from ottla.coordinator.records import Committed
from ottla.errors import (
    KafkaError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
    code_of,
)
from ottla.model import TopicPartition
from ottla.protocol.fields import ZERO_UUID
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

NOTHING = Committed(-1, -1, "", -1)
IN_REGISTRY = 0
"""The version whose offsets lie in the registry."""
SEVERAL_GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10
ERROR_SINCE = 2
"""The version from which there is an error for the whole answer; before, each partition carries it."""


def handle(request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    """Look up each group."""
    if call.version == IN_REGISTRY:
        return _fetch_from_registry(request, call)
    if call.version >= SEVERAL_GROUPS_SINCE:
        return OffsetFetchResponse(groups=[_group(group, request.require_stable, call) for group in request.groups])
    topics = None
    if request.topics is not None:
        topics = [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in request.topics]
    found = _group(OffsetFetchRequestGroup(group_id=request.group_id, topics=topics), request.require_stable, call)
    if found.error_code and call.version < ERROR_SINCE:
        found.topics = [_failed(topic, found.error_code) for topic in topics or ()]
    return OffsetFetchResponse(
        error_code=found.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=t.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=p.partition_index,
                        committed_offset=p.committed_offset,
                        committed_leader_epoch=p.committed_leader_epoch,
                        metadata=p.metadata,
                        error_code=p.error_code,
                    )
                    for p in t.partitions
                ],
            )
            for t in found.topics
        ],
    )


async def _fetch_from_registry(request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    topics = []
    for topic in request.topics or ():
        answers = []
        for index in topic.partition_indexes:
            found = await call.services.old_offsets.get(request.group_id, TopicPartition(topic.name, index))
            answers.append(
                OffsetFetchResponsePartition(
                    partition_index=index,
                    committed_offset=NOTHING.offset if found is None else found,
                    metadata="",
                    error_code=code_of(UnknownTopicOrPartitionError()) if found is None else 0,
                )
            )
        topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=answers))
    return OffsetFetchResponse(topics=topics)


def _group(group: OffsetFetchRequestGroup, stable: bool, call: Call) -> OffsetFetchResponseGroup:
    try:
        call.services.groups.check(group.group_id)
        call.services.groups.offsets.check_fetch(group.group_id, group.member_id, group.member_epoch)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=code_of(error))
    committed = call.services.groups.offsets.by_group.get(group.group_id, {})
    topics = [_topic(*wanted, committed, call) for wanted in _wanted(group, committed, call)]
    if stable:
        _hide_unstable(group.group_id, topics, call)
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _hide_unstable(group_id: str, topics: list[OffsetFetchResponseTopics], call: Call) -> None:
    """An offset that an open transaction may change is not told; the client asks again (KIP-447)."""
    pending = call.services.groups.offsets.pending
    for topic in topics:
        for partition in topic.partitions:
            if pending.has(group_id, TopicPartition(topic.name, partition.partition_index)):
                partition.error_code = code_of(UnstableOffsetCommitError())
                partition.committed_offset = partition.committed_leader_epoch = NOTHING.offset
                partition.metadata = NOTHING.metadata


def _failed(topic: OffsetFetchRequestTopics, code: int) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(partition_index=i, committed_offset=NOTHING.offset, metadata="", error_code=code)
        for i in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(name=topic.name, partitions=partitions)


def _wanted(
    group: OffsetFetchRequestGroup, committed: dict[TopicPartition, Committed], call: Call
) -> Iterator[tuple[str | None, UUID, list[int]]]:
    """Name (None for an id that is not known), id and partitions of each topic that is asked for."""
    image = call.services.image
    if group.topics is None:
        for name, partitions in groupby(sorted(committed), key=lambda tp: tp.topic):
            topic = image.topics.get(name)
            yield name, topic.id if topic else ZERO_UUID, [tp.partition for tp in partitions]
        return
    for wanted in group.topics:
        if call.version >= TOPIC_IDS_SINCE:
            yield image.names.get(wanted.topic_id), wanted.topic_id, wanted.partition_indexes
        else:
            yield wanted.name, ZERO_UUID, wanted.partition_indexes


def _topic(
    name: str | None, topic_id: UUID, partitions: list[int], committed: dict[TopicPartition, Committed], call: Call
) -> OffsetFetchResponseTopics:
    code = 0 if name is not None else code_of(UnknownTopicIdError())
    answers = []
    for index in partitions:
        found = committed.get(TopicPartition(name or "", index), NOTHING)
        answers.append(
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=found.offset,
                committed_leader_epoch=found.leader_epoch,
                metadata=found.metadata,
                error_code=code,
            )
        )
    return OffsetFetchResponseTopics(name=name or "", topic_id=topic_id, partitions=answers)
