"""DeleteRecords: move the start of a log forward. Offset -1 means the high watermark. Served in all versions."""

from __future__ import annotations

from ottla.broker.services import Call
from ottla.errors import KafkaError, OffsetOutOfRangeError, PolicyViolationError, code_of
from ottla.model import TopicPartition
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


def handle(request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    """Cut each partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=t.name, partitions=[_answer(t.name, p, call) for p in t.partitions])
            for t in request.topics
        ]
    )


def _answer(topic: str, want: DeleteRecordsPartition, call: Call) -> DeleteRecordsPartitionResult:
    services = call.services
    try:
        partition = services.partitions.leader(services.image, TopicPartition(topic, want.partition_index))
        log = partition.log
        if "delete" not in log.config.cleanup_policy:
            raise PolicyViolationError(f"topic {topic} is compacted only; its records cannot be deleted")
        offset = log.high_watermark if want.offset == HIGH_WATERMARK else want.offset
        if not 0 <= offset <= log.high_watermark:
            raise OffsetOutOfRangeError
        log.delete_records_before(offset)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(
            partition_index=want.partition_index, low_watermark=NO_LOW_WATERMARK, error_code=code_of(error)
        )
    return DeleteRecordsPartitionResult(partition_index=want.partition_index, low_watermark=log.log_start_offset)
