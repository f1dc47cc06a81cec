"""OffsetFetch: the committed offsets of a group; from version 8 on, of several groups.

From version 10 on, topics are identified by id.

A partition without a committed offset has offset -1 and no error. For topics without DESCRIBE, there is an error if the
request names them; if it requests all topics, they are left out.

If a client requires stable offsets (KIP-447, the default of clients since Kafka 2.5), this broker must still be the
group's coordinator. A broker that has been replaced without noticing would return outdated offsets, and a transactional
consumer would process records twice. So in-sync followers first confirm that this broker leads the group's partition of
`__consumer_offsets`. If they do not confirm in time, the partitions have the error UNSTABLE_OFFSET_COMMIT, and the
client retries.

If followers have not confirmed for longer than replica.lag.time.max.ms, the client gets NOT_COORDINATOR and looks up
the coordinator again, because a leader would have removed such followers from the ISR by then. An unconfirmed request
for all topics also gets this error. Other requests do not get it earlier, because librdkafka does not retry after
NOT_COORDINATOR: the consumer would not read its partitions until the next rebalance.

Version 0 reads the offsets that version 0 of OffsetCommit has written to the metadata store, and returns
UNKNOWN_TOPIC_OR_PARTITION for a partition without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Mapping
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from ottla import errors
from ottla.broker.request_context import RequestContext
from ottla.coordinator.group.classic.records import CommittedOffset
from ottla.model import ACLOperation, TopicPartition
from ottla.protocol.fields import ZERO_UUID
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.security.acl import ResourceType

NOTHING = CommittedOffset(-1, -1, "", -1)
CONFIRM_SECONDS = 1.0
"""Maximum time in seconds to confirm that this broker still coordinates a group."""
METADATA_STORE_VERSION = 0
"""The version that reads offsets from the metadata store."""
SEVERAL_GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10
ERROR_SINCE = 2
"""The first version that has an error for the whole response. In earlier ones, each partition has the error."""


def handle(
    request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    if context.version == METADATA_STORE_VERSION:
        return _fetch_from_store(request, context)
    if request.require_stable:
        waits = _confirmations(request, context)
        if waits:
            return _fetch_confirmed(request, context, waits)
    return _fetch(request, context)


def _confirmations(request: OffsetFetchRequest, context: RequestContext) -> dict[str, asyncio.Future[None]]:
    """Return the confirmations to wait for, by group id. A group that needs none, or has an error, is left out."""
    ids = (
        [group.group_id for group in request.groups] if context.version >= SEVERAL_GROUPS_SINCE else [request.group_id]
    )
    waits = {}
    for group_id in ids:
        with suppress(errors.KafkaError):  # which _group reports
            confirmed = context.broker.groups.confirm(group_id, CONFIRM_SECONDS)
            if confirmed is not None:
                waits[group_id] = confirmed
    return waits


async def _fetch_confirmed(
    request: OffsetFetchRequest, context: RequestContext, waits: Mapping[str, asyncio.Future[None]]
) -> OffsetFetchResponse:
    await asyncio.wait(waits.values())
    return _fetch(request, context, frozenset(group_id for group_id, wait in waits.items() if wait.exception()))


def _fetch(
    request: OffsetFetchRequest, context: RequestContext, unconfirmed: Collection[str] = ()
) -> OffsetFetchResponse:
    """Return the offsets. Groups in `unconfirmed` may have another coordinator."""
    if context.version >= SEVERAL_GROUPS_SINCE:
        groups = [_group(group, request.require_stable, context, unconfirmed) for group in request.groups]
        return OffsetFetchResponse(groups=groups)
    topics = None
    if request.topics is not None:
        topics = [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in request.topics]
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    result = _group(group, request.require_stable, context, unconfirmed)
    if result.error_code and context.version < ERROR_SINCE:
        result.topics = [_failed(topic, result.error_code) for topic in topics or ()]
    return OffsetFetchResponse(
        error_code=result.error_code,
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
            for t in result.topics
        ],
    )


async def _fetch_from_store(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    try:
        context.require(ACLOperation.DESCRIBE, ResourceType.GROUP, request.group_id)
    except errors.KafkaError as error:
        return OffsetFetchResponse(topics=[_failed_topic(t, error) for t in request.topics or ()])
    unauthorized = context.unauthorized_errors(
        ACLOperation.DESCRIBE, ResourceType.TOPIC, (topic.name for topic in request.topics or ())
    )
    topics = []
    for topic in request.topics or ():
        if topic.name in unauthorized:
            topics.append(_failed_topic(topic, unauthorized[topic.name]))
            continue
        answers = []
        for index in topic.partition_indexes:
            offset = await context.broker.zookeeper_offsets.get(request.group_id, TopicPartition(topic.name, index))
            answers.append(
                OffsetFetchResponsePartition(
                    partition_index=index,
                    committed_offset=NOTHING.offset if offset is None else offset,
                    metadata="",
                    error_code=errors.code_of(errors.UnknownTopicOrPartitionError()) if offset is None else 0,
                )
            )
        topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=answers))
    return OffsetFetchResponse(topics=topics)


def _failed_topic(topic: OffsetFetchRequestTopic, error: errors.KafkaError) -> OffsetFetchResponseTopic:
    answers = [
        OffsetFetchResponsePartition(
            partition_index=index, committed_offset=NOTHING.offset, metadata="", error_code=errors.code_of(error)
        )
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopic(name=topic.name, partitions=answers)


def _group(
    group: OffsetFetchRequestGroup, stable: bool, context: RequestContext, unconfirmed: Collection[str]
) -> OffsetFetchResponseGroup:
    try:
        context.require(ACLOperation.DESCRIBE, ResourceType.GROUP, group.group_id)
        context.broker.groups.check(group.group_id)
        is_unconfirmed = group.group_id in unconfirmed
        if is_unconfirmed and (group.topics is None or not context.broker.groups.is_followed(group.group_id)):
            raise errors.NotCoordinatorError
        context.broker.groups.offsets.check_fetch(group.group_id, group.member_id, group.member_epoch)
    except errors.KafkaError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=errors.code_of(error))
    committed = context.broker.groups.offsets.by_group.get(group.group_id, {})
    topics = [_topic(topic, committed) for topic in _requested_topics(group, committed, context)]
    if stable:
        _hide_unstable(group.group_id, topics, context, is_unconfirmed=is_unconfirmed)
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _hide_unstable(
    group_id: str, topics: list[OffsetFetchResponseTopics], context: RequestContext, *, is_unconfirmed: bool
) -> None:
    """Replace each offset that an open transaction or another coordinator may change with the error
    UNSTABLE_OFFSET_COMMIT, so that the client retries (KIP-447).
    """
    pending = context.broker.groups.offsets.pending
    for topic in topics:
        for partition in topic.partitions:
            if not partition.error_code and (
                is_unconfirmed or pending.has(group_id, TopicPartition(topic.name, partition.partition_index))
            ):
                partition.error_code = errors.code_of(errors.UnstableOffsetCommitError())
                partition.committed_offset = partition.committed_leader_epoch = NOTHING.offset
                partition.metadata = NOTHING.metadata


def _failed(topic: OffsetFetchRequestTopics, code: int) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(partition_index=i, committed_offset=NOTHING.offset, metadata="", error_code=code)
        for i in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(name=topic.name, partitions=partitions)


class RequestedTopic(NamedTuple):
    name: str
    id: UUID
    partitions: list[int]
    error: errors.KafkaError | None = None


def _requested_topics(
    group: OffsetFetchRequestGroup, committed: dict[TopicPartition, CommittedOffset], context: RequestContext
) -> list[RequestedTopic]:
    if group.topics is None:
        return _all(committed, context)
    named = [_named(topic, context) for topic in group.topics]
    unauthorized = context.unauthorized_errors(
        ACLOperation.DESCRIBE, ResourceType.TOPIC, (t.name for t in named if t.error is None)
    )
    return [t._replace(error=t.error or unauthorized.get(t.name)) for t in named]


def _named(topic: OffsetFetchRequestTopics, context: RequestContext) -> RequestedTopic:
    if context.version < TOPIC_IDS_SINCE:
        return RequestedTopic(topic.name, ZERO_UUID, topic.partition_indexes)
    name = context.broker.image.names.get(topic.topic_id)
    error = errors.UnknownTopicIdError() if name is None else None
    return RequestedTopic(name or "", topic.topic_id, topic.partition_indexes, error)


def _all(committed: dict[TopicPartition, CommittedOffset], context: RequestContext) -> list[RequestedTopic]:
    hidden = context.unauthorized(ACLOperation.DESCRIBE, ResourceType.TOPIC, (tp.topic for tp in committed))
    topics = []
    for name, partitions in groupby(sorted(committed), key=lambda tp: tp.topic):
        topic = context.broker.image.topics.get(name)
        if name not in hidden:
            topics.append(RequestedTopic(name, topic.id if topic else ZERO_UUID, [tp.partition for tp in partitions]))
    return topics


def _topic(topic: RequestedTopic, committed: dict[TopicPartition, CommittedOffset]) -> OffsetFetchResponseTopics:
    code = 0 if topic.error is None else errors.code_of(topic.error)
    answers = []
    for index in topic.partitions:
        entry = NOTHING if code else committed.get(TopicPartition(topic.name, index), NOTHING)
        answers.append(
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=entry.offset,
                committed_leader_epoch=entry.leader_epoch,
                metadata=entry.metadata,
                error_code=code,
            )
        )
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.id, partitions=answers)
