"""What poll() returns."""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.model import TopicPartition


class ConsumerRecord(NamedTuple):
    """A record as it was read. Timestamp in milliseconds since 1970, its type 0 (CreateTime) or 1 (LogAppendTime).

    Leader epoch -1 where the batch has none. The order is that of kafka-python.
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
        """Bytes of the key on the wire; -1 for None, and when a deserializer has made something else of them."""
        return len(self.key) if isinstance(self.key, bytes) else -1

    @property
    def serialized_value_size(self) -> int:
        """Bytes of the value on the wire; -1 for None, and when a deserializer has made something else of them."""
        return len(self.value) if isinstance(self.value, bytes) else -1

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the record lies in."""
        return TopicPartition(self.topic, self.partition)
