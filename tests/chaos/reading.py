"""What the topics say in the end, to a client that reads what is committed from the first offset to the last."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from tests.chaos.sending import CLIENT

from ottla.simulation.history import Place, Stored

READ_SECONDS = 60.0


class Contents(NamedTuple):
    """The records, by offset per partition, and where reading had to end before the high watermark."""

    records: list[Stored]
    held_back: dict[Place, tuple[int, int]]
    """Partition → position and high watermark, where a transaction is still open."""


def read_all(bootstrap: str, topics: dict[str, int]) -> Contents:
    """Read these topics (name → partitions) to their end. AssertionError where that takes too long."""
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
    waiting = {Place(topic, p) for topic, count in topics.items() for p in range(count)}
    ends = {place: consumer.get_watermark_offsets(TopicPartition(*place), 30)[1] for place in waiting}
    consumer.assign([TopicPartition(*place, 0) for place in waiting])
    message: Any  # whose fields are None only in errors of other kinds
    records: list[Stored] = []
    held_back: dict[Place, tuple[int, int]] = {}
    deadline = time.monotonic() + READ_SECONDS
    while waiting:
        assert time.monotonic() < deadline, f"not read to the end: {sorted(waiting)}"
        for message in consumer.consume(1000, 0.5):
            place = Place(message.topic(), message.partition())
            if message.error() is None:
                records.append(Stored(place, message.offset(), message.value()))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                waiting.discard(place)
                if message.offset() < ends[place]:
                    held_back[place] = (message.offset(), ends[place])
    consumer.close()
    records.sort()
    return Contents(records, held_back)
