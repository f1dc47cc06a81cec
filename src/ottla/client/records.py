"""What poll() returns."""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.model import TopicPartition


class ConsumerRecord(NamedTuple):
    """A record as it was read. Timestamp in milliseconds since 1970, its type 0 (CreateTime) or 1 (LogAppendTime).

    Sizes are those on the wire, in bytes, -1 for None. Leader epoch -1 where the batch has none.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]
    serialized_key_size: int
    serialized_value_size: int
    leader_epoch: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the record lies in."""
        return TopicPartition(self.topic, self.partition)
