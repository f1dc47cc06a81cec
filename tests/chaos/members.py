"""A consumer group for both topics: the assignments, records and commits of its members."""

from __future__ import annotations

import threading
import time
from typing import Any

from tests.chaos.sending import CLIENT

from ottla import model
from ottla.simulation.history import ORDERED, TRANSFERS, Assigned, Committed, Consumed, History

GROUP = "readers"
COMMIT_SECONDS = 0.5


class Member(threading.Thread):
    """One member, which reads until `done` is set and then leaves."""

    def __init__(self, number: int, bootstrap: str, history: History) -> None:
        super().__init__(name=f"member-{number}", daemon=True)
        self._history = history
        self.done = threading.Event()
        self._options = {
            "bootstrap.servers": bootstrap,
            "client.id": self.name,
            "group.id": GROUP,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 1_000,
            "fetch.wait.max.ms": 100,
            **CLIENT,
        }
        self._positions: dict[model.TopicPartition, int] = {}
        self._is_committing = False
        """Whether a commit is pending: librdkafka retries it even after later ones, which would be overwritten."""

    def run(self) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(self._options | {"on_commit": self._committed})
        consumer.subscribe([ORDERED, TRANSFERS], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        commit_at = time.monotonic() + COMMIT_SECONDS
        while not self.done.is_set():
            for message in consumer.consume(500, 0.1):
                if message.error() is None:
                    self._record(message)
            if time.monotonic() > commit_at:
                self._commit(consumer)
                commit_at = time.monotonic() + COMMIT_SECONDS
        consumer.close()

    def _record(self, message: Any) -> None:
        tp = model.TopicPartition(message.topic(), message.partition())
        self._history.group.append(Consumed(time.monotonic(), self.name, tp, message.offset()))
        self._positions[tp] = message.offset() + 1

    def _commit(self, consumer: Any, asynchronous: bool = True) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        offsets = [TopicPartition(*tp, position) for tp, position in self._positions.items()]
        if not offsets or (asynchronous and self._is_committing):
            return
        try:
            consumer.commit(offsets=offsets, asynchronous=asynchronous)
            self._is_committing = asynchronous
        except KafkaException:
            return  # a later commit suffices

    def _committed(self, error: Any, partitions: list[Any]) -> None:
        now = time.monotonic()
        self._is_committing = False
        for partition in partitions:
            if error is None and partition.error is None and partition.offset >= 0:
                tp = model.TopicPartition(partition.topic, partition.partition)
                self._history.group.append(Committed(now, self.name, tp, partition.offset))

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        now = time.monotonic()
        for partition in partitions:
            tp = model.TopicPartition(partition.topic, partition.partition)
            self._history.group.append(Assigned(now, self.name, tp))

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        self._commit(consumer, asynchronous=False)
        self._lost(consumer, partitions)

    def _lost(self, consumer: Any, partitions: list[Any]) -> None:
        for partition in partitions:
            self._positions.pop(model.TopicPartition(partition.topic, partition.partition), None)
