"""Small immutable types and constants that many parts of Ottla use."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition of a topic, identified by the topic id."""

    topic_id: UUID
    partition: int


class Node(NamedTuple):
    """A broker: its id, the host and port that clients connect to, and its rack (None if it has none)."""

    id: int
    host: str
    port: int
    rack: str | None = None


class ProducerIdAndEpoch(NamedTuple):
    """The producer id and epoch of an idempotent or transactional producer."""

    id: int
    epoch: int


class OffsetAndMetadata(NamedTuple):
    """A committed offset. `offset` is the offset of the next record to read, `metadata` any text, and `leader_epoch`
    the leader epoch of the last record that was read (-1 if unknown).
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


def checked_offset(tp: TopicPartition, at: OffsetAndMetadata | int) -> OffsetAndMetadata:
    """Return the offset to commit for a partition, as OffsetAndMetadata. Raises TypeError if `at` is not an offset, and
    ValueError if it is negative.
    """
    if not isinstance(at, OffsetAndMetadata):
        if not isinstance(at, int):
            raise TypeError(f"{tp}: the offset must be an int or OffsetAndMetadata, not {type(at).__name__}")
        at = OffsetAndMetadata(at)
    if at.offset < 0:
        raise ValueError(f"{tp}: offset {at.offset} is not valid")
    return at


class ConsumerGroupMetadata(NamedTuple):
    """The membership of a consumer in its group. The group coordinator uses it to fence zombies (KIP-447). Generation
    -1 with an empty member id means that the consumer is not a member.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetAndTimestamp(NamedTuple):
    """The result of an offset lookup by timestamp: the offset, and the timestamp of its record in milliseconds. Unknown
    values are -1.
    """

    offset: int
    timestamp: int
    leader_epoch: int = -1


class ProducerRecord(NamedTuple):
    """A record to send. `timestamp_ms` is in milliseconds since 1970 (None: now). If `partition` is None, the
    partitioner chooses it.
    """

    topic: str
    value: Any = None
    key: Any = None
    headers: Sequence[tuple[str, bytes | None]] | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


class RecordMetadata(NamedTuple):
    """The position of a record that was sent. The timestamp is in milliseconds since 1970. Sizes are in bytes; -1 for a
    key or value of None. Unknown values, such as the offset with acks=0, are -1.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    serialized_key_size: int
    serialized_value_size: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic and the partition as a TopicPartition."""
        return TopicPartition(self.topic, self.partition)


class ACLOperation(IntEnum):
    """An operation on a resource that ACLs allow or deny. The values are the codes of the protocol."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


CONSUMER_OFFSETS = "__consumer_offsets"
REMOTE_LOG_METADATA = "__remote_log_metadata"
"""The topic with the metadata of tiered storage. As in Kafka, it is not an internal topic: brokers read and write it
with ordinary Fetch and Produce requests.
"""
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
"""Topics that only brokers write to; clients may read them."""
CREATE_TIME = 0
"""The timestamp type of records with the producer's timestamp."""
LOG_APPEND_TIME = 1
"""The timestamp type of records with the time at which the broker has appended them."""
NO_TIMESTAMP = -1
"""The timestamp of a record that has none."""
EARLIEST_TIMESTAMP = -2
"""The timestamp in ListOffsets that requests the log start offset."""
LATEST_TIMESTAMP = -1
"""The timestamp in ListOffsets that requests the high watermark; with READ_COMMITTED the last stable offset, and for
replicas the log end offset.
"""
MAX_TIMESTAMP = -3
"""The timestamp in ListOffsets that requests the record with the highest timestamp (KIP-734)."""
