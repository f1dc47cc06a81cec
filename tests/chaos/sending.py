"""Idempotent producers: one numbered record to every partition at every beat, for as long as the run goes."""

from __future__ import annotations

import threading
import time
from typing import Any

from tests.chaos.history import Ack, History, Sent

ORDERED = "ordered"
PARTITIONS = 6
BEAT_SECONDS = 0.04
MOST_WAITING = 5_000
"""Records without an answer: beyond, a producer rests, as nothing more would be learned."""
FLUSH_SECONDS = 60.0

CLIENT = {
    "socket.timeout.ms": 5_000,
    "topic.metadata.refresh.interval.ms": 1_000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 200,
    "log_level": 0,
}
"""A client that looks again soon, so that what is measured is the brokers."""


class OrderedProducer(threading.Thread):
    """One producer. A record that is refused for good is noted; it may be in the log all the same."""

    def __init__(self, name: str, bootstrap: str, history: History) -> None:
        super().__init__(name=name, daemon=True)
        self._history = history
        self._options = {
            "bootstrap.servers": bootstrap,
            "client.id": name,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 2,
            "request.timeout.ms": 4_000,
            "message.timeout.ms": 120_000,
            **CLIENT,
        }
        self.left = 0
        """Records without an answer when it ended."""

    def run(self) -> None:
        from confluent_kafka import Producer

        producer = Producer(self._options)
        sequence = 0
        beat = time.monotonic()
        while not self._history.stopping.is_set():
            if len(producer) < MOST_WAITING:
                for partition in range(PARTITIONS):
                    self._send(producer, Sent(self.name, partition, sequence))
                sequence += 1
            beat += BEAT_SECONDS
            while (rest := beat - time.monotonic()) > 0:
                producer.poll(rest)
            beat = max(beat, time.monotonic() - BEAT_SECONDS)
        self.left = producer.flush(FLUSH_SECONDS)

    def _send(self, producer: Any, sent: Sent) -> None:
        def answered(error: Any, message: Any) -> None:
            now = time.monotonic()
            if error is None:
                self._history.acks.append(Ack(now, sent, message.offset()))
            else:
                self._history.refused.append((now, sent, str(error)))

        producer.produce(ORDERED, sent.value, partition=sent.partition, on_delivery=answered)
