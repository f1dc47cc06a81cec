"""ListOffsets: the earliest offset, the latest, or the first one at or after a timestamp.

Requires DESCRIBE on the topic.

Version 0, of the 0.8 consumer, may return several offsets: the beginnings of segments and the end of the log (see
`Log.offsets_before`). Later versions have introduced more special timestamps (`KNOWN_SINCE`). If a topic is not tiered
(KIP-405), its earliest local offset is the log start offset, and there are no tiered or pending offsets.

For a consumer, the latest offset is the high watermark, or with read_committed the last stable offset; for a replica,
it is the log end offset. Right after an election, the high watermark may be lower than the previous leader's. A
consumer's lookup whose result could change then fails with OFFSET_NOT_AVAILABLE, so that its offsets do not go back
(KIP-207).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from ottla import errors
from ottla.broker.request_context import RequestContext
from ottla.broker.sessions.remote_reads import RemoteReadNeededError
from ottla.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ACLOperation,
    OffsetAndTimestamp,
    TopicPartition,
)
from ottla.page_cache import NotCachedError, cached_only, when_cached
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.replication.partition import Partition
from ottla.security.acl import ResourceType

if TYPE_CHECKING:
    from ottla.remote_log.remote_log_manager import RemoteLogManager

Answer = Callable[..., ListOffsetsPartitionResponse]
"""Returns the response for one partition.

Its arguments are the topic, the requested partition and, if there was one, the result of a lookup in remote storage.
"""

EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
KNOWN_SINCE = {
    LATEST_TIMESTAMP: 0,
    EARLIEST_TIMESTAMP: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The versions that have introduced the special timestamps."""
NOT_AVAILABLE_SINCE = 5
"""The first version whose clients know OFFSET_NOT_AVAILABLE. Older clients get LEADER_NOT_AVAILABLE."""
NOTHING = OffsetAndTimestamp(-1, -1, -1)
READ_COMMITTED = 1
CONSUMER = -1
"""The replica id of consumers."""


def handle(
    request: ListOffsetsRequest, context: RequestContext
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Answer at once if the data that lookups by time need is in the page cache.

    Otherwise have workers read it, or look it up in remote storage, first.
    """
    if request.replica_id != CONSUMER and not context.is_broker:
        request.replica_id = CONSUMER  # a client that is not a broker gets the offsets that consumers get
    times = Counter((topic.name, p.partition_index) for topic in request.topics for p in topic.partitions)
    unauthorized = context.unauthorized_errors(
        ACLOperation.DESCRIBE, ResourceType.TOPIC, (topic.name for topic in request.topics)
    )

    def answer(
        topic: str, p: ListOffsetsPartition, remote: OffsetAndTimestamp | None = None
    ) -> ListOffsetsPartitionResponse:
        return _answer(topic, p, request, context, unauthorized, remote, twice=times[topic, p.partition_index] > 1)

    try:
        with cached_only():
            return ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(name=t.name, partitions=[answer(t.name, p) for p in t.partitions])
                    for t in request.topics
                ]
            )
    except (NotCachedError, RemoteReadNeededError):
        return _answer_when_cached(request, answer, context)


async def _answer_when_cached(
    request: ListOffsetsRequest, answer: Answer, context: RequestContext
) -> ListOffsetsResponse:
    response = ListOffsetsResponse(topics=[])
    timeout_ms = request.timeout_ms or context.broker.config.remote_list_offsets_request_timeout_ms
    deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
    for topic in request.topics:
        partitions = [await _answer_one(topic.name, p, answer, deadline, context) for p in topic.partitions]
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return response


async def _answer_one(
    topic: str, requested: ListOffsetsPartition, answer: Answer, deadline: float, context: RequestContext
) -> ListOffsetsPartitionResponse:
    """Answer when the data is in the page cache. If remote storage may have the record, look it up there first."""
    try:
        return await when_cached(partial(answer, topic, requested))
    except RemoteReadNeededError as needed:
        try:
            remote = await _look_up_remotely(needed.partition, requested.timestamp, deadline, context)
        except errors.KafkaError as error:
            return ListOffsetsPartitionResponse(
                partition_index=requested.partition_index, error_code=errors.code_of(error)
            )
    return await when_cached(partial(answer, topic, requested, remote))


async def _look_up_remotely(
    partition: Partition, timestamp: int, deadline: float, context: RequestContext
) -> OffsetAndTimestamp:
    remote_log = context.broker.remote_log
    assert remote_log is not None
    if timestamp == MAX_TIMESTAMP:
        timestamp = remote_log.max_timestamp(partition)
        if timestamp < max((segment.latest().timestamp for segment in partition.log.segments), default=-1):
            return NOTHING  # the record is on this broker
    seconds = max(deadline - asyncio.get_running_loop().time(), 0.0)
    return await remote_log.offset_for_time(partition, timestamp, seconds) or NOTHING


def _answer(
    topic: str,
    requested: ListOffsetsPartition,
    request: ListOffsetsRequest,
    context: RequestContext,
    unauthorized: Collection[str],
    remote: OffsetAndTimestamp | None,
    *,
    twice: bool,
) -> ListOffsetsPartitionResponse:
    """Return the response for one partition.

    `remote`: the result of a lookup by time in remote storage. `twice`: whether the request names the partition twice,
    which is an error from version 1 on.
    """
    try:
        if topic in unauthorized:
            raise errors.TopicAuthorizationFailedError
        if twice and context.version > 0:
            raise errors.InvalidRequestError(f"{topic}-{requested.partition_index} occurs twice in the request")
        if requested.timestamp < 0 and context.version < KNOWN_SINCE.get(requested.timestamp, context.version + 1):
            raise errors.UnsupportedVersionError(f"timestamp {requested.timestamp} is not supported")
        partition = context.broker.partitions.leader(
            context.broker.image, TopicPartition(topic, requested.partition_index)
        )
        if context.version == 0:
            return ListOffsetsPartitionResponse(
                partition_index=requested.partition_index,
                old_style_offsets=_segments(partition, requested, from_consumer=request.replica_id == CONSUMER),
            )
        partition.check_epoch(requested.current_leader_epoch)
        entry = _look_up(partition, requested.timestamp, _end(partition, request), context.broker.remote_log, remote)
        if (
            request.replica_id == CONSUMER
            and partition.leader_replica.is_hw_behind_epoch_start
            and _is_late(requested.timestamp, entry)
        ):
            raise (
                errors.OffsetNotAvailableError
                if context.version >= NOT_AVAILABLE_SINCE
                else errors.LeaderNotAvailableError
            )
    except errors.KafkaError as error:
        return ListOffsetsPartitionResponse(partition_index=requested.partition_index, error_code=errors.code_of(error))
    return ListOffsetsPartitionResponse(
        partition_index=requested.partition_index,
        timestamp=entry.timestamp,
        offset=entry.offset,
        leader_epoch=entry.leader_epoch,
    )


def _end(partition: Partition, request: ListOffsetsRequest) -> int:
    """Return the offset after the last record that the client may read."""
    log = partition.log
    if request.replica_id != CONSUMER:
        return log.log_end_offset
    return log.last_stable_offset if request.isolation_level == READ_COMMITTED else log.high_watermark


def _is_late(timestamp: int, entry: OffsetAndTimestamp) -> bool:
    """Return whether a higher high watermark could change the result of this lookup."""
    return timestamp == LATEST_TIMESTAMP or (
        entry is NOTHING and timestamp not in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
    )


def _segments(partition: Partition, requested: ListOffsetsPartition, *, from_consumer: bool) -> list[int]:
    log = partition.log
    if requested.timestamp == EARLIEST_TIMESTAMP:
        offsets = log.offsets_before()[-1:]
    else:
        offsets = log.offsets_before(None if requested.timestamp == LATEST_TIMESTAMP else requested.timestamp)
    offsets = offsets[: max(requested.max_num_offsets, 0)]
    if from_consumer and offsets and offsets[0] > log.high_watermark:
        offsets = [log.high_watermark, *(offset for offset in offsets if offset <= log.high_watermark)]
    return offsets


def _look_up(
    partition: Partition,
    timestamp: int,
    end: int,
    remote_log: RemoteLogManager | None,
    remote: OffsetAndTimestamp | None,
) -> OffsetAndTimestamp:
    log = partition.log
    if timestamp == LATEST_TIMESTAMP:
        # the epoch of the last record, not the leader's epoch, in which there may be no records
        return OffsetAndTimestamp(end, -1, log.leader_epochs.latest)
    has_remote = log.log_start_offset < log.local_log_start_offset
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL):
        if has_remote and timestamp == EARLIEST_TIMESTAMP and not (remote_log and remote_log.store(partition)):
            raise errors.LeaderNotAvailableError("a new leader does not know yet what is in remote storage")
        start = log.log_start_offset if timestamp == EARLIEST_TIMESTAMP else log.local_log_start_offset
        return OffsetAndTimestamp(start, -1, log.epoch_for_offset(start))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _tiered_end(partition, timestamp, remote_log)
    if has_remote and remote_log is not None:
        if remote is None:
            raise RemoteReadNeededError(partition, log.log_start_offset)
        if remote is not NOTHING:
            return remote if remote.offset < end else NOTHING
    entry = log.max_timestamp_offset() if timestamp == MAX_TIMESTAMP else log.offset_for_time(timestamp)
    return entry if entry is not None and entry.offset < end else NOTHING


def _tiered_end(partition: Partition, timestamp: int, remote_log: RemoteLogManager | None) -> OffsetAndTimestamp:
    """Return the last offset in remote storage for LATEST_TIERED, else the first offset that is not there yet.

    The offset is -1 if the topic is not tiered or, for LATEST_TIERED, nothing is in remote storage. Raises
    LeaderNotAvailableError while a new leader does not know what is there.
    """
    log = partition.log
    if remote_log is None or not log.config.remote_storage_enable:
        return NOTHING
    end = remote_log.copied_until(partition)
    if end < 0:
        raise errors.LeaderNotAvailableError("a new leader does not know yet what is in remote storage")
    if timestamp == LATEST_TIERED:
        end -= 1
        if end < log.log_start_offset:
            return NOTHING
    return OffsetAndTimestamp(end, -1, log.epoch_for_offset(end))
