"""Requests and responses of `SimpleConsumer`, as in the package kafka.api of Kafka 0.8.

Requests are immutable. Responses to fetches and offset requests have methods for a partition, such as
`response.error_code(topic, partition)`. `ErrorMapping` has the error codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Self

from ottla import errors
from ottla.errors import KafkaError
from ottla.legacy.keyed_message import Message
from ottla.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Node, OffsetAndMetadata, TopicPartition


class ErrorMapping:
    """The error codes of Kafka 0.8, and functions that convert them to exceptions."""

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
        """Return the exception for an error code other than 0; UnknownServerError if the code is unknown."""
        return errors.for_code(code)()

    @staticmethod
    def maybe_throw(code: int) -> None:
        """Raise the exception for an error code; do nothing if it is 0."""
        if code:
            raise ErrorMapping.exception_for(code)


# Metadata


class TopicMetadataRequest(NamedTuple):
    """A request for the metadata of topics. An empty sequence requests all topics."""

    topics: Sequence[str]


class PartitionMetadata(NamedTuple):
    """The metadata of a partition, without brokers that the response does not describe. `leader` is None if the
    partition has no leader, or if the response does not describe the leader.
    """

    partition_id: int
    leader: Node | None
    replicas: tuple[Node, ...]
    isr: tuple[Node, ...]
    error_code: int


class TopicMetadata(NamedTuple):
    """The metadata of a topic, with its partitions sorted by number."""

    topic: str
    partitions_metadata: tuple[PartitionMetadata, ...]
    error_code: int


class TopicMetadataResponse(NamedTuple):
    """The metadata of the requested topics."""

    topics_metadata: tuple[TopicMetadata, ...]


# Fetching


class PartitionFetchInfo(NamedTuple):
    """The offset at which to start, and the maximum number of bytes to fetch."""

    offset: int
    fetch_size: int


class FetchRequest(NamedTuple):
    """A request for messages. `max_wait` is the maximum time in milliseconds that the broker waits for `min_bytes`; 0
    means no wait.
    """

    request_info: Mapping[TopicPartition, PartitionFetchInfo]
    max_wait: int = 0
    min_bytes: int = 0


class FetchRequestBuilder:
    """Builds a FetchRequest: `FetchRequestBuilder().add_fetch("t", 0, offset, 100_000).build()`."""

    def __init__(self) -> None:
        self._info: dict[TopicPartition, PartitionFetchInfo] = {}
        self._max_wait = 0
        self._min_bytes = 0

    def add_fetch(self, topic: str, partition: int, offset: int, fetch_size: int) -> Self:
        """Add a partition, and return this builder."""
        self._info[TopicPartition(topic, partition)] = PartitionFetchInfo(offset, fetch_size)
        return self

    def max_wait(self, milliseconds: int) -> Self:
        """Set the maximum time in milliseconds that the broker waits for `min_bytes`, and return this builder."""
        self._max_wait = milliseconds
        return self

    def min_bytes(self, count: int) -> Self:
        """Set the number of bytes that the broker waits for, and return this builder."""
        self._min_bytes = count
        return self

    def client_id(self, name: str) -> Self:
        """Return this builder. The client id is ignored, because requests have that of the consumer."""
        return self

    def build(self) -> FetchRequest:
        """Return a FetchRequest with the partitions that were added."""
        return FetchRequest(dict(self._info), self._max_wait, self._min_bytes)


class MessageAndOffset(NamedTuple):
    """A message and its offset."""

    message: Message
    offset: int

    @property
    def next_offset(self) -> int:
        """The offset after that of this message."""
        return self.offset + 1


class FetchedPartition(NamedTuple):
    """The messages of a partition. `high_watermark` is the offset after its last committed message; -1 if there is an
    error.

    `size` is the number of bytes, including an incomplete message at the end. If it is not 0 but there are no messages,
    the fetch size is too small for the first one.
    """

    error_code: int
    high_watermark: int
    messages: tuple[MessageAndOffset, ...]
    size: int = 0


class FetchResponse(NamedTuple):
    """The messages of the requested partitions."""

    data: Mapping[TopicPartition, FetchedPartition]

    @property
    def has_error(self) -> bool:
        """Whether the response has an error for any partition."""
        return any(p.error_code for p in self.data.values())

    def error_code(self, topic: str, partition: int) -> int:
        """Return the error code of a partition; 0 if there is none."""
        return self.data[TopicPartition(topic, partition)].error_code

    def high_watermark(self, topic: str, partition: int) -> int:
        """Return the offset after the last committed message of the partition; -1 if the partition has an error."""
        return self.data[TopicPartition(topic, partition)].high_watermark

    def message_set(self, topic: str, partition: int) -> tuple[MessageAndOffset, ...]:
        """Return the messages of a partition. The first ones may precede the requested offset, and must be skipped."""
        return self.data[TopicPartition(topic, partition)].messages


# Offsets by time


EARLIEST_TIME: Final = EARLIEST_TIMESTAMP
"""The timestamp that requests the first offset of a partition."""
LATEST_TIME: Final = LATEST_TIMESTAMP
"""The timestamp that requests the offset after the last committed message of a partition."""


class PartitionOffsetRequestInfo(NamedTuple):
    """A timestamp (milliseconds, EARLIEST_TIME or LATEST_TIME), and the maximum number of offsets to return."""

    time: int
    max_num_offsets: int


class OffsetRequest(NamedTuple):
    """A request for the offsets of partitions by time."""

    request_info: Mapping[TopicPartition, PartitionOffsetRequestInfo]


class PartitionOffsets(NamedTuple):
    """The error code and the offsets of a partition, the newest first."""

    error_code: int
    offsets: tuple[int, ...]


class OffsetResponse(NamedTuple):
    """The offsets of the requested partitions."""

    data: Mapping[TopicPartition, PartitionOffsets]

    @property
    def has_error(self) -> bool:
        """Whether the response has an error for any partition."""
        return any(p.error_code for p in self.data.values())

    def error_code(self, topic: str, partition: int) -> int:
        """Return the error code of a partition; 0 if there is none."""
        return self.data[TopicPartition(topic, partition)].error_code

    def offsets(self, topic: str, partition: int) -> tuple[int, ...]:
        """Return the offsets of a partition, the newest first."""
        return self.data[TopicPartition(topic, partition)].offsets


# Offsets of a group


class OffsetCommitRequest(NamedTuple):
    """A request to commit offsets. Version 0 stores them in ZooKeeper (with Ottla in its metadata store), version 1 in
    Kafka.
    """

    group_id: str
    request_info: Mapping[TopicPartition, OffsetAndMetadata]
    version_id: int = 1
    group_generation_id: int = -1
    consumer_id: str = ""


class OffsetCommitResponse(NamedTuple):
    """The results of a commit: the error code of each partition, 0 for success."""

    errors: Mapping[TopicPartition, int]

    @property
    def has_error(self) -> bool:
        """Whether an offset was not committed."""
        return any(self.errors.values())

    def error_code(self, partition: TopicPartition) -> int:
        """Return the error code of a partition; 0 if there is none."""
        return self.errors[partition]


class OffsetFetchRequest(NamedTuple):
    """A request for committed offsets. Version 0 reads them from ZooKeeper (with Ottla from its metadata store),
    version 1 from Kafka.
    """

    group_id: str
    request_info: Iterable[TopicPartition]
    version_id: int = 1


class OffsetMetadataAndError(NamedTuple):
    """The committed offset of a partition (-1 if there is none), its metadata and its error code."""

    offset: int
    metadata: str
    error: int


class OffsetFetchResponse(NamedTuple):
    """The committed offsets by partition."""

    offsets: Mapping[TopicPartition, OffsetMetadataAndError]


class ConsumerMetadataRequest(NamedTuple):
    """A request for the coordinator of a group, which stores the offsets that are committed with version 1."""

    group: str


class ConsumerMetadataResponse(NamedTuple):
    """The coordinator of a group (None if there is an error), and the error code."""

    coordinator: Node | None
    error_code: int
