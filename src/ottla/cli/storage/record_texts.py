"""Records of internal topics as text: JSON in the form of Kafka's tools."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any
from uuid import UUID

from ottla.errors import CorruptMessageError, MalformedMessageError
from ottla.protocol.fields import Field
from ottla.protocol.message import Data, Struct
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
from ottla.records.decoder import Record

DELETE = "<DELETE>"
"""Stands for the value of a tombstone."""

OFFSETS_RECORDS: dict[int, tuple[type[Data], type[Data]]] = {
    **dict.fromkeys(OFFSET_KEYS, (OffsetCommitKey, OffsetCommitValue)),
    GROUP_KEY: (GroupMetadataKey, GroupMetadataValue),
}
"""Version of the key → classes of key and value."""
TRANSACTION_RECORDS: dict[int, tuple[type[Data], type[Data]]] = {0: (TransactionLogKey, TransactionLogValue)}


def offsets_texts(record: Record) -> tuple[str | None, str | None]:
    """Return key and value of a record in `__consumer_offsets`."""
    return _texts(record, OFFSETS_RECORDS)


def transaction_texts(record: Record) -> tuple[str | None, str | None]:
    """Return key and value of a record in `__transaction_state`."""
    return _texts(record, TRANSACTION_RECORDS)


def _texts(record: Record, kinds: dict[int, tuple[type[Data], type[Data]]]) -> tuple[str | None, str | None]:
    if record.key is None:
        raise CorruptMessageError(f"the record at offset {record.offset} has no key")
    try:
        number = version_of(record.key)
        if number not in kinds:
            return f"Unknown record type {number} at offset {record.offset}, skipping.", None
        key_class, value_class = kinds[number]
        key = as_json({"type": str(number), "data": fields_of(decode_versioned(key_class, record.key), number)})
        if record.value is None:
            return key, DELETE
        version = version_of(record.value)
        message = decode_versioned(value_class, record.value)
        data = fields_of(message, version)
        if isinstance(message, GroupMetadataValue) and message.protocol_type == "consumer":
            _decode_members(message, data)
        return key, as_json({"version": str(version), "data": data})
    except MalformedMessageError as error:
        raise CorruptMessageError(f"the record at offset {record.offset} cannot be decoded: {error}") from None


def _decode_members(group: GroupMetadataValue, data: dict[str, Any]) -> None:
    """Replace the bytes of subscriptions and assignments in a consumer group by their fields."""
    classes = (("subscription", ConsumerProtocolSubscription), ("assignment", ConsumerProtocolAssignment))
    for member, fields in zip(group.members, data["members"], strict=True):
        for name, cls in classes:
            raw = getattr(member, name)
            if raw:
                fields[name] = fields_of(decode_versioned(cls, raw), version_of(raw))


def fields_of(message: Struct, version: int) -> dict[str, Any]:
    """Return the fields of a message in one version, by Kafka's names, without tagged fields at their default."""
    fields = {}
    for field in type(message).FIELDS:
        value = getattr(message, field.name)
        if field.in_version(version) and (field.tag is None or value != field.default):
            fields[_camel(field.name)] = _plain(value, field, version)
    return fields


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
    """Return JSON in one line without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
