"""The small nouns that every part of Ottla shares: frozen values without behaviour."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Node(NamedTuple):
    """A broker's address as clients see it."""

    id: int
    host: str
    port: int
    rack: str | None = None


class OffsetAndMetadata(NamedTuple):
    """A committed position: the next offset to read, a free text, and the last record's leader epoch."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class ConsumerGroupMetadata(NamedTuple):
    """A consumer's place in its group (KIP-447): with it, a group's coordinator tells a member from a zombie."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetAndTimestamp(NamedTuple):
    """What a lookup by time finds: the first offset whose record is at least as late, with that record's time in ms."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class RecordMetadata(NamedTuple):
    """Where an acknowledged record lies. Offset is -1 with acks=0; timestamp is in milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    serialized_key_size: int
    serialized_value_size: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the record went to."""
        return TopicPartition(self.topic, self.partition)


class ACLOperation(IntEnum):
    """What is done with a resource, and what a rule of an ACL allows or denies. By its number on the wire."""

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
"""Topics that the broker itself writes; clients may read them."""
CREATE_TIME = 0
"""timestampType of a record that carries its producer's time."""
LOG_APPEND_TIME = 1
"""timestampType of a record that carries the time of its arrival at the broker."""
NO_TIMESTAMP = -1
"""The timestamp of a record without one."""
EARLIEST_TIMESTAMP = -2
"""ListOffsets: the log's first offset."""
LATEST_TIMESTAMP = -1
"""ListOffsets: the offset after the last record that a consumer may read."""
MAX_TIMESTAMP = -3
"""ListOffsets: the record with the highest timestamp (KIP-734)."""
