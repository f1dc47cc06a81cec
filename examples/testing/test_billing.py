"""Orders during faults of the broker, the network and the consumer group."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from billing import Billing, Ledger

from ottla.testing.clients import AsyncConsumerFactory, ConsumerFactory, ProducerFactory
from ottla.testing.faults import Faults

StartBilling = Callable[[], Billing]
ORDERS = {"o1": 10, "o2": 20, "o3": 30}


@pytest.fixture
def placed(ottla_producer: ProducerFactory, orders: str) -> None:
    """Send the orders."""
    producer = ottla_producer()
    for order, amount in ORDERS.items():
        producer.send(orders, b"%d" % amount, key=order.encode()).get(10)


def run_until_charged(billing: Billing, ledger: Ledger, attempts: int = len(ORDERS)) -> None:
    """Process batches until a number of charges was attempted."""
    for _ in range(50):
        if ledger.attempts >= attempts:
            return
        billing.run_once()
    raise AssertionError(f"{ledger.attempts} attempts to charge")


@pytest.mark.usefixtures("placed")
def test_orders_are_charged_and_invoiced(
    start_billing: StartBilling, ledger: Ledger, ottla_consumer: ConsumerFactory, invoices: str
) -> None:
    run_until_charged(start_billing(), ledger)
    assert ledger.charged == ORDERS
    consumer = ottla_consumer(invoices, consumer_timeout_ms=10_000)
    assert {next(consumer).key for _ in ORDERS} == {order.encode() for order in ORDERS}


@pytest.mark.usefixtures("placed")
def test_orders_of_a_lost_member_are_charged_once(
    start_billing: StartBilling, ledger: Ledger, orders: str, ottla_faults: Faults
) -> None:
    expired = ottla_faults.on("OffsetCommit", group=f"{orders}-billing").expire_member()
    run_until_charged(start_billing(), ledger)
    assert expired.hits == 1
    run_until_charged(start_billing(), ledger, attempts=len(ORDERS) + 1)
    assert ledger.charged == ORDERS


@pytest.mark.usefixtures("placed")
def test_invoice_is_written_once_although_its_acknowledgement_is_lost(
    start_billing: StartBilling, ledger: Ledger, ottla_faults: Faults, ottla_consumer: ConsumerFactory, invoices: str
) -> None:
    ottla_faults.on("Produce", topic=invoices).lose_response()
    run_until_charged(start_billing(), ledger)
    consumer = ottla_consumer(invoices, consumer_timeout_ms=300)
    assert sorted(record.value or b"" for record in consumer) == [b"10", b"20", b"30"]


@pytest.mark.usefixtures("placed")
def test_slow_broker_delays_orders_but_loses_none(
    start_billing: StartBilling, ledger: Ledger, ottla_faults: Faults, orders: str
) -> None:
    ottla_faults.on("Fetch", topic=orders, times=3).delay(0.1)
    run_until_charged(start_billing(), ledger)
    assert ledger.charged == ORDERS


@pytest.mark.asyncio
@pytest.mark.usefixtures("placed")
async def test_orders_are_visible_to_an_asyncio_consumer(ottla_aio_consumer: AsyncConsumerFactory, orders: str) -> None:
    consumer = await ottla_aio_consumer(orders)
    assert {(await anext(consumer)).key for _ in ORDERS} == {order.encode() for order in ORDERS}
