"""Certificates of listeners, replaced while the broker runs."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("cryptography")

from cryptography import x509
from tests.unit.net.certificates import Certified, authority, signed

from ottla import ConfigResource, ConfigResourceType, KafkaAdminClient, KafkaProducer
from ottla.broker.embedded import Broker
from ottla.broker.security import certificates
from ottla.config.broker.broker_config import BrokerConfig
from ottla.errors import ConfigurationError, InvalidConfigError, InvalidRequestError, SslAuthenticationError
from ottla.net.server import listener_ssl

CA = authority()
STORE = "listener.name.ssl.ssl.keystore"
TRUSTING: dict[str, Any] = {
    "security_protocol": "SSL",
    "ssl_truststore_type": "PEM",
    "ssl_truststore_certificates": CA.pem,
}


def write_pem(path: Path, identity: Certified) -> None:
    path.write_text(identity.key_pem() + identity.pem)


class Node:
    """A broker with a TLS listener, and a plaintext one to change its configs."""

    def __init__(self, folder: Path, **more: str) -> None:
        self.folder = folder
        self.key = folder / "server.pem"
        self.first = signed(CA, "localhost")
        write_pem(self.key, self.first)
        self.broker = Broker(
            {
                "listeners": "SSL://localhost:0,PLAINTEXT://localhost:0",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.key),
                "log.dirs": str(folder / "data"),
                **{name.replace("_", "."): value for name, value in more.items()},
            }
        )

    def address(self, listener: str) -> tuple[str, int]:
        assert self.broker._node is not None
        return next(("localhost", e.port) for e in self.broker._node.endpoints if e.name == listener)

    def served_certificate(self) -> x509.Certificate:
        """Return the certificate that the broker presents to a new connection."""
        return x509.load_pem_x509_certificate(ssl.get_server_certificate(self.address("SSL")).encode())

    def options(self, listener: str) -> dict[str, Any]:
        host, port = self.address(listener)
        return {"bootstrap_servers": f"{host}:{port}"}

    def alter(self, options: dict[str, str | None], name: str = "0") -> None:
        with KafkaAdminClient(**self.options("PLAINTEXT")) as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.BROKER, name, options)])

    def described(self) -> dict[str, Any]:
        with KafkaAdminClient(**self.options("PLAINTEXT")) as admin:
            (actual,) = admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "0")]).values()
            return dict(actual)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    created = Node(tmp_path)
    with created.broker:
        yield created


def test_setting_the_same_keystore_file_reloads_it(node: Node) -> None:
    second, third = signed(CA, "localhost"), signed(CA, "localhost")
    assert node.served_certificate() == node.first.certificate
    with KafkaProducer(**node.options("SSL"), **TRUSTING) as producer:
        producer.send("t", b"before").get(20)
        write_pem(node.key, second)
        node.alter({f"{STORE}.location": str(node.key)})
        assert node.served_certificate() == second.certificate
        write_pem(node.key, third)
        assert node.served_certificate() == second.certificate, "the broker does not watch the file"
        node.alter({f"{STORE}.location": str(node.key)})
        assert node.served_certificate() == third.certificate
        producer.send("t", b"after").get(20)


def test_dynamic_keystore_is_used_after_a_restart_until_it_is_deleted(tmp_path: Path) -> None:
    node, second = Node(tmp_path), signed(CA, "localhost")
    other = tmp_path / "other.pem"
    write_pem(other, second)
    with node.broker:
        node.alter({f"{STORE}.location": str(other)})
        assert node.served_certificate() == second.certificate
    restarted = Node(tmp_path)
    with restarted.broker:
        assert restarted.served_certificate() == second.certificate
        restarted.alter({f"{STORE}.location": None})
        assert restarted.served_certificate() == restarted.first.certificate


@pytest.mark.parametrize("content", [None, "nothing"])
def test_unusable_keystore_is_rejected_and_the_certificate_stays(node: Node, content: str | None) -> None:
    other = node.folder / "other.pem"
    if content is not None:
        other.write_text(content)
    with pytest.raises(InvalidConfigError, match=r"listener SSL: ssl\.keystore\.location: "):
        node.alter({f"{STORE}.location": str(other)})
    assert node.served_certificate() == node.first.certificate


def test_truststore_can_be_replaced(tmp_path: Path) -> None:
    clients = authority("clients")
    key = tmp_path / "client.pem"
    write_pem(key, signed(clients, "client"))
    node = Node(tmp_path, ssl_client_auth="required", ssl_truststore_type="PEM", ssl_truststore_certificates=CA.pem)
    client_options: dict[str, Any] = {**TRUSTING, "ssl_keystore_type": "PEM", "ssl_keystore_location": str(key)}
    with node.broker:
        with (
            KafkaProducer(**node.options("SSL"), **client_options) as producer,
            pytest.raises(SslAuthenticationError),
        ):
            producer.send("t", b"v").get(20)
        node.alter({"listener.name.ssl.ssl.truststore.certificates": clients.pem})
        with KafkaProducer(**node.options("SSL"), **client_options) as producer:
            producer.send("t", b"v").get(20)


def test_set_configs_are_described_except_passwords(node: Node) -> None:
    node.alter({f"{STORE}.location": str(node.key), "listener.name.ssl.ssl.truststore.password": "hush"})
    configs = node.described()
    assert configs[f"{STORE}.location"].value == str(node.key)
    assert configs["listener.name.ssl.ssl.truststore.password"].value is None


@pytest.mark.parametrize(
    ("name", "key", "message"),
    [
        ("", f"{STORE}.location", "default cluster level"),
        ("0", "ssl.keystore.location", "Cannot update these configs dynamically"),
        ("0", "listener.name.sls.ssl.keystore.location", "no such listener with TLS; there are: ssl"),
        ("0", "listener.name.plaintext.ssl.keystore.location", "no such listener with TLS; there are: ssl"),
    ],
)
def test_keystore_config_requires_a_tls_listener_of_one_broker(node: Node, name: str, key: str, message: str) -> None:
    with pytest.raises((InvalidRequestError, InvalidConfigError), match=message):
        node.alter({key: str(node.key)}, name)


def test_keystore_file_that_became_unusable_leaves_the_certificate_in_use(node: Node) -> None:
    node.alter({f"{STORE}.location": str(node.key)})
    node.key.write_text("nothing")
    with pytest.raises(InvalidConfigError):
        node.alter({f"{STORE}.location": str(node.key)})
    assert node.served_certificate() == node.first.certificate


def test_certificates_that_connections_to_other_brokers_cannot_use_are_not_used_by_the_listener_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ConfigurationError("listener SSL: the trust store is unusable")

    monkeypatch.setattr(listener_ssl, "client_options", fail)
    write_pem(tmp_path / "server.pem", signed(CA, "localhost"))
    stores = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "server.pem")}
    config = BrokerConfig(
        {
            "listeners": "SSL://localhost:0",
            "zookeeper.connect": "localhost:1",
            "inter.broker.listener.name": "SSL",
            "log.dirs": str(tmp_path),
            **stores,
        }
    )
    used: list[Any] = []
    peers: Any = SimpleNamespace(options="previous")
    listener: Any = SimpleNamespace(name="SSL", use=used.append)
    certificates.renew(config, [listener], peers)
    assert not used
    assert peers.options == "previous"
    assert "The previous ones stay in use" in caplog.text
