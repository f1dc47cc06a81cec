"""Records of internal topics as text in the format of Kafka's tools, which is mostly JSON."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from ottla.errors import CorruptMessageError, MalformedMessageError
from ottla.protocol.fields import Field
from ottla.protocol.message import Data, Struct, decode
from ottla.protocol.messages import consumer_group_records as consumer
from ottla.protocol.messages import metadata_records as metadata
from ottla.protocol.messages import share_group_records as share
from ottla.protocol.messages import streams_group_records as streams
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.protocol.messages.group_records import (
    GROUP_KEY,
    OFFSET_KEYS,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue
from ottla.protocol.versioned import decode_versioned, version_of
from ottla.protocol.wire import read_uvarint
from ottla.records.decoder import Record

if TYPE_CHECKING:
    from ottla.remote_log.segment_metadata import RemoteLogEvent

DELETION_STATES: Final = {
    0: "DELETE_PARTITION_MARKED",
    1: "DELETE_PARTITION_STARTED",
    2: "DELETE_PARTITION_FINISHED",
}
DELETE: Final = "<DELETE>"
"""Stands for the missing value of a tombstone in `coordinator_texts`."""
Classes = Mapping[int, tuple[type[Data], type[Data]]]
"""The classes of key and value by the record's type number, which is the version of its key."""

_GROUP, _MEMBER = consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMemberMetadataKey
_SHARE_GROUP, _SHARE_MEMBER = share.ShareGroupMetadataKey, share.ShareGroupMemberMetadataKey
_STREAMS_GROUP, _STREAMS_MEMBER = streams.StreamsGroupMetadataKey, streams.StreamsGroupMemberMetadataKey
GROUP_RECORDS: Final[Classes] = {
    **dict.fromkeys(OFFSET_KEYS, (OffsetCommitKey, OffsetCommitValue)),
    GROUP_KEY: (GroupMetadataKey, GroupMetadataValue),
    consumer.METADATA_KEY: (_GROUP, consumer.ConsumerGroupMetadataValue),
    consumer.PARTITION_METADATA_KEY: (_GROUP, consumer.ConsumerGroupPartitionMetadataValue),
    consumer.MEMBER_KEY: (_MEMBER, consumer.ConsumerGroupMemberMetadataValue),
    consumer.TARGET_METADATA_KEY: (_GROUP, consumer.ConsumerGroupTargetAssignmentMetadataValue),
    consumer.TARGET_MEMBER_KEY: (_MEMBER, consumer.ConsumerGroupTargetAssignmentMemberValue),
    consumer.CURRENT_MEMBER_KEY: (_MEMBER, consumer.ConsumerGroupCurrentMemberAssignmentValue),
    consumer.REGEX_KEY: (consumer.ConsumerGroupRegularExpressionKey, consumer.ConsumerGroupRegularExpressionValue),
    share.MEMBER_KEY: (_SHARE_MEMBER, share.ShareGroupMemberMetadataValue),
    share.METADATA_KEY: (_SHARE_GROUP, share.ShareGroupMetadataValue),
    share.TARGET_METADATA_KEY: (_SHARE_GROUP, share.ShareGroupTargetAssignmentMetadataValue),
    share.TARGET_MEMBER_KEY: (_SHARE_MEMBER, share.ShareGroupTargetAssignmentMemberValue),
    share.CURRENT_MEMBER_KEY: (_SHARE_MEMBER, share.ShareGroupCurrentMemberAssignmentValue),
    share.STATE_PARTITIONS_KEY: (_SHARE_GROUP, share.ShareGroupStatePartitionMetadataValue),
    streams.METADATA_KEY: (_STREAMS_GROUP, streams.StreamsGroupMetadataValue),
    streams.MEMBER_KEY: (_STREAMS_MEMBER, streams.StreamsGroupMemberMetadataValue),
    streams.TARGET_METADATA_KEY: (_STREAMS_GROUP, streams.StreamsGroupTargetAssignmentMetadataValue),
    streams.TARGET_MEMBER_KEY: (_STREAMS_MEMBER, streams.StreamsGroupTargetAssignmentMemberValue),
    streams.CURRENT_MEMBER_KEY: (_STREAMS_MEMBER, streams.StreamsGroupCurrentMemberAssignmentValue),
    streams.TOPOLOGY_KEY: (_STREAMS_GROUP, streams.StreamsGroupTopologyValue),
}
"""The types of records in `__consumer_offsets`."""
TRANSACTION_RECORDS: Final[Classes] = {0: (TransactionLogKey, TransactionLogValue)}
"""The types of records in `__transaction_state`."""
SHARE_STATE_RECORDS: Final[Classes] = {
    share.SNAPSHOT_KEY: (share.SharePartitionKey, share.ShareSnapshotValue),
    share.UPDATE_KEY: (share.SharePartitionKey, share.ShareUpdateValue),
}
"""The types of records in `__share_group_state`."""


class DecodedRecord(NamedTuple):
    """A record of an internal topic: its type number, its key and value in JSON form, and its value as a message."""

    kind: int
    key: dict[str, Any]
    value: dict[str, Any] | None
    """None for a tombstone."""
    version: int
    """The version of the value; 0 for a tombstone."""
    message: Data | None


def decoded(key: bytes, value: bytes | None, classes: Classes) -> DecodedRecord | None:
    """Decode a record. Return None if its type is unknown. Raises MalformedMessageError if it cannot be decoded."""
    kind = version_of(key)
    if kind not in classes:
        return None
    key_class, value_class = classes[kind]
    fields = fields_of(decode_versioned(key_class, key), min(kind, key_class.VERSIONS.stop - 1))
    if value is None:
        return DecodedRecord(kind, fields, None, 0, None)
    version, message = version_of(value), decode_versioned(value_class, value)
    return DecodedRecord(kind, fields, fields_of(message, version), version, message)


def coordinator_texts(classes: Classes, record: Record) -> tuple[str | None, str | None]:
    """Return the key and value of a coordinator's record as text. For a record of an unknown type, return a message
    that says so, and None.

    Raises CorruptMessageError if the record has no key or cannot be decoded.
    """
    if record.key is None:
        raise CorruptMessageError(f"the record at offset {record.offset} has no key")
    try:
        result = decoded(record.key, record.value, classes)
        if result is None:
            return f"Unknown record type {version_of(record.key)} at offset {record.offset}, skipping.", None
        key = as_json({"type": str(result.kind), "data": result.key})
        if result.value is None:
            return key, DELETE
        if isinstance(result.message, GroupMetadataValue) and result.message.protocol_type == "consumer":
            _decode_members(result.message, result.value)
        return key, as_json({"version": str(result.version), "data": result.value})
    except MalformedMessageError as error:
        raise CorruptMessageError(f"the record at offset {record.offset} cannot be decoded: {error}") from None


def metadata_texts(record: Record) -> tuple[str | None, str | None]:
    """Return the value of a record in `__cluster_metadata` as text, after None for the key, which these records do not
    have. A record that cannot be decoded is returned as an error message instead.
    """
    try:
        view = memoryview(record.value or b"")
        _frame_version, pos = read_uvarint(view, 0)
        kind, pos = read_uvarint(view, pos)
        version, pos = read_uvarint(view, pos)
        cls = metadata.RECORDS.get(kind)
        if cls is None:
            return None, f"Error at {record.offset}, skipping. Unknown metadata id {kind}"
        message = decode(cls, view, min(version, cls.VERSIONS.stop - 1), pos)
    except (MalformedMessageError, IndexError) as error:
        return None, f"Error at {record.offset}, skipping. {error}"
    return None, as_json({"type": _upper_snake(cls.__name__), "version": version, "data": fields_of(message, version)})


CONTROL_RECORDS: Final[Mapping[int, tuple[str, type[Data]]]] = {
    2: ("LeaderChange:", metadata.LeaderChangeMessage),
    3: ("SnapshotHeader", metadata.SnapshotHeaderRecord),
    4: ("SnapshotFooter", metadata.SnapshotFooterRecord),
    5: ("KRaftVersion", metadata.KRaftVersionRecord),
    6: ("KRaftVoters", metadata.VotersRecord),
}
"""The control records of `__cluster_metadata`: their text in the output and their class, by type."""


def control_text(record: Record) -> str:
    """Return a control record of Kafka's metadata log as text, also one of an unknown type. Raises CorruptMessageError
    if it cannot be decoded.
    """
    kind = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
    if kind not in CONTROL_RECORDS:
        return f" controlType: UNKNOWN({kind})"
    name, cls = CONTROL_RECORDS[kind]
    try:
        # the version is the first field of the message as well
        version = min(version_of(record.value or b""), cls.VERSIONS.stop - 1)
        return f" {name} {as_json(fields_of(decode(cls, record.value or b'', version), version))}"
    except MalformedMessageError as error:
        raise CorruptMessageError(f"the record at offset {record.offset} cannot be decoded: {error}") from None


def _upper_snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def _decode_members(group: GroupMetadataValue, data: dict[str, Any]) -> None:
    """Replace the bytes of the members' subscriptions and assignments with their decoded fields."""
    classes = (("subscription", ConsumerProtocolSubscription), ("assignment", ConsumerProtocolAssignment))
    for member, fields in zip(group.members, data["members"], strict=True):
        for name, cls in classes:
            raw = getattr(member, name)
            if raw:
                fields[name] = fields_of(decode_versioned(cls, raw), version_of(raw))


def fields_of(message: Struct, version: int) -> dict[str, Any]:
    """Return the fields of a message in a version, with Kafka's names. Tagged fields with default values are left out,
    unless they are structures.
    """
    fields = {}
    for field in type(message).FIELDS:
        value = getattr(message, field.name)
        if field.in_version(version) and not (field.tag is not None and _is_default(value, field)):
            fields[_camel(field.name)] = _plain(value, field, version)
    return fields


def _is_default(value: Any, field: Field) -> bool:
    if field.kind == "struct":
        return False  # Kafka's tools print a missing structure as null
    return value == field.default or (field.default == () and not value and value is not None)


def _plain(value: Any, field: Field, version: int) -> Any:
    if isinstance(value, Struct):
        return fields_of(value, version)
    if isinstance(value, (list, tuple)):
        return [_plain(item, field, version) for item in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b64encode(value).decode()
    if isinstance(value, UUID):
        return urlsafe_b64encode(value.bytes).decode().rstrip("=")
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def as_json(value: Any) -> str:
    """Return JSON in one line, without spaces between its elements."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def remote_log_texts(record: Record) -> tuple[None, str]:
    """Return the value of a record of `__remote_log_metadata` as text, in the form of Kafka's `toString` methods, after
    None for the key. A record that cannot be decoded is returned as an error message instead.
    """
    from ottla.remote_log.metadata_records import decode_event

    try:
        event = decode_event(record.value or b"")
    except MalformedMessageError as error:
        return None, f"Error at offset {record.offset}, skipping. {error.message}"
    return None, _remote_log_text(event)


def _remote_log_text(event: RemoteLogEvent | None) -> str:
    from ottla.remote_log.segment_metadata import RemoteLogSegmentMetadata, RemotePartitionDeletion

    if event is None:
        return "RemoteLogSegmentMetadataSnapshot"
    partition = f"{_kafka_uuid(event.partition.topic_id)}:{event.partition}"
    if isinstance(event, RemotePartitionDeletion):
        state = DELETION_STATES.get(event.state, str(event.state))
        return (
            f"RemotePartitionDeleteMetadata{{topicPartition={partition}, state={state}, "
            f"eventTimestampMs={event.event_timestamp_ms}, brokerId={event.broker_id}}}"
        )
    segment_id = f"RemoteLogSegmentId{{topicIdPartition={partition}, id={_kafka_uuid(event.id)}}}"
    custom = "Optional.empty"
    if event.custom_metadata is not None:
        custom = f"Optional[CustomMetadata{{{len(event.custom_metadata)} bytes}}]"
    if not isinstance(event, RemoteLogSegmentMetadata):
        return (
            f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={segment_id}, customMetadata={custom}, "
            f"state={event.state.name}, eventTimestampMs={event.event_timestamp_ms}, brokerId={event.broker_id}}}"
        )
    epochs = ", ".join(f"{epoch}={offset}" for epoch, offset in event.leader_epochs)
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={segment_id}, startOffset={event.start_offset}, "
        f"endOffset={event.end_offset}, brokerId={event.broker_id}, maxTimestampMs={event.max_timestamp_ms}, "
        f"eventTimestampMs={event.event_timestamp_ms}, segmentLeaderEpochs={{{epochs}}}, "
        f"segmentSizeInBytes={event.size}, customMetadata={custom}, state={event.state.name}, "
        f"txnIdxEmpty={str(event.txn_index_empty).lower()}}}"
    )


def _kafka_uuid(value: UUID) -> str:
    return urlsafe_b64encode(value.bytes).decode().rstrip("=")
