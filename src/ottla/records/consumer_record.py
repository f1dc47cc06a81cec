"""Records as poll() returns them, and their decoder. Compiled with consumer_record.pxd.

A compiled record is one object: it refers to its key and value, and has its numbers as C fields. Their Python objects
are created when an attribute is read, and headers stay encoded until `headers` is read. Until then, a decoded record of
bytes takes at most four objects, none of which the garbage collector has to visit. Key and value are copied from the
fetched data, so a record does not keep that data in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

try:
    import cython
except ImportError:
    from ottla.records import _cython as cython

from ottla.errors import CorruptMessageError
from ottla.model import TopicPartition
from ottla.records.compression import MAX_DECOMPRESSED_BYTES
from ottla.records.decoder import open_records

if cython.compiled:
    from cython.cimports.ottla.records.fast_cursor import begin_record, next_size, next_varlong
    from cython.cimports.ottla.records.gc_tracking import track, untrack
else:
    from ottla.records.decoder import Cursor, read_headers, skip_headers

    begin_record, next_size, next_varlong = Cursor.begin_record, Cursor.size, Cursor.varlong

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ottla.records.batch import BatchHeader


_decoding = threading.RLock()
"""Held in the plain form while the headers of a record are decoded."""


class ConsumerRecord:
    """A record. The timestamp is in milliseconds since 1970, its type 0 (CreateTime) or 1 (LogAppendTime).

    The leader epoch is -1 if the batch has none. A record can be unpacked, indexed and compared as the tuple of its
    fields, in the order of kafka-python.
    """

    __slots__ = (
        "_headers",
        "_key",
        "_leader_epoch",
        "_offset",
        "_partition",
        "_timestamp",
        "_timestamp_type",
        "_topic",
        "_value",
    )
    __match_args__ = (
        "topic",
        "partition",
        "leader_epoch",
        "offset",
        "timestamp",
        "timestamp_type",
        "key",
        "value",
        "headers",
    )
    _fields = __match_args__

    def __init__(
        self,
        topic: str,
        partition: int,
        leader_epoch: int,
        offset: int,
        timestamp: int,
        timestamp_type: int,
        key: Any,
        value: Any,
        headers: list[tuple[str, bytes | None]],
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._leader_epoch = leader_epoch
        self._offset = offset
        self._timestamp = timestamp
        self._timestamp_type = timestamp_type
        self._key = key
        self._value = value
        self._headers: Any = headers

    @property
    def topic(self) -> str:
        """The name of the record's topic."""
        return self._topic

    @property
    def partition(self) -> int:
        """The number of the record's partition."""
        return self._partition

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the record's batch, or -1."""
        return self._leader_epoch

    @property
    def offset(self) -> int:
        """The offset of the record in its partition."""
        return self._offset

    @property
    def timestamp(self) -> int:
        """The timestamp in milliseconds since 1970."""
        return self._timestamp

    @property
    def timestamp_type(self) -> int:
        """The timestamp type: 0 (CreateTime) or 1 (LogAppendTime)."""
        return self._timestamp_type

    @property
    def key(self) -> Any:
        """The key: bytes or None, or what the deserializer returned."""
        return self._key

    @property
    def value(self) -> Any:
        """The value: bytes or None, or what the deserializer returned."""
        return self._value

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """The headers. A record always returns the same list."""
        if cython.compiled:
            with cython.critical_section(self):  # in free-threaded Python, another thread may decode them, too
                return self._decoded_headers()
        with _decoding:
            return self._decoded_headers()

    def _decoded_headers(self) -> list[tuple[str, bytes | None]]:
        headers = self._headers
        if headers is None or type(headers) is bytes:
            headers = [] if headers is None else read_headers(Cursor(headers))
            self._headers = headers
            if cython.compiled:
                track(self)  # the list may refer to the record one day
        result: list[tuple[str, bytes | None]] = headers
        return result

    @property
    def serialized_key_size(self) -> int:
        """Size of the key in bytes; -1 if the key is None or was deserialized to something other than bytes."""
        return len(self._key) if isinstance(self._key, bytes) else -1

    @property
    def serialized_value_size(self) -> int:
        """Size of the value in bytes; -1 if the value is None or was deserialized to something other than bytes."""
        return len(self._value) if isinstance(self._value, bytes) else -1

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the record."""
        return TopicPartition(self._topic, self._partition)

    def with_data(self, key: Any, value: Any) -> ConsumerRecord:
        """Return a copy with another key and value, such as deserialized ones."""
        record = ConsumerRecord.__new__(ConsumerRecord)
        record._topic = self._topic
        record._partition = self._partition
        record._leader_epoch = self._leader_epoch
        record._offset = self._offset
        record._timestamp = self._timestamp
        record._timestamp_type = self._timestamp_type
        record._key = key
        record._value = value
        if cython.compiled:
            with cython.critical_section(self):
                record._headers = self._headers
        else:
            record._headers = self._headers
        return record

    # The methods of a named tuple

    def _tuple(self) -> tuple[Any, ...]:
        return (
            self._topic,
            self._partition,
            self._leader_epoch,
            self._offset,
            self._timestamp,
            self._timestamp_type,
            self._key,
            self._value,
            self.headers,
        )

    @classmethod
    def _make(cls, fields: Iterable[Any]) -> Self:
        """Return a record with these fields."""
        return cls(*fields)

    def _asdict(self) -> dict[str, Any]:
        """Return the fields by name."""
        return dict(zip(self._fields, self._tuple(), strict=True))

    def _replace(self, **changes: Any) -> Self:
        """Return a copy with other values of some fields. Raises ValueError for an unknown name."""
        unknown = [name for name in changes if name not in self._fields]
        if unknown:
            raise ValueError(f"Got unexpected field names: {unknown!r}")
        return type(self)(**{**self._asdict(), **changes})

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self._tuple(), strict=True))
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._tuple(), getattr(self, "__dict__", None)

    def __len__(self) -> int:
        return len(self._fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._tuple())

    def __getitem__(self, index: Any) -> Any:
        return self._tuple()[index]

    def __eq__(self, other: object) -> bool:
        return self._tuple() == tuple(other) if isinstance(other, (ConsumerRecord, tuple)) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self._tuple() < tuple(other) if isinstance(other, (ConsumerRecord, tuple)) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self._tuple() <= tuple(other) if isinstance(other, (ConsumerRecord, tuple)) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self._tuple() > tuple(other) if isinstance(other, (ConsumerRecord, tuple)) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self._tuple() >= tuple(other) if isinstance(other, (ConsumerRecord, tuple)) else NotImplemented


Sequence.register(ConsumerRecord)  # as pandas and `match` expect it of tuples


def decode_consumer_records(
    buf: Buffer,
    start: int,
    header: BatchHeader,
    from_offset: int,
    topic: str,
    partition: int,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> list[ConsumerRecord]:
    """Return the records of one whole batch from `from_offset` on.

    The CRC is not checked (see `batch.verify`). Raises the errors of `open_records`, and CorruptMessageError for a
    malformed record or if the records do not fill the batch exactly.
    """
    cursor = Cursor(open_records(buf, start, header, max_bytes))
    leader_epoch = header.leader_epoch
    append_time = header.timestamp_type
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    max_timestamp = header.max_timestamp
    count = header.count
    out = []
    for _ in range(count):
        record_end = begin_record(cursor)
        timestamp = base_timestamp + next_varlong(cursor)
        offset = base_offset + next_varlong(cursor)
        if offset < from_offset:
            cursor.pos = record_end
            continue
        record = ConsumerRecord.__new__(ConsumerRecord)
        if cython.compiled:
            untrack(record)
        record._topic = topic
        record._partition = partition
        record._leader_epoch = leader_epoch
        record._offset = offset
        record._timestamp = max_timestamp if append_time else timestamp
        record._timestamp_type = append_time
        record._key = cursor.read_bytes(next_size(cursor))
        record._value = cursor.read_bytes(next_size(cursor))
        record._headers = None
        headers_start = cursor.pos
        if next_varlong(cursor):
            cursor.pos = headers_start
            skip_headers(cursor)
            record._headers = cursor.p[headers_start : cursor.pos]
        if cursor.pos != record_end:
            raise CorruptMessageError(f"the record at offset {offset} does not fill its length")
        out.append(record)
    if cursor.pos != cursor.end:
        raise CorruptMessageError(f"{cursor.end - cursor.pos} bytes after the last record of a batch")
    return out
