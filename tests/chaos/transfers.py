"""Transactional producers: each consumes one partition and writes two records per record to two others, exactly once.

The consumed offsets are part of the transaction. Some transactions are aborted on purpose. After a fatal error, or an
unknown outcome, the worker initializes its transactional id again and continues at the committed offset.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.chaos.sending import CLIENT

from ottla.simulation.history import ORDERED, TRANSFERS, Attempt, History, Outcome, TransferRecord

PARTITIONS = 4
MAX_RECORDS = 10
ABORTED_SHARE = 0.15
CALL_SECONDS = 10.0
WAKES = {"connections.max.idle.ms": 5_000}
"""librdkafka may lose the response of FindCoordinator and then wait forever until a connection changes its state
("rely on state broadcast to trigger retry", rdkafka_coord.c): if all brokers are healthy again, none does."""
END_SECONDS = 60.0
"""Time limit for a transaction to end after the load was stopped."""


class GiveUpError(Exception):
    """The worker has to initialize its transactional id again."""


class AbortError(Exception):
    """The transaction has to be aborted."""


class Transfer(threading.Thread):
    """One worker, on the partition of the ordered topic that has its number."""

    def __init__(self, number: int, bootstrap: str, history: History, seed: int) -> None:
        super().__init__(name=f"transfer-{number}", daemon=True)
        self._number = number
        self._servers = bootstrap
        self._history = history
        self._random = random.Random(seed)
        self._attempts = 0
        self._deadline: float | None = None

    def run(self) -> None:
        while not self._history.stopping.is_set():
            try:
                self._work()
            except GiveUpError:
                continue
        self._history.transferred[self.name] = self._last_committed()

    def _work(self) -> None:
        """Run transactions with one producer, until the end or a GiveUpError."""
        from confluent_kafka import Producer

        options = {"bootstrap.servers": self._servers, "transactional.id": self.name, "linger.ms": 2, **CLIENT}
        producer = Producer(options | WAKES)
        self._retry(producer.init_transactions)
        consumer = self._consumer()
        try:
            position = self._committed(consumer)
            self._assign(consumer, position)
            while not self._history.stopping.is_set():
                messages = [m for m in consumer.consume(MAX_RECORDS, 0.2) if m.error() is None]
                if messages and not self._transaction(producer, consumer, messages):
                    self._assign(consumer, messages[0].offset())
        finally:
            consumer.close()

    def _consumer(self) -> Any:
        from confluent_kafka import Consumer

        options = {"group.id": self.name, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        return Consumer(
            {"bootstrap.servers": self._servers, "enable.auto.commit": False, "fetch.wait.max.ms": 100}
            | options
            | CLIENT
        )

    def _assign(self, consumer: Any, offset: int) -> None:
        from confluent_kafka import TopicPartition

        consumer.assign([TopicPartition(ORDERED, self._number, offset)])

    def _committed(self, consumer: Any) -> int:
        """Return the offset at which to continue."""
        from confluent_kafka import TopicPartition

        (committed,) = self._retry(lambda timeout: consumer.committed([TopicPartition(ORDERED, self._number)], timeout))
        if committed.error is not None:
            raise GiveUpError
        return max(0, int(committed.offset))

    def _transaction(self, producer: Any, consumer: Any, messages: list[Any]) -> bool:
        """Run a transaction with these records, and return whether it was committed."""
        self._attempts += 1
        attempt = Attempt(self.name, self._attempts, tuple(message.offset() for message in messages))
        self._history.attempts.append(attempt)
        try:
            self._retry(lambda timeout: producer.begin_transaction())
            for source in attempt.sources:
                for side in (0, 1):
                    value = TransferRecord(self.name, attempt.number, source, side).value
                    producer.produce(TRANSFERS, value, partition=(source + side) % PARTITIONS)
            if self._random.random() < ABORTED_SHARE:
                self._retry(producer.flush)
                raise AbortError
            self._commit(producer, consumer, attempt)
        except AbortError:
            self._retry(producer.abort_transaction)
            attempt.outcome = Outcome.ABORTED
            return False
        attempt.outcome, attempt.at = Outcome.COMMITTED, time.monotonic()
        return True

    def _commit(self, producer: Any, consumer: Any, attempt: Attempt) -> None:
        from confluent_kafka import TopicPartition

        offsets = [TopicPartition(ORDERED, self._number, attempt.sources[-1] + 1)]
        group = consumer.consumer_group_metadata()
        self._retry(lambda timeout: producer.send_offsets_to_transaction(offsets, group, timeout))
        self._retry(producer.commit_transaction)

    def _retry(self, call: Callable[[float], Any]) -> Any:
        """Call a function, and retry it until the run ends. Raise AbortError or GiveUpError for final errors."""
        from confluent_kafka import KafkaException

        while True:
            try:
                return call(CALL_SECONDS)
            except KafkaException as failure:
                error = failure.args[0]
                if error.txn_requires_abort():
                    raise AbortError from None
                if not error.retriable() or self._too_late():
                    raise GiveUpError from failure
                time.sleep(0.05)

    def _too_late(self) -> bool:
        if not self._history.stopping.is_set():
            return False
        self._deadline = self._deadline or time.monotonic() + END_SECONDS
        return time.monotonic() > self._deadline

    def _last_committed(self) -> int | None:
        """Return the final committed offset, after aborting a transaction that is still open."""
        from confluent_kafka import Producer

        for _ in range(3):
            try:
                options = {"bootstrap.servers": self._servers, "transactional.id": self.name, **CLIENT}
                self._retry(Producer(options).init_transactions)
                consumer = self._consumer()
                try:
                    return self._committed(consumer)
                finally:
                    consumer.close()
            except (GiveUpError, AbortError):
                continue
        return None
