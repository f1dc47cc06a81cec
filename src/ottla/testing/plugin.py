"""The pytest plugin.

`ottla_broker` is a broker for the session, `ottla_topic` a topic for one test, `ottla_cluster` three brokers for one
test, which it may stop and start.

Each xdist worker has a broker of its own on a free port, so tests do not meet. Nothing is imported before a fixture is
asked for.
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
    """Start a broker with temporary data; `ottla_broker.bootstrap_servers` is its address."""
    from ottla.broker.embedded import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def ottla_cluster() -> Iterator[Broker]:
    """Start three brokers that replicate, for one test: `ottla_cluster.stop_broker(1)` moves its leaders away."""
    from ottla.broker.embedded import Broker

    with Broker(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def ottla_topic(ottla_broker: Broker, request: pytest.FixtureRequest) -> str:
    """Return the name of a topic that no other test uses; the broker creates it at the first request."""
    stem = re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)[:MAX_STEM]
    return f"{stem}-{uuid.uuid4().hex[:8]}"
