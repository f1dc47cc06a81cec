"""The values of the records in `__remote_log_metadata`, in Kafka's format. Kafka's RemoteLogMetadataSerde."""

from __future__ import annotations

from typing import Final

from ottla.errors import MalformedMessageError
from ottla.protocol.message import Data, decode, encode
from ottla.protocol.messages.remote_log_records import (
    RemoteLogSegmentIdEntry,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataSnapshotRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    SegmentLeaderEpochEntry,
    TopicIdPartitionEntry,
)
from ottla.protocol.wire import read_uvarint, write_uvarint
from ottla.records.murmur2 import murmur2
from ottla.remote_log.segment_metadata import (
    RemoteLogEvent,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    RemoteLogSegmentUpdate,
    RemotePartition,
    RemotePartitionDeletion,
    SegmentEpoch,
)

FRAME_VERSION: Final = 1
VERSION: Final = 0
RECORD_TYPES: Final[tuple[type[Data], ...]] = (
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    RemoteLogSegmentMetadataSnapshotRecord,
)
"""The types of the records by their number, Kafka's API key."""


def metadata_partition(partition: RemotePartition, count: int) -> int:
    """Return the number of the partition of `__remote_log_metadata`, one of `count`, that has the metadata of a
    partition. Kafka's RemoteLogMetadataTopicPartitioner.
    """
    high, low = divmod(partition.topic_id.int, 1 << 64)
    hashed = 1
    for value in (_long_hash(low), _long_hash(high), partition.partition):
        hashed = (31 * hashed + value) & 0xFFFFFFFF
    return (murmur2(hashed.to_bytes(4, "big")) & 0x7FFFFFFF) % count


def _long_hash(value: int) -> int:
    """Return Java's Long.hashCode."""
    return (value ^ value >> 32) & 0xFFFFFFFF


def encode_event(event: RemoteLogEvent) -> bytes:
    """Return the value of the record for an event."""
    record = _record(event)
    out = bytearray()
    write_uvarint(out, FRAME_VERSION)
    write_uvarint(out, RECORD_TYPES.index(type(record)))
    write_uvarint(out, VERSION)
    return bytes(encode(record, VERSION, out))


def decode_record(value: bytes | memoryview) -> Data:
    """Return the message in the value of a record. Raises MalformedMessageError."""
    view = memoryview(value)
    try:
        frame, position = read_uvarint(view, 0)
        number, position = read_uvarint(view, position)
        version, position = read_uvarint(view, position)
    except IndexError:
        raise MalformedMessageError("the value is too short for its type and version") from None
    if frame != FRAME_VERSION:
        raise MalformedMessageError(f"frame version {frame} is unknown")
    if number >= len(RECORD_TYPES):
        raise MalformedMessageError(f"type {number} is unknown")
    return decode(RECORD_TYPES[number], view, min(version, VERSION), position)


def decode_event(value: bytes | memoryview) -> RemoteLogEvent | None:
    """Return the event in the value of a record; None for snapshots, which are only in files. Raises
    MalformedMessageError.
    """
    record = decode_record(value)
    try:
        match record:
            case RemoteLogSegmentMetadataRecord():
                return _metadata(record)
            case RemoteLogSegmentMetadataUpdateRecord():
                return RemoteLogSegmentUpdate(
                    _partition(record.remote_log_segment_id.topic_id_partition),
                    record.remote_log_segment_id.id,
                    RemoteLogSegmentState(record.remote_log_segment_state),
                    record.broker_id,
                    record.event_timestamp_ms,
                    _bytes(record.custom_metadata),
                )
            case RemotePartitionDeleteMetadataRecord():
                return RemotePartitionDeletion(
                    _partition(record.topic_id_partition),
                    record.remote_partition_delete_state,
                    record.broker_id,
                    record.event_timestamp_ms,
                )
            case _:
                return None
    except ValueError as error:
        raise MalformedMessageError(str(error)) from None


def _metadata(record: RemoteLogSegmentMetadataRecord) -> RemoteLogSegmentMetadata:
    if not 0 <= record.start_offset <= record.end_offset:
        raise MalformedMessageError(f"a segment cannot have offsets {record.start_offset} to {record.end_offset}")
    return RemoteLogSegmentMetadata(
        _partition(record.remote_log_segment_id.topic_id_partition),
        record.remote_log_segment_id.id,
        record.start_offset,
        record.end_offset,
        record.max_timestamp_ms,
        record.broker_id,
        record.event_timestamp_ms,
        record.segment_size_in_bytes,
        tuple(sorted(SegmentEpoch(e.leader_epoch, e.offset) for e in record.segment_leader_epochs)),
        RemoteLogSegmentState(record.remote_log_segment_state),
        _bytes(record.custom_metadata),
        record.txn_index_empty,
    )


def _bytes(value: bytes | memoryview | None) -> bytes | None:
    return None if value is None else bytes(value)


def _partition(entry: TopicIdPartitionEntry) -> RemotePartition:
    return RemotePartition(entry.id, entry.name, entry.partition)


def _entry(partition: RemotePartition) -> TopicIdPartitionEntry:
    return TopicIdPartitionEntry(name=partition.topic, id=partition.topic_id, partition=partition.partition)


def _record(event: RemoteLogEvent) -> Data:
    match event:
        case RemoteLogSegmentMetadata():
            return RemoteLogSegmentMetadataRecord(
                remote_log_segment_id=RemoteLogSegmentIdEntry(topic_id_partition=_entry(event.partition), id=event.id),
                start_offset=event.start_offset,
                end_offset=event.end_offset,
                broker_id=event.broker_id,
                max_timestamp_ms=event.max_timestamp_ms,
                event_timestamp_ms=event.event_timestamp_ms,
                segment_leader_epochs=[
                    SegmentLeaderEpochEntry(leader_epoch=epoch, offset=offset) for epoch, offset in event.leader_epochs
                ],
                segment_size_in_bytes=event.size,
                custom_metadata=event.custom_metadata,
                remote_log_segment_state=event.state.value,
                txn_index_empty=event.txn_index_empty,
            )
        case RemoteLogSegmentUpdate():
            return RemoteLogSegmentMetadataUpdateRecord(
                remote_log_segment_id=RemoteLogSegmentIdEntry(topic_id_partition=_entry(event.partition), id=event.id),
                broker_id=event.broker_id,
                event_timestamp_ms=event.event_timestamp_ms,
                custom_metadata=event.custom_metadata,
                remote_log_segment_state=event.state.value,
            )
        case _:
            return RemotePartitionDeleteMetadataRecord(
                topic_id_partition=_entry(event.partition),
                broker_id=event.broker_id,
                event_timestamp_ms=event.event_timestamp_ms,
                remote_partition_delete_state=event.state,
            )
