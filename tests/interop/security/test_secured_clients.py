"""Every client on listeners with TLS and SASL: authenticated by certificate, by password, or not at all."""

from __future__ import annotations

import os
import ssl
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts import apache_kafka
from tests.interop.certified import identities as identities
from tests.interop.kafka_jars import run_tool
from tests.interop.secured import COPIES, Access, Copy

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic
from ottla.broker.embedded import Broker
from ottla.client.admin.security.scram import ScramMechanism, UserScramCredentialUpsertion
from ottla.errors import SaslAuthenticationFailedError, SslAuthenticationError

pytestmark = pytest.mark.interop

VALUES = [f"{i} " + "x" * 10_000 for i in range(200)]
"""More than a TLS record and more than a socket buffer."""
SECURITY_PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
LISTENERS = ("MUTUAL", *SECURITY_PROTOCOLS)
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LOGINS = [
    ("SSL",),
    ("MUTUAL",),
    ("SASL_PLAINTEXT", "PLAIN"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-512"),
    ("SASL_SSL", "PLAIN"),
    ("SASL_SSL", "SCRAM-SHA-256"),
]
PASSWORD = "not-known,=1"


@pytest.fixture(scope="module")
def broker(identities: dict[str, Path]) -> Iterator[Broker]:
    options: dict[str, Any] = {
        "listeners": ",".join(f"{name}://localhost:0" for name in (*LISTENERS, "PLAINTEXT")),
        "listener.security.protocol.map": "MUTUAL:SSL,PLAINTEXT:PLAINTEXT,"
        + ",".join(f"{p}:{p}" for p in SECURITY_PROTOCOLS),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": identities["server"],
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": identities["client"],
    }
    for name in ("sasl_plaintext", "sasl_ssl"):
        line = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="{PASSWORD}";'
        options[f"listener.name.{name}.plain.sasl.jaas.config"] = line
    with Broker({name: str(value) for name, value in options.items()}) as running:
        with KafkaAdminClient(bootstrap_servers=address(running, "PLAINTEXT")) as admin:
            expected = [number for number in ScramMechanism if number]
            admin.alter_user_scram_credentials([UserScramCredentialUpsertion("ann", n, PASSWORD) for n in expected])
        yield running


def address(broker: Broker, listener: str) -> str:
    assert broker._node is not None
    return next(f"localhost:{e.port}" for e in broker._node.endpoints if e.name == listener)


@pytest.fixture(params=LOGINS, ids="-".join)
def access(request: pytest.FixtureRequest, broker: Broker, identities: dict[str, Path]) -> Access:
    listener, *mechanisms = request.param
    if mechanisms:
        return Access(address(broker, listener), listener, identities["server"], None, mechanisms[0], "ann", PASSWORD)
    key = identities["client"] if listener == "MUTUAL" else None
    return Access(address(broker, listener), "SSL", identities["server"], key)


@pytest.mark.parametrize("copy", COPIES, ids=lambda copy: copy.__name__)
def test_client_produces_and_consumes_on_a_secured_listener(copy: Copy, access: Access, tmp_path: Path) -> None:
    topic = f"{copy.__name__}-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(**access.python, **access.pem) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    assert copy(access, topic, VALUES, tmp_path) == VALUES


@pytest.mark.parametrize("key", [None, "stranger"])
def test_client_without_a_trusted_certificate_is_rejected_at_once(
    key: str | None, broker: Broker, identities: dict[str, Path]
) -> None:
    unknown = Access(address(broker, "MUTUAL"), "SSL", identities["server"], None if key is None else identities[key])
    with KafkaProducer(**unknown.python, **unknown.pem) as producer:
        with pytest.raises(SslAuthenticationError):
            producer.send("t", b"v")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_client_with_wrong_password_is_rejected(mechanism: str, broker: Broker, identities: dict[str, Path]) -> None:
    login = (mechanism, "ann", "wrong")
    unknown = Access(address(broker, "SASL_SSL"), "SASL_SSL", identities["server"], None, *login)
    with KafkaProducer(**unknown.python, **unknown.pem) as producer:
        with pytest.raises(SaslAuthenticationFailedError):
            producer.send("t", b"v").get(30)


def test_fetch_of_many_megabytes_is_complete(access: Access) -> None:
    options: dict[str, Any] = {**access.python, **access.pem}
    topic, values = f"large-{uuid.uuid4().hex[:8]}", [os.urandom(900_000) for _ in range(40)]
    with KafkaProducer(**options) as producer:
        for value in values:
            producer.send(topic, value)
        producer.flush(60)
    reading: dict[str, Any] = {
        "fetch_max_bytes": 50_000_000,
        "max_partition_fetch_bytes": 50_000_000,
        "fetch_min_bytes": 30_000_000,
    }
    with KafkaConsumer(topic, **options, **reading, auto_offset_reset="earliest") as consumer:
        assert [next(consumer).value for _ in values] == values


def test_kafka_configs_tool_reloads_certificates(broker: Broker, identities: dict[str, Path], tmp_path: Path) -> None:
    if reason := apache_kafka.missing():
        pytest.skip(f"Apache Kafka's tools: {reason}")
    host, _, port = address(broker, "SSL").partition(":")
    store = tmp_path / "new.pem"
    option = "listener.name.ssl.ssl.keystore.location"

    def server_certificate() -> str:
        return ssl.get_server_certificate((host, int(port))).strip()

    def alter(*change: str) -> None:
        how = ("--bootstrap-server", address(broker, "PLAINTEXT"), "--entity-type", "brokers", "--entity-name", "0")
        done = run_tool("kafka.admin.ConfigCommand", *how, "--alter", *change)
        assert done.returncode == 0, done.stdout + done.stderr

    before = server_certificate()
    store.write_text(identities["stranger"].read_text())
    alter("--add-config", f"{option}={store}")
    try:
        assert server_certificate() in identities["stranger"].read_text()
        store.write_text(identities["broker"].read_text())
        alter("--add-config", f"{option}={store}")
        assert server_certificate() in identities["broker"].read_text()
    finally:
        alter("--delete-config", option)
    assert server_certificate() == before
