"""Small immutable values that all parts of Ottla share."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from uuid import UUID


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition of a topic, by topic id."""

    topic_id: UUID
    partition: int


class Node(NamedTuple):
    """A broker: id, and host and port as clients see them."""

    id: int
    host: str
    port: int
    rack: str | None = None


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the next offset to read, free text, and the leader epoch of the last record."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class ConsumerGroupMetadata(NamedTuple):
    """A consumer's membership in its group, which lets the group coordinator fence zombies (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetAndTimestamp(NamedTuple):
    """The result of a lookup by timestamp: the first offset whose record is at least as late, and that record's
    timestamp (ms).
    """

    offset: int
    timestamp: int
    leader_epoch: int = -1


class RecordMetadata(NamedTuple):
    """Position of an acknowledged record. The offset is -1 with acks=0; the timestamp is in milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    serialized_key_size: int
    serialized_value_size: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the record was written to."""
        return TopicPartition(self.topic, self.partition)


class ACLOperation(IntEnum):
    """An operation on a resource, as ACLs allow or deny it, with its number on the wire."""

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
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
"""Topics that brokers write themselves; clients may read them."""
CREATE_TIME = 0
"""timestampType of a record whose timestamp its producer has set."""
LOG_APPEND_TIME = 1
"""timestampType of a record whose timestamp the broker has set on append."""
NO_TIMESTAMP = -1
"""The timestamp of a record without one."""
EARLIEST_TIMESTAMP = -2
"""ListOffsets: the log start offset."""
LATEST_TIMESTAMP = -1
"""ListOffsets: the high watermark, or the last stable offset for READ_COMMITTED."""
MAX_TIMESTAMP = -3
"""ListOffsets: the record with the highest timestamp (KIP-734)."""
