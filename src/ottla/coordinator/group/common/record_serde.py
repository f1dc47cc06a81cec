"""Writing and reading the records of consumer, share and streams groups in `__consumer_offsets`.

A key starts with the number of its record type. Kafka's `CoordinatorRecordSerde`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ottla.coordinator.runtime.result import CoordinatorRecord
from ottla.protocol.message import Data
from ottla.protocol.versioned import decode_versioned, encode_versioned, version_of


def record(number: int, key: Data, value: Data | None) -> CoordinatorRecord:
    """Return a record of type `number`; a tombstone if `value` is None."""
    written = None if value is None else encode_versioned(value, 0)
    return CoordinatorRecord(encode_versioned(key, 0, prefix=number), written)


class RecordType(NamedTuple):
    """One record type.

    `apply` is called with the group, the decoded key, and the decoded value (None for a tombstone).
    """

    key_class: type[Data]
    value_class: type[Data]
    apply: Callable[[Any, Any, Any], None]


class ReplayResult(NamedTuple):
    """The effect of a record.

    `is_end`: whether it deletes the group. `member_id`: the member that it changes, if any.
    """

    is_end: bool
    member_id: str | None


class RecordSerde:
    """The record types of one type of group, by number. A tombstone of type `end` deletes the group."""

    def __init__(self, rows: Mapping[int, RecordType], end: int) -> None:
        self._rows = rows
        self._end = end

    def is_known(self, key: bytes) -> bool:
        """Return whether a record with this key has one of the record types."""
        return version_of(key) in self._rows

    def group_of(self, key: bytes) -> str:
        group_id: str = self._decoded(key).group_id
        return group_id

    def replay(self, group: object, key: bytes, value: bytes | None) -> ReplayResult:
        number, decoded = version_of(key), self._decoded(key)
        row = self._rows[number]
        row.apply(group, decoded, None if value is None else decode_versioned(row.value_class, value))
        return ReplayResult(number == self._end and value is None, getattr(decoded, "member_id", None))

    def _decoded(self, key: bytes) -> Any:
        return decode_versioned(self._rows[version_of(key)].key_class, b"\x00\x00" + bytes(key[2:]))
