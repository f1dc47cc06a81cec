"""Consumers of a scripted broker: how tests create them, read records and wait for a condition."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from tests.unit.client.scripted import ScriptedBroker

from ottla import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from ottla.records.builder import BatchBuilder

TP = TopicPartition("t", 0)


def consumer(broker: ScriptedBroker, *topics: str, **options: Any) -> KafkaConsumer:
    options = {"auto_offset_reset": "earliest", "retry_backoff_ms": 10, "fetch_max_wait_ms": 50, **options}
    return KafkaConsumer(*topics, bootstrap_servers=broker.address, **options)


def batch(values: Iterable[bytes | None], **close: Any) -> bytes:
    builder = BatchBuilder(bytearray(100_000))
    for number, value in enumerate(values):
        assert builder.append(1000 + number, b"k", value, [("h", b"x")])
    return bytes(builder.close(**close))


def fill(broker: ScriptedBroker, count: int, topic: str = "t", partition: int = 0, per_batch: int = 10) -> None:
    for first in range(0, count, per_batch):
        broker.put(topic, partition, batch(b"%d" % i for i in range(first, min(count, first + per_batch))))


def read(c: KafkaConsumer, count: int, timeout: float = 10) -> list[Any]:
    """Poll until there are `count` records, and return them."""
    result: list[Any] = []
    end = time.monotonic() + timeout
    while len(result) < count:
        assert time.monotonic() < end, f"{len(result)} of {count} records arrived"
        for rows in c.poll(timeout_ms=200).values():
            result += rows
    return result


def poll_until(c: KafkaConsumer, condition: Callable[[], bool], timeout: float = 10) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "the condition was not met in time"
        c.poll(timeout_ms=20)


class Listener(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int], bool]] = []

    def record(self, kind: str, partitions: set[TopicPartition]) -> None:
        on_main_thread = threading.current_thread() is threading.main_thread()
        self.calls.append((kind, sorted(tp.partition for tp in partitions), on_main_thread))

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.record("assigned", assigned)

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self.record("revoked", revoked)

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        self.record("lost", lost)
