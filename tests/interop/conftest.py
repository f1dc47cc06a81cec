"""A broker for the interop tests, with six partitions by default as kcat cannot ask for a number."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.embedded import Broker

PARTITIONS = 6


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    with Broker({"num.partitions": PARTITIONS}) as broker:
        yield broker.bootstrap_servers
