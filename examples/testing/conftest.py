"""Options of the broker and the service under test."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from billing import Billing, Ledger

from ottla.testing.clients import ConsumerFactory, ProducerFactory, TopicFactory


@pytest.fixture(scope="session")
def ottla_broker_options() -> Mapping[str, object]:
    return {"auto.create.topics.enable": False}


@pytest.fixture
def orders(ottla_create_topic: TopicFactory) -> str:
    return ottla_create_topic(partitions=2)


@pytest.fixture
def invoices(ottla_create_topic: TopicFactory) -> str:
    return ottla_create_topic(partitions=1)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def start_billing(
    ottla_consumer: ConsumerFactory, ottla_producer: ProducerFactory, ledger: Ledger, orders: str, invoices: str
) -> Callable[[], Billing]:
    """Return a function that starts a member of the group."""

    def start() -> Billing:
        consumer = ottla_consumer(orders, group_id=f"{orders}-billing", enable_auto_commit=False, retry_backoff_ms=5)
        return Billing(consumer, ottla_producer(), ledger, invoices)

    return start
