"""A service: it reads orders, charges each once, and publishes invoices.

Kafka delivers an order again if the service fails between charging and committing, so charges are recorded by order id.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla import ConsumerRecord, KafkaConsumer, KafkaProducer
from ottla.errors import CommitFailedError


class Ledger:
    """Charges of orders. In production a table with the order id as its key."""

    def __init__(self) -> None:
        self.charged: dict[str, int] = {}
        self.attempts = 0

    def charge(self, order: str, amount: int) -> bool:
        """Charge an order. Return False if it was charged before."""
        self.attempts += 1
        if order in self.charged:
            return False
        self.charged[order] = amount
        return True


class Billing:
    """Reads orders as a member of a consumer group."""

    def __init__(self, consumer: KafkaConsumer, producer: KafkaProducer, ledger: Ledger, invoices: str) -> None:
        self._consumer = consumer
        self._producer = producer
        self._ledger = ledger
        self._invoices = invoices

    def run_once(self, timeout_ms: int = 500) -> int:
        """Process the next batch, and return the number of its orders."""
        batch = [record for records in self._consumer.poll(timeout_ms).values() for record in records]
        self._process(batch)
        try:
            self._consumer.commit()
        except CommitFailedError:
            pass  # the partitions belong to another member now, which gets the orders again
        return len(batch)

    def _process(self, batch: Iterable[ConsumerRecord]) -> None:
        sent = []
        for record in batch:
            order, amount = (record.key or b"").decode(), int(record.value or b"0")
            if self._ledger.charge(order, amount):
                sent.append(self._producer.send(self._invoices, b"%d" % amount, key=record.key))
        for future in sent:
            future.get(30)
