"""Records of MirrorMaker's own topics, in the formats of `org.apache.kafka.connect.mirror`.

A string is preceded by its length in two bytes. Numbers are big-endian. Values of heartbeats and checkpoints begin with
a version.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, Self

from ottla.errors import SerializationError
from ottla.model import OffsetAndMetadata, TopicPartition

VERSION: Final = 0


def _string(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">H", len(data)) + data


class _Reader:
    """Reads fields in sequence. Raises SerializationError if the bytes end too early, or the version is not 0."""

    def __init__(self, data: bytes | None) -> None:
        self._data = data or b""
        self._at = 0

    def number(self, code: str) -> int:
        try:
            (value,) = struct.unpack_from(f">{code}", self._data, self._at)
        except struct.error:
            raise SerializationError("a record of MirrorMaker ends too early") from None
        self._at += struct.calcsize(f">{code}")
        return int(value)

    def string(self) -> str:
        length = self.number("H")
        end = self._at + length
        if end > len(self._data):
            raise SerializationError("a record of MirrorMaker ends too early")
        text = self._data[self._at : end].decode(errors="replace")
        self._at = end
        return text

    def version(self) -> None:
        version = self.number("h")
        if version != VERSION:
            raise SerializationError(f"version {version} of a record of MirrorMaker is not supported")


class OffsetSync(NamedTuple):
    """The offsets of one record: `upstream` in the source partition, and `downstream` at the target."""

    partition: TopicPartition
    upstream: int
    downstream: int

    def key(self) -> bytes:
        return _string(self.partition.topic) + struct.pack(">i", self.partition.partition)

    def value(self) -> bytes:
        return struct.pack(">qq", self.upstream, self.downstream)

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> Self:
        """Parse a record. Raises SerializationError if its key or value ends too early."""
        keys, values = _Reader(key), _Reader(value)
        return cls(TopicPartition(keys.string(), keys.number("i")), values.number("q"), values.number("q"))


class Checkpoint(NamedTuple):
    """The committed offset of a group: `upstream` at the source, `downstream` in a partition of the target."""

    group: str
    partition: TopicPartition
    """The partition at the target."""
    upstream: int
    downstream: int
    metadata: str

    @property
    def offset_and_metadata(self) -> OffsetAndMetadata:
        """The offset to commit at the target."""
        return OffsetAndMetadata(self.downstream, self.metadata)

    def key(self) -> bytes:
        return _string(self.group) + _string(self.partition.topic) + struct.pack(">i", self.partition.partition)

    def value(self) -> bytes:
        return struct.pack(">hqq", VERSION, self.upstream, self.downstream) + _string(self.metadata)

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> Self:
        """Parse a record. Raises SerializationError if its key or value ends too early, or its version is not 0."""
        keys, values = _Reader(key), _Reader(value)
        values.version()
        group, partition = keys.string(), TopicPartition(keys.string(), keys.number("i"))
        return cls(group, partition, values.number("q"), values.number("q"), values.string())


class Heartbeat(NamedTuple):
    """A heartbeat of the flow from `source` to `target` at a time in milliseconds since 1970."""

    source: str
    target: str
    timestamp: int

    def key(self) -> bytes:
        return _string(self.source) + _string(self.target)

    def value(self) -> bytes:
        return struct.pack(">hq", VERSION, self.timestamp)

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> Self:
        """Parse a record. Raises SerializationError if its key or value ends too early, or its version is not 0."""
        keys, values = _Reader(key), _Reader(value)
        values.version()
        return cls(keys.string(), keys.string(), values.number("q"))
