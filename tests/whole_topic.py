"""Reads all records of a topic, for comparison in tests."""

from __future__ import annotations

import time
from typing import Any

from ottla import ConsumerRecord, KafkaConsumer, TopicPartition

SECONDS = 60.0


def whole_topic(address: str, topic: str, partitions: int, **options: Any) -> list[ConsumerRecord]:
    """Return the records that a consumer with these options reads up to the current end, by partition and offset."""
    result: list[ConsumerRecord] = []
    with KafkaConsumer(bootstrap_servers=address, **options) as consumer:
        expected = [TopicPartition(topic, p) for p in range(partitions)]
        consumer.assign(expected)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(expected)
        deadline = time.monotonic() + SECONDS
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            assert time.monotonic() < deadline, f"{topic} cannot be read to its end"
            result += [row for rows in consumer.poll(timeout_ms=500).values() for row in rows]
    return sorted(result, key=lambda record: (record.partition, record.offset))
