"""The final content of the topics, as read by a read_committed consumer from the first offset to the last."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from tests.chaos.sending import CLIENT

from ottla import model
from ottla.simulation.history import StoredRecord

READ_SECONDS = 60.0


class Contents(NamedTuple):
    """The records of each partition by offset, and the partitions that cannot be read up to the high watermark."""

    records: list[StoredRecord]
    held_back: dict[model.TopicPartition, tuple[int, int]]
    """Partition → position and high watermark, for partitions with an open transaction."""


def read_all(bootstrap: str, topics: dict[str, int]) -> Contents:
    """Read these topics (name → partitions) to their end. Raise AssertionError if that takes too long."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unknown",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **CLIENT,
        }
    )
    waiting = {model.TopicPartition(topic, p) for topic, count in topics.items() for p in range(count)}
    ends = {tp: consumer.get_watermark_offsets(TopicPartition(*tp), 30)[1] for tp in waiting}
    consumer.assign([TopicPartition(*tp, 0) for tp in waiting])
    message: Any  # its fields are None only in errors of other kinds
    records: list[StoredRecord] = []
    held_back: dict[model.TopicPartition, tuple[int, int]] = {}
    deadline = time.monotonic() + READ_SECONDS
    while waiting:
        assert time.monotonic() < deadline, f"not read to the end: {sorted(waiting)}"
        for message in consumer.consume(1000, 0.5):
            tp = model.TopicPartition(message.topic(), message.partition())
            if message.error() is None:
                records.append(StoredRecord(tp, message.offset(), message.value()))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                waiting.discard(tp)
                if message.offset() < ends[tp]:
                    held_back[tp] = (message.offset(), ends[tp])
    consumer.close()
    records.sort()
    return Contents(records, held_back)
