"""What a `SimpleConsumer` is asked, and what it answers: Kafka 0.8's `kafka.api` in Python.

Requests are frozen values. Responses answer for one partition at a time, as `response.error_code(topic, partition)`
does; `ErrorMapping` has the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Self

from ottla import errors
from ottla.errors import KafkaError
from ottla.legacy.keyed_message import Message
from ottla.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Node, OffsetAndMetadata, TopicPartition


class ErrorMapping:
    """Numbers of errors, and the errors of numbers."""

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
        """The error of a number other than 0."""
        return errors.for_code(code)()

    @staticmethod
    def maybe_throw(code: int) -> None:
        """Raise the error of a number; nothing for 0."""
        if code:
            raise ErrorMapping.exception_for(code)


# Metadata


class TopicMetadataRequest(NamedTuple):
    """Topics to describe; none: all of them."""

    topics: Sequence[str]


class PartitionMetadata(NamedTuple):
    """One partition; leader None while it has none."""

    partition_id: int
    leader: Node | None
    replicas: tuple[Node, ...]
    isr: tuple[Node, ...]
    error_code: int


class TopicMetadata(NamedTuple):
    """One topic, its partitions in the order of their numbers."""

    topic: str
    partitions_metadata: tuple[PartitionMetadata, ...]
    error_code: int


class TopicMetadataResponse(NamedTuple):
    """The topics that were asked for."""

    topics_metadata: tuple[TopicMetadata, ...]


# Fetching


class PartitionFetchInfo(NamedTuple):
    """Where to read from, and how many bytes at most."""

    offset: int
    fetch_size: int


class FetchRequest(NamedTuple):
    """What to read. `max_wait` in milliseconds; with 0 (the default) the broker answers at once."""

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
        """Read a partition too."""
        self._info[TopicPartition(topic, partition)] = PartitionFetchInfo(offset, fetch_size)
        return self

    def max_wait(self, milliseconds: int) -> Self:
        """How long the broker may wait for `min_bytes`."""
        self._max_wait = milliseconds
        return self

    def min_bytes(self, count: int) -> Self:
        """What the broker waits for."""
        self._min_bytes = count
        return self

    def client_id(self, name: str) -> Self:
        """Accepted, as in Java; requests carry the consumer's own."""
        return self

    def build(self) -> FetchRequest:
        """The request."""
        return FetchRequest(dict(self._info), self._max_wait, self._min_bytes)


class MessageAndOffset(NamedTuple):
    """A message and where it lies."""

    message: Message
    offset: int

    @property
    def next_offset(self) -> int:
        """Where to go on reading."""
        return self.offset + 1


class FetchedPartition(NamedTuple):
    """What was read of one partition. `high_watermark` is the offset behind its last message.

    `size` in bytes counts a message that did not fit: a size without messages means that the fetch size is too small.
    """

    error_code: int
    high_watermark: int
    messages: tuple[MessageAndOffset, ...]
    size: int = 0


class FetchResponse(NamedTuple):
    """What was read."""

    data: Mapping[TopicPartition, FetchedPartition]

    @property
    def has_error(self) -> bool:
        """Whether some partition could not be read."""
        return any(p.error_code for p in self.data.values())

    def error_code(self, topic: str, partition: int) -> int:
        """0 where all is well."""
        return self.data[TopicPartition(topic, partition)].error_code

    def high_watermark(self, topic: str, partition: int) -> int:
        """The offset behind the last message of the partition."""
        return self.data[TopicPartition(topic, partition)].high_watermark

    def message_set(self, topic: str, partition: int) -> tuple[MessageAndOffset, ...]:
        """The messages. A compressed set comes whole: those before the offset that was asked for are to be skipped."""
        return self.data[TopicPartition(topic, partition)].messages


# Offsets by time


EARLIEST_TIME: Final = EARLIEST_TIMESTAMP
"""Instead of a time: the first offset of the partition."""
LATEST_TIME: Final = LATEST_TIMESTAMP
"""Instead of a time: the offset behind the last message."""


class PartitionOffsetRequestInfo(NamedTuple):
    """Offsets before a time (milliseconds, or EARLIEST_TIME, LATEST_TIME), newest first."""

    time: int
    max_num_offsets: int


class OffsetRequest(NamedTuple):
    """Which offsets to look up."""

    request_info: Mapping[TopicPartition, PartitionOffsetRequestInfo]


class PartitionOffsets(NamedTuple):
    """Offsets of one partition, newest first."""

    error_code: int
    offsets: tuple[int, ...]


class OffsetResponse(NamedTuple):
    """What was found."""

    data: Mapping[TopicPartition, PartitionOffsets]

    @property
    def has_error(self) -> bool:
        """Whether some partition could not be looked up."""
        return any(p.error_code for p in self.data.values())

    def error_code(self, topic: str, partition: int) -> int:
        """0 where all is well."""
        return self.data[TopicPartition(topic, partition)].error_code

    def offsets(self, topic: str, partition: int) -> tuple[int, ...]:
        """The offsets, newest first."""
        return self.data[TopicPartition(topic, partition)].offsets


# A group's offsets


class OffsetCommitRequest(NamedTuple):
    """Offsets of a group. Version 0 keeps them in the registry (ZooKeeper then), version 1 in Kafka."""

    group_id: str
    request_info: Mapping[TopicPartition, OffsetAndMetadata]
    version_id: int = 1
    group_generation_id: int = -1
    consumer_id: str = ""


class OffsetCommitResponse(NamedTuple):
    """The outcome of each partition."""

    errors: Mapping[TopicPartition, int]

    @property
    def has_error(self) -> bool:
        """Whether some offset was not kept."""
        return any(self.errors.values())

    def error_code(self, partition: TopicPartition) -> int:
        """0 where all is well."""
        return self.errors[partition]


class OffsetFetchRequest(NamedTuple):
    """Partitions whose offsets to look up, where the version keeps them."""

    group_id: str
    request_info: Iterable[TopicPartition]
    version_id: int = 1


class OffsetMetadataAndError(NamedTuple):
    """An offset that a group has committed; -1 for none."""

    offset: int
    metadata: str
    error: int


class OffsetFetchResponse(NamedTuple):
    """The offset of each partition."""

    offsets: Mapping[TopicPartition, OffsetMetadataAndError]


class ConsumerMetadataRequest(NamedTuple):
    """A group whose coordinator to find: it is asked for offsets of version 1."""

    group: str


class ConsumerMetadataResponse(NamedTuple):
    """The coordinator; None with an error."""

    coordinator: Node | None
    error_code: int
