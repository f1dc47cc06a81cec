"""ListOffsets: the earliest offset, the latest, or the first one at or after a timestamp.

Requires DESCRIBE on the topic.

Version 0, of the 0.8 consumer, returns the base offsets of segments that were written before a timestamp. Later
versions have introduced special timestamps (`KNOWN_SINCE`). Because there is no tiered storage, the earliest local
offset is the log start offset, and there are no tiered or pending offsets.

For a consumer, the latest offset is the high watermark, or with read_committed the last stable offset; for a replica,
it is the log end offset. Right after an election, the high watermark may be lower than the previous leader's. A
consumer then gets OFFSET_NOT_AVAILABLE, so that its offsets do not go back (KIP-207).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from functools import partial

from ottla import errors
from ottla.broker.request_context import RequestContext
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

    Otherwise have workers read it first.
    """
    if request.replica_id != CONSUMER and not context.is_broker:
        request.replica_id = CONSUMER  # a client that is not a broker gets the offsets that consumers get
    times = Counter((topic.name, p.partition_index) for topic in request.topics for p in topic.partitions)
    unauthorized = context.unauthorized_errors(
        ACLOperation.DESCRIBE, ResourceType.TOPIC, (topic.name for topic in request.topics)
    )

    def answer(topic: str, p: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        return _answer(topic, p, request, context, unauthorized, twice=times[topic, p.partition_index] > 1)

    try:
        with cached_only():
            return ListOffsetsResponse(
                topics=[
                    ListOffsetsTopicResponse(name=t.name, partitions=[answer(t.name, p) for p in t.partitions])
                    for t in request.topics
                ]
            )
    except NotCachedError:
        return _answer_when_cached(request, answer)


async def _answer_when_cached(
    request: ListOffsetsRequest, answer: Callable[[str, ListOffsetsPartition], ListOffsetsPartitionResponse]
) -> ListOffsetsResponse:
    response = ListOffsetsResponse(topics=[])
    for topic in request.topics:
        partitions = [await when_cached(partial(answer, topic.name, p)) for p in topic.partitions]
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return response


def _answer(
    topic: str,
    requested: ListOffsetsPartition,
    request: ListOffsetsRequest,
    context: RequestContext,
    unauthorized: Collection[str],
    *,
    twice: bool,
) -> ListOffsetsPartitionResponse:
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
        entry = _look_up(partition, requested.timestamp, _end(partition, request))
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
    """Return whether the result would change if the high watermark were higher."""
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


def _look_up(partition: Partition, timestamp: int, end: int) -> OffsetAndTimestamp:
    log = partition.log
    if timestamp == LATEST_TIMESTAMP:
        # the epoch of the last record, not the leader's epoch, in which there may be no records
        return OffsetAndTimestamp(end, -1, log.leader_epochs.latest)
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL):
        start = log.log_start_offset
        return OffsetAndTimestamp(start, -1, log.epoch_for_offset(start))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    entry = log.max_timestamp_offset() if timestamp == MAX_TIMESTAMP else log.offset_for_time(timestamp)
    return entry if entry is not None and entry.offset < end else NOTHING
