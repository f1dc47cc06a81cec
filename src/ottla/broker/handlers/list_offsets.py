"""ListOffsets: the first, the last, or the first offset at or after a time. Served from version 1.

Versions 8 and 9 know the first local offset and the last tiered one: nothing is tiered here, so the first is the log's
start and there is no last one.
"""

from __future__ import annotations

from ottla.broker.services import Call
from ottla.errors import KafkaError, UnsupportedVersionError, code_of
from ottla.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, OffsetAndTimestamp, TopicPartition
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.replication.partition import Partition

EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
NOTHING = OffsetAndTimestamp(-1, -1, -1)
READ_COMMITTED = 1


def handle(request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    """Look up each partition."""
    committed = request.isolation_level == READ_COMMITTED
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name, partitions=[_answer(topic.name, p, committed, call) for p in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _answer(topic: str, want: ListOffsetsPartition, committed: bool, call: Call) -> ListOffsetsPartitionResponse:
    services = call.services
    try:
        partition = services.partitions.leader(services.image, TopicPartition(topic, want.partition_index))
        partition.check_epoch(want.current_leader_epoch)
        found = _look_up(partition, want.timestamp, committed)
    except KafkaError as error:
        return ListOffsetsPartitionResponse(partition_index=want.partition_index, error_code=code_of(error))
    return ListOffsetsPartitionResponse(
        partition_index=want.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _look_up(partition: Partition, timestamp: int, committed: bool) -> OffsetAndTimestamp:
    log = partition.log
    end = log.last_stable_offset if committed else log.high_watermark
    if timestamp == LATEST_TIMESTAMP:
        # the epoch of the last record, not the leader's: nothing may ever be written in that one
        return OffsetAndTimestamp(end, -1, log.leader_epochs.latest)
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL):
        start = log.log_start_offset
        return OffsetAndTimestamp(start, -1, log.epoch_for_offset(start))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    if timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp_offset()
    elif timestamp < 0:
        raise UnsupportedVersionError(f"the time {timestamp} has no meaning here")
    else:
        found = log.offset_for_time(timestamp)
    return found if found is not None and found.offset < end else NOTHING
