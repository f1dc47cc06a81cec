"""Requests and responses of `SimpleConsumer`: Kafka 0.8's `kafka.api` in Python.

Requests are frozen values. Responses have accessors per partition, such as `response.error_code(topic, partition)`;
`ErrorMapping` has the error codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Self

from ottla import errors
from ottla.errors import KafkaError
from ottla.legacy.keyed_message import Message
from ottla.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Node, OffsetAndMetadata, TopicPartition


class ErrorMapping:
    """Error codes, and their exceptions."""

    NO_ERROR: Final = 0
    UNKNOWN: Final = -1
    OFFSET_OUT_OF_RANGE: Final = 1
    INVALID_MESSAGE: Final = 2
    UNKNOWN_TOPIC_OR_PARTITION: Final = 3
    INVALID_FETCH_SIZE: Final = 4
    LEADER_NOT_AVAILABLE: Final = 5
    NOT_LEADER_FOR_PARTITION: Final = 6
    REQUEST_TIMED_OUT: Final = 7
    BROKER_NOT_AVAILABLE: Final = 8
    REPLICA_NOT_AVAILABLE: Final = 9
    MESSAGE_SIZE_TOO_LARGE: Final = 10
    STALE_CONTROLLER_EPOCH: Final = 11
    OFFSET_METADATA_TOO_LARGE: Final = 12
    STALE_LEADER_EPOCH: Final = 13
    OFFSETS_LOAD_IN_PROGRESS: Final = 14
    CONSUMER_COORDINATOR_NOT_AVAILABLE: Final = 15
    NOT_COORDINATOR_FOR_CONSUMER: Final = 16

    @staticmethod
    def exception_for(code: int) -> KafkaError:
        """Return the exception of an error code other than 0."""
        return errors.for_code(code)()

    @staticmethod
    def maybe_throw(code: int) -> None:
        """Raise the exception of an error code; do nothing for 0."""
        if code:
            raise ErrorMapping.exception_for(code)


# Metadata


class TopicMetadataRequest(NamedTuple):
    """Topics to describe; empty: all topics."""

    topics: Sequence[str]


class PartitionMetadata(NamedTuple):
    """A partition; `leader` is None if it has none."""

    partition_id: int
    leader: Node | None
    replicas: tuple[Node, ...]
    isr: tuple[Node, ...]
    error_code: int


class TopicMetadata(NamedTuple):
    """A topic, with its partitions in the order of their numbers."""

    topic: str
    partitions_metadata: tuple[PartitionMetadata, ...]
    error_code: int


class TopicMetadataResponse(NamedTuple):
    """The requested topics."""

    topics_metadata: tuple[TopicMetadata, ...]


# Fetching


class PartitionFetchInfo(NamedTuple):
    """The offset to fetch from, and the maximum number of bytes."""

    offset: int
    fetch_size: int


class FetchRequest(NamedTuple):
    """The partitions to fetch. `max_wait` is in milliseconds; with 0 (the default) the broker responds at once."""

    request_info: Mapping[TopicPartition, PartitionFetchInfo]
    max_wait: int = 0
    min_bytes: int = 0


class FetchRequestBuilder:
    """`FetchRequestBuilder().add_fetch("t", 0, offset, 100_000).build()`."""

    def __init__(self) -> None:
        self._info: dict[TopicPartition, PartitionFetchInfo] = {}
        self._max_wait = 0
        self._min_bytes = 0

    def add_fetch(self, topic: str, partition: int, offset: int, fetch_size: int) -> Self:
        """Fetch a partition."""
        self._info[TopicPartition(topic, partition)] = PartitionFetchInfo(offset, fetch_size)
        return self

    def max_wait(self, milliseconds: int) -> Self:
        """Set the time that the broker may wait for `min_bytes`."""
        self._max_wait = milliseconds
        return self

    def min_bytes(self, count: int) -> Self:
        """Set the number of bytes that the broker waits for."""
        self._min_bytes = count
        return self

    def client_id(self, name: str) -> Self:
        """Ignore the name, for compatibility with Java; requests have the client id of the consumer."""
        return self

    def build(self) -> FetchRequest:
        """Return the request."""
        return FetchRequest(dict(self._info), self._max_wait, self._min_bytes)


class MessageAndOffset(NamedTuple):
    """A message and its offset."""

    message: Message
    offset: int

    @property
    def next_offset(self) -> int:
        """The offset of the next message."""
        return self.offset + 1


class FetchedPartition(NamedTuple):
    """The messages of a partition. `high_watermark` is the offset after its last committed message.

    `size` in bytes includes a partial message: a size without messages means that the fetch size is too small.
    """

    error_code: int
    high_watermark: int
    messages: tuple[MessageAndOffset, ...]
    size: int = 0


class FetchResponse(NamedTuple):
    """The fetched partitions."""

    data: Mapping[TopicPartition, FetchedPartition]

    @property
    def has_error(self) -> bool:
        """Return whether a partition has an error."""
        return any(p.error_code for p in self.data.values())

    def error_code(self, topic: str, partition: int) -> int:
        """Return the partition's error code; 0 for none."""
        return self.data[TopicPartition(topic, partition)].error_code

    def high_watermark(self, topic: str, partition: int) -> int:
        """Return the offset after the last committed message of the partition."""
        return self.data[TopicPartition(topic, partition)].high_watermark

    def message_set(self, topic: str, partition: int) -> tuple[MessageAndOffset, ...]:
        """Return the messages. A compressed set is complete: skip the messages before the requested offset."""
        return self.data[TopicPartition(topic, partition)].messages


# Offsets by time


EARLIEST_TIME: Final = EARLIEST_TIMESTAMP
"""Pseudo time of the first offset of a partition."""
LATEST_TIME: Final = LATEST_TIMESTAMP
"""Pseudo time of the offset after the last message."""


class PartitionOffsetRequestInfo(NamedTuple):
    """A time (milliseconds, EARLIEST_TIME or LATEST_TIME) and the maximum number of offsets before it, newest first."""

    time: int
    max_num_offsets: int


class OffsetRequest(NamedTuple):
    """The partitions whose offsets to look up."""

    request_info: Mapping[TopicPartition, PartitionOffsetRequestInfo]


class PartitionOffsets(NamedTuple):
    """Offsets of a partition, newest first."""

    error_code: int
    offsets: tuple[int, ...]


class OffsetResponse(NamedTuple):
    """The offsets of each partition."""

    data: Mapping[TopicPartition, PartitionOffsets]

    @property
    def has_error(self) -> bool:
        """Return whether a partition has an error."""
        return any(p.error_code for p in self.data.values())

    def error_code(self, topic: str, partition: int) -> int:
        """Return the partition's error code; 0 for none."""
        return self.data[TopicPartition(topic, partition)].error_code

    def offsets(self, topic: str, partition: int) -> tuple[int, ...]:
        """Return the partition's offsets, newest first."""
        return self.data[TopicPartition(topic, partition)].offsets


# A group's offsets


class OffsetCommitRequest(NamedTuple):
    """Offsets of a group. Version 0 stores them in the metadata store (ZooKeeper in Kafka 0.8), version 1 in Kafka."""

    group_id: str
    request_info: Mapping[TopicPartition, OffsetAndMetadata]
    version_id: int = 1
    group_generation_id: int = -1
    consumer_id: str = ""


class OffsetCommitResponse(NamedTuple):
    """The error codes of the partitions."""

    errors: Mapping[TopicPartition, int]

    @property
    def has_error(self) -> bool:
        """Return whether an offset was not stored."""
        return any(self.errors.values())

    def error_code(self, partition: TopicPartition) -> int:
        """Return the partition's error code; 0 for none."""
        return self.errors[partition]


class OffsetFetchRequest(NamedTuple):
    """Partitions whose committed offsets to fetch. Version 0 reads the metadata store, version 1 Kafka."""

    group_id: str
    request_info: Iterable[TopicPartition]
    version_id: int = 1


class OffsetMetadataAndError(NamedTuple):
    """A committed offset of a group; -1 for none."""

    offset: int
    metadata: str
    error: int


class OffsetFetchResponse(NamedTuple):
    """The committed offset of each partition."""

    offsets: Mapping[TopicPartition, OffsetMetadataAndError]


class ConsumerMetadataRequest(NamedTuple):
    """A group whose coordinator to find, which stores the offsets of version 1."""

    group: str


class ConsumerMetadataResponse(NamedTuple):
    """The coordinator; None in case of an error."""

    coordinator: Node | None
    error_code: int
