"""Formatters that print records of internal topics as JSON: Kafka's CoordinatorRecordMessageFormatter and its
subclasses.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from ottla.cli.framework import record_texts as texts
from ottla.errors import CorruptMessageError, MalformedMessageError
from ottla.protocol.messages.group_records import GROUP_KEY, OFFSET_KEYS
from ottla.records.consumer_record import ConsumerRecord


class InternalFormat(NamedTuple):
    """A formatter that prints records of some types (`kinds`), and skips all others."""

    classes: texts.Classes
    kinds: Collection[int]

    def line(self, record: ConsumerRecord) -> bytes:
        """Return a record as a line of JSON; empty for a record of another type or without a key. Raises
        CorruptMessageError if it cannot be decoded.
        """
        if record.key is None:
            return b""
        try:
            result = texts.decoded(record.key, record.value, self.classes)
        except MalformedMessageError as error:
            raise CorruptMessageError(f"Could not read record at offset {record.offset} due to: {error}") from None
        if result is None or result.kind not in self.kinds:
            return b""
        value: dict[str, Any] | None = None
        if result.value is not None:
            value = {"version": result.version, "data": result.value}
        key = {"type": result.kind, "data": result.key}
        return texts.as_json({"key": key, "value": value}).encode() + b"\n"


FORMATS: Final = {
    "OffsetsMessageFormatter": InternalFormat(texts.GROUP_RECORDS, OFFSET_KEYS),
    "GroupMetadataMessageFormatter": InternalFormat(texts.GROUP_RECORDS, (GROUP_KEY,)),
    "TransactionLogMessageFormatter": InternalFormat(texts.TRANSACTION_RECORDS, texts.TRANSACTION_RECORDS),
    "ShareGroupStateMessageFormatter": InternalFormat(texts.SHARE_STATE_RECORDS, texts.SHARE_STATE_RECORDS),
}
"""The formatters by the names of Kafka's classes."""
