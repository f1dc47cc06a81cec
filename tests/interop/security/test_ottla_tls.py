"""Mutual TLS between our clients and Apache Kafka, with key stores and trust stores made by Java's keytool."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts import apache_kafka
from tests.interop import kafka_jars
from tests.interop.kafka_jars import server

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic
from ottla.errors import SslAuthenticationError
from ottla.net.ports import free_port

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("keytool") is None, reason="keytool, which makes the stores, is missing"),
]

PASSWORD = "changeit"


def keytool(*arguments: str) -> None:
    subprocess.run(["keytool", *arguments, "-storepass", PASSWORD], check=True, capture_output=True)


def stores(folder: Path, name: str, kind: str) -> None:
    """Create a key store of `name`, and a trust store for its peers."""
    key, trust, certificate = folder / f"{name}.{kind}", folder / f"{name}-trust.{kind}", folder / f"{name}.der"
    made = ["-alias", name, "-keyalg", "RSA", "-validity", "30", "-dname", f"CN={name}", "-ext", "SAN=dns:localhost"]
    keytool("-genkeypair", *made, "-storetype", kind, "-keystore", str(key), "-keypass", PASSWORD)
    keytool("-exportcert", "-alias", name, "-keystore", str(key), "-file", str(certificate))
    keytool(
        "-importcert",
        "-noprompt",
        "-alias",
        name,
        "-file",
        str(certificate),
        "-storetype",
        kind,
        "-keystore",
        str(trust),
    )


@pytest.fixture(scope="module", params=["JKS", "PKCS12"])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Client options for an Apache Kafka node that requires client certificates."""
    if reason := apache_kafka.missing():
        pytest.skip(f"Apache Kafka: {reason}")
    folder, kind = tmp_path_factory.mktemp("tls"), request.param
    for name in ("broker", "client"):
        stores(folder, name, kind)
    port = free_port(in_a_row=2)
    command = kafka_jars.prepare_node(folder / "node", port)
    with (folder / "node" / "server.properties").open("a") as properties:
        # The last value of a property applies.
        properties.write(
            f"listeners=SSL://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}\n"
            f"advertised.listeners=SSL://localhost:{port}\n"
            "listener.security.protocol.map=SSL:SSL,CONTROLLER:PLAINTEXT\n"
            "inter.broker.listener.name=SSL\n"
            "ssl.client.auth=required\n"
            f"ssl.keystore.type={kind}\nssl.truststore.type={kind}\n"
            f"ssl.keystore.location={folder}/broker.{kind}\n"
            f"ssl.truststore.location={folder}/both-trust.{kind}\n"
            f"ssl.keystore.password={PASSWORD}\nssl.key.password={PASSWORD}\nssl.truststore.password={PASSWORD}\n"
        )
    for name in ("broker", "client"):
        both = str(folder / f"both-trust.{kind}")
        keytool(
            "-importcert",
            "-noprompt",
            "-alias",
            name,
            "-file",
            str(folder / f"{name}.der"),
            "-storetype",
            kind,
            "-keystore",
            both,
        )
    with server(command, port, folder / "out.txt"):
        yield {
            "bootstrap_servers": f"localhost:{port}",
            "security_protocol": "SSL",
            "ssl_truststore_location": f"{folder}/broker-trust.{kind}",
            "ssl_truststore_type": kind,
            "ssl_truststore_password": PASSWORD,
            "ssl_keystore_location": f"{folder}/client.{kind}",
            "ssl_keystore_type": kind,
            "ssl_keystore_password": PASSWORD,
        }


def test_records_are_sent_and_read_with_mutual_tls(secured: dict[str, Any]) -> None:
    with KafkaAdminClient(**secured) as admin:
        admin.create_topics([NewTopic("t", 1, 1)])
    with KafkaProducer(**secured) as producer:
        for i in range(1000):
            producer.send("t", b"%d" % i * 100)
        producer.flush(60)
    result = []
    with KafkaConsumer("t", **secured, group_id="g", auto_offset_reset="earliest") as consumer:
        for _ in range(100):
            result += [record.value for rows in consumer.poll(500).values() for record in rows]
            if len(result) == 1000:
                break
    assert result == [b"%d" % i * 100 for i in range(1000)]


def test_client_without_a_certificate_is_rejected_at_once(secured: dict[str, Any]) -> None:
    without_certificate = {key: value for key, value in secured.items() if "keystore" not in key}
    with KafkaProducer(**without_certificate, max_block_ms=60_000) as producer:
        with pytest.raises(SslAuthenticationError, match="CERTIFICATE"):
            producer.send("t", b"v")


def test_client_does_not_connect_to_an_untrusted_broker(secured: dict[str, Any]) -> None:
    with KafkaProducer(**{**secured, "ssl_truststore_location": secured["ssl_keystore_location"]}) as producer:
        with pytest.raises(SslAuthenticationError, match=r"ssl\.truststore\.location"):
            producer.send("t", b"v")
