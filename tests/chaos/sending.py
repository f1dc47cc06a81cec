"""Idempotent producers of several clients: each sends a numbered record to every partition at regular intervals."""

from __future__ import annotations

import subprocess
import threading
import time
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts import apache_kafka, maven

from ottla.simulation.history import ORDERED, Ack, History, SentRecord

PARTITIONS = 6
INTERVAL_SECONDS = 0.04
MAX_PENDING = 5_000
"""Maximum number of records without a response: beyond, a producer pauses, since more records would not test more."""
FLUSH_SECONDS = 60.0
REQUEST_MS = 4_000
DELIVERY_MS = 120_000
JAVA_SOURCE = Path(__file__).parent / "java" / "OrderedProducer.java"

CLIENT = {
    "socket.timeout.ms": 5_000,
    "topic.metadata.refresh.interval.ms": 1_000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 200,
    "log_level": 0,
}
"""Configs of a librdkafka client that retries quickly, so that the brokers' recovery time is measured."""


class OrderedProducer(threading.Thread):
    """One producer. A record whose delivery failed may be in the log nevertheless."""

    def __init__(self, name: str, bootstrap: str, history: History) -> None:
        super().__init__(name=name, daemon=True)
        self._servers = bootstrap
        self._history = history
        self.left = 0
        """Number of records without a response at the end."""

    def run(self) -> None:
        try:
            self._run()
        except Exception as error:
            self._history.ended[self.name] = repr(error)

    @abstractmethod
    def _run(self) -> None:
        """Produce until `history.stopping`, then flush; any exception has ended the producer."""

    def _on_response(self, sent: SentRecord, error: object, offset: int | None) -> None:
        now = time.monotonic()
        if error is None:
            self._history.acks.append(Ack(now, sent, offset))
        else:
            self._history.failed_deliveries.append((now, sent, str(error)))


class LibrdkafkaProducer(OrderedProducer):
    """confluent-kafka's producer. It ends with a fatal error if it cannot determine which records are in the log."""

    def _run(self) -> None:
        from confluent_kafka import Producer

        options = {
            "bootstrap.servers": self._servers,
            "client.id": self.name,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 2,
            "request.timeout.ms": REQUEST_MS,
            "message.timeout.ms": DELIVERY_MS,
            **CLIENT,
        }
        producer = Producer(options)
        sequence = 0
        beat = time.monotonic()
        while not self._history.stopping.is_set():
            if len(producer) < MAX_PENDING:
                for partition in range(PARTITIONS):
                    self._send(producer, SentRecord(self.name, partition, sequence))
                sequence += 1
            beat += INTERVAL_SECONDS
            while (rest := beat - time.monotonic()) > 0:
                producer.poll(rest)
            beat = max(beat, time.monotonic() - INTERVAL_SECONDS)
        self.left = producer.flush(FLUSH_SECONDS)

    def _send(self, producer: Any, sent: SentRecord) -> None:
        def on_response(error: Any, message: Any) -> None:
            self._on_response(sent, error, message.offset())

        producer.produce(ORDERED, sent.value, partition=sent.partition, on_delivery=on_response)


class OttlaProducer(OrderedProducer):
    """Ottla's producer."""

    def _run(self) -> None:
        from ottla import KafkaProducer

        waiting: set[SentRecord] = set()
        sequence = 0
        beat = time.monotonic()
        with KafkaProducer(
            bootstrap_servers=self._servers,
            client_id=self.name,
            linger_ms=2,
            request_timeout_ms=REQUEST_MS,
            delivery_timeout_ms=DELIVERY_MS,
            metadata_max_age_ms=1_000,
        ) as producer:
            while not self._history.stopping.is_set():
                if len(waiting) < MAX_PENDING:
                    for partition in range(PARTITIONS):
                        self._send(producer, SentRecord(self.name, partition, sequence), waiting)
                    sequence += 1
                beat = max(beat + INTERVAL_SECONDS, time.monotonic())
                time.sleep(max(0.0, beat - time.monotonic()))
            producer.flush(timeout=FLUSH_SECONDS)
        self.left = len(waiting)

    def _send(self, producer: Any, sent: SentRecord, waiting: set[SentRecord]) -> None:
        def on_response(metadata: Any) -> None:
            waiting.discard(sent)
            self._on_response(sent, None, metadata.offset if metadata.offset >= 0 else None)

        def failed(error: Exception) -> None:
            waiting.discard(sent)
            self._on_response(sent, error, None)

        waiting.add(sent)
        producer.send(ORDERED, sent.value, partition=sent.partition).add_callback(on_response).add_errback(failed)


class JavaProducer(OrderedProducer):
    """The producer of kafka-clients, in its own JVM."""

    def _run(self) -> None:
        libs = apache_kafka.libs()
        classes = maven.compiled(f"chaos-{apache_kafka.VERSION}", libs, [JAVA_SOURCE])
        arguments = [self._servers, ORDERED, self.name, PARTITIONS, int(INTERVAL_SECONDS * 1000), MAX_PENDING]
        command = ["java", "-Xmx128M", *apache_kafka.SHORT_LIVED, "-cp", f"{classes}:{libs}/*", JAVA_SOURCE.stem]
        process = subprocess.Popen(
            [*command, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        threading.Thread(target=self._stop_at_end, args=(process,), daemon=True).start()
        self.left = -1
        for line in process.stdout:
            self._on_line(line.split())
        if process.wait() or self.left < 0:
            raise ChildProcessError(f"the JVM of {self.name} has ended with {process.returncode}")

    def _stop_at_end(self, process: subprocess.Popen[str]) -> None:
        self._history.stopping.wait()
        assert process.stdin is not None
        try:
            process.stdin.write("stop\n")
            process.stdin.flush()
        except BrokenPipeError:
            return  # the process has already ended

    def _on_line(self, words: list[str]) -> None:
        match words:
            case ["ack", partition, sequence, offset]:
                at = int(offset)
                self._on_response(SentRecord(self.name, int(partition), int(sequence)), None, at if at >= 0 else None)
            case ["fail", partition, sequence, *error]:
                self._on_response(SentRecord(self.name, int(partition), int(sequence)), " ".join(error), None)
            case ["left", count]:
                self.left = int(count)


CLIENTS: Mapping[str, type[OrderedProducer]] = {
    "librdkafka": LibrdkafkaProducer,
    "java": JavaProducer,
    "ottla": OttlaProducer,
}
"""The producers of the load, by client."""


def available_clients() -> list[str]:
    """Return the clients that this machine can run."""
    return [name for name in CLIENTS if name != "java" or apache_kafka.missing() is None]
