"""The pytest plugin with Ottla's fixtures.

`ottla_broker` is a broker for the session, `ottla_topic` a topic for one test, and `ottla_cluster` three brokers for
one test, which may stop and start them.

Each xdist worker has its own broker on a free port, so that tests in different workers are independent. Nothing is
imported before a fixture is used.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.broker.embedded import Broker

MAX_STEM = 100


@pytest.fixture(scope="session")
def ottla_broker() -> Iterator[Broker]:
    """Yield a broker with temporary data for the session. `ottla_broker.bootstrap_servers` is its address."""
    from ottla.broker.embedded import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def ottla_cluster() -> Iterator[Broker]:
    """Yield a cluster of three brokers for one test. `ottla_cluster.stop_broker(1)` stops a broker, whose leaders move
    to the others.
    """
    from ottla.broker.embedded import Broker

    with Broker(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def ottla_topic(ottla_broker: Broker, request: pytest.FixtureRequest) -> str:
    """Return the name of a topic that no other test uses. The broker creates it with the first request."""
    stem = re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)[:MAX_STEM]
    return f"{stem}-{uuid.uuid4().hex[:8]}"
