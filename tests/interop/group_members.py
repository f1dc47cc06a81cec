"""Members of consumer groups (KIP-848) in threads, and configs of brokers that detect a failed member quickly."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

PARTITIONS = 6
SECONDS = 60
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.initial.rebalance.delay.ms": 0,
}


class Member:
    """A librdkafka consumer in a thread."""

    def __init__(self, bootstrap: str, group: str, topic: str, protocol: str = "consumer") -> None:
        confluent_kafka = pytest.importorskip("confluent_kafka")
        self.values: list[bytes] = []
        self.partitions: set[tuple[str, int]] = set()
        self.errors: list[str] = []
        self._stop = threading.Event()
        options: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 1000,
            "log_level": 3,
        }
        if protocol == "classic":
            options |= {"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": 200}
        self._consumer = confluent_kafka.Consumer(options)
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _assigned(self, _consumer: Any, partitions: Any) -> None:
        self.partitions |= {(p.topic, p.partition) for p in partitions}

    def _revoked(self, _consumer: Any, partitions: Any) -> None:
        self.partitions -= {(p.topic, p.partition) for p in partitions}

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(100, 0.05):
                if message.error() is None:
                    self.values.append(message.value())
                else:
                    self.errors.append(str(message.error()))
        self._consumer.close()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def shared(*members: Member) -> bool:
    """Return whether every partition has one owner and the assignment is balanced."""
    sizes = [len(m.partitions) for m in members]
    owned = set().union(*(m.partitions for m in members))
    return sum(sizes) == len(owned) == PARTITIONS and max(sizes) - min(sizes) <= 1


def read_all(sent: list[bytes], *members: Member) -> None:
    goal = set(sent)
    until(lambda: goal <= {v for m in members for v in m.values}, "a record is missing")
