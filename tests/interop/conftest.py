"""A broker for the interop tests, with six partitions by default as kcat cannot ask for a number."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.embedded import Broker

PARTITIONS = 6


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": PARTITIONS}) as running:
        yield running


@pytest.fixture(scope="session")
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap_servers
