"""Every client on listeners with TLS, known by its certificate or not asked for one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic
from ottla.broker.embedded import Broker
from ottla.errors import SslAuthenticationError

from .certified import identities as identities
from .secured import COPIES, Access, Copy

pytestmark = pytest.mark.interop

VALUES = [f"{i} " + "x" * 10_000 for i in range(200)]
"""More than a record of TLS, and more than a buffer of the socket."""


@pytest.fixture(scope="module")
def broker(identities: dict[str, Path]) -> Iterator[Broker]:
    options = {
        "listeners": "SSL://localhost:0,MUTUAL://localhost:0",
        "listener.security.protocol.map": "SSL:SSL,MUTUAL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": identities["server"],
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": identities["client"],
    }
    with Broker({name: str(value) for name, value in options.items()}) as running:
        yield running


@pytest.fixture(params=["SSL", "MUTUAL"])
def access(request: pytest.FixtureRequest, broker: Broker, identities: dict[str, Path]) -> Access:
    assert broker._node is not None
    endpoint = next(e for e in broker._node.endpoints if e.name == request.param)
    key = identities["client"] if request.param == "MUTUAL" else None
    return Access(f"localhost:{endpoint.port}", "SSL", identities["server"], key)


@pytest.mark.parametrize("copy", COPIES, ids=lambda copy: copy.__name__)
def test_records_go_there_and_back(copy: Copy, access: Access, tmp_path: Path) -> None:
    topic = f"{copy.__name__}-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(**access.python, **access.pem) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    assert copy(access, topic, VALUES, tmp_path) == VALUES


@pytest.mark.parametrize("key", [None, "stranger"])
def test_who_is_not_known_is_turned_away_at_once(key: str | None, broker: Broker, identities: dict[str, Path]) -> None:
    assert broker._node is not None
    port = next(e.port for e in broker._node.endpoints if e.name == "MUTUAL")
    unknown = Access(f"localhost:{port}", "SSL", identities["server"], None if key is None else identities[key])
    with KafkaProducer(**unknown.python, **unknown.pem) as producer:
        with pytest.raises(SslAuthenticationError):
            producer.send("t", b"v")


def test_a_fetch_of_many_megabytes_comes_whole(access: Access) -> None:
    options: dict[str, Any] = {**access.python, **access.pem}
    topic, values = f"large-{uuid.uuid4().hex[:8]}", [os.urandom(900_000) for _ in range(40)]
    with KafkaProducer(**options) as producer:
        for value in values:
            producer.send(topic, value)
        producer.flush(60)
    reading = {"fetch_max_bytes": 50_000_000, "max_partition_fetch_bytes": 50_000_000, "fetch_min_bytes": 30_000_000}
    with KafkaConsumer(topic, **options, **reading, auto_offset_reset="earliest") as consumer:
        assert [next(consumer).value for _ in values] == values
