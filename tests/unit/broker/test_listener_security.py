"""Listeners with TLS: errors at start, principals of client certificates, and lazy loading."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography")

from tests.unit.net.certificates import authority, signed

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer
from ottla.broker.embedded import Broker
from ottla.broker.request_context import RequestContext
from ottla.broker.server.broker_node import BrokerNode
from ottla.config.broker.broker_config import BrokerConfig
from ottla.errors import ConfigurationError

CA = authority()
SERVER = signed(CA, "localhost")
CLIENT = signed(CA, "client")
SSL = {
    "listeners": "SSL://localhost:0",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.key": SERVER.key_pem(),
    "ssl.keystore.certificate.chain": SERVER.pem,
    "ssl.truststore.type": "PEM",
    "ssl.truststore.certificates": CA.pem,
}
TRUSTING: dict[str, Any] = {
    "security_protocol": "SSL",
    "ssl_truststore_type": "PEM",
    "ssl_truststore_certificates": CA.pem,
}
WITH_CERTIFICATE: dict[str, Any] = {
    **TRUSTING,
    "ssl_keystore_type": "PEM",
    "ssl_keystore_key": CLIENT.key_pem(),
    "ssl_keystore_certificate_chain": CLIENT.pem,
}


def start(options: dict[str, Any], data: Path) -> None:
    async def run() -> None:
        async with BrokerNode(BrokerConfig({**options, "log.dirs": str(data)})):
            pass

    asyncio.run(run())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"listeners": "SSL://localhost:0"}, r"listener SSL: ssl\.keystore\.location: accepting connections"),
        (
            {**SSL, "ssl.keystore.key": None, "ssl.keystore.certificate.chain": None, "ssl.keystore.location": "/none"},
            r"listener SSL: ssl\.keystore\.location: /none: No such file",
        ),
        ({**SSL, "ssl.client.auth": "required", "ssl.truststore.certificates": "x"}, r"ssl\.truststore\.certificates"),
        ({**SSL, "listener.name.ssl.ssl.protocol": "SSLv3"}, r"listener SSL: ssl\.protocol: 'SSLv3'"),
        (
            {**SSL, "listener.name.ssl.ssl.principal.mapping.rules": "x"},
            r"listener SSL: ssl\.principal\.mapping\.rules",
        ),
    ],
    ids=["no key", "no file", "no certificate", "old protocol", "no rule"],
)
def test_unusable_keystore_error_names_the_listener_and_the_config(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        start(options, tmp_path)


def test_command_prints_the_error_in_one_line_and_exits_with_1(tmp_path: Path) -> None:
    options = ["--override=listeners=SSL://localhost:0", f"--override=log.dirs={tmp_path}"]
    command = [sys.executable, "-m", "ottla", "broker", *options]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert completed.returncode == 1
    *logged, error = completed.stderr.splitlines()
    assert error.startswith("ottla broker: listener SSL: ssl.keystore.location: ")
    assert all(" INFO " in line for line in logged)


def test_principal_of_a_request_is_mapped_from_the_client_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    users: set[str] = set()
    context_class = "ottla.broker.dispatch.RequestContext"

    class RecordingContext(RequestContext):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            users.add(self.user)

    monkeypatch.setattr(context_class, RecordingContext)
    rules = {"listener.name.ssl.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U"}
    with Broker({**SSL, **rules, "ssl.client.auth": "requested"}) as broker:
        for options in (TRUSTING, WITH_CERTIFICATE):
            with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers, **options) as admin:
                admin.list_topics()
    assert users == {"ANONYMOUS", "CLIENT"}


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_connection_with_tls_counts_as_authenticated_once(protocol: str) -> None:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    sasl = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{login} user_ann="secret";',
    }
    options = {**TRUSTING, "security_protocol": protocol}
    if protocol == "SASL_SSL":
        options |= {"sasl_mechanism": "PLAIN", "sasl_plain_username": "ann", "sasl_plain_password": "secret"}
    with Broker({**SSL, **sasl, "listeners": f"{protocol}://localhost:0"}) as broker:
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers, **options) as admin:
            admin.list_topics()
        assert broker._node is not None
        counts = broker._node._listeners[0].counts
        assert counts.authenticated == counts.accepted >= 1


def test_broker_serves_plaintext_and_tls_listeners(tmp_path: Path) -> None:
    with Broker({**SSL, "listeners": "PLAINTEXT://localhost:0,SSL://localhost:0"}, data_dir=tmp_path) as broker:
        assert broker._node is not None
        plain, secure = (f"localhost:{e.port}" for e in broker._node.endpoints)
        with KafkaProducer(bootstrap_servers=plain) as producer:
            producer.send("t", b"v").get(30)
        reading: dict[str, Any] = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 20_000}
        with KafkaConsumer("t", bootstrap_servers=secure, **TRUSTING, **reading) as consumer:
            assert next(consumer).value == b"v"


def test_broker_without_tls_does_not_load_the_tls_modules() -> None:
    program = (
        "import sys; from ottla.broker.embedded import Broker\n"
        "with Broker(): print([name for name in sys.modules if name.startswith('ottla.net.')])"
    )
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "ottla.net.server.connection" in completed.stdout
    for name in ("server.listener_ssl", "server.tls_connection", "client"):
        assert f"ottla.net.{name}'" not in completed.stdout
