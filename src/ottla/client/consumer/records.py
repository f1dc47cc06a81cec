"""Records as poll() returns them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.model import TopicPartition


class ConsumerRecord(NamedTuple):
    """A record. The timestamp is in milliseconds since 1970, its type 0 (CreateTime) or 1 (LogAppendTime).

    The leader epoch is -1 if the batch has none. The order of the fields is that of kafka-python.
    """

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]

    @property
    def serialized_key_size(self) -> int:
        """Size of the key in bytes; -1 if the key is None or was deserialized to another type than bytes."""
        return len(self.key) if isinstance(self.key, bytes) else -1

    @property
    def serialized_value_size(self) -> int:
        """Size of the value in bytes; -1 if the value is None or was deserialized to another type than bytes."""
        return len(self.value) if isinstance(self.value, bytes) else -1

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the record."""
        return TopicPartition(self.topic, self.partition)
