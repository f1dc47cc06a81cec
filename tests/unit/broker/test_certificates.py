"""Certificates of listeners, replaced while the broker runs."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography")

from cryptography import x509
from tests.unit.net.certificates import Certified, authority, signed

from ottla import ConfigResource, ConfigResourceType, KafkaAdminClient, KafkaProducer
from ottla.broker.embedded import Broker
from ottla.errors import InvalidConfigError, InvalidRequestError, SslAuthenticationError

CA = authority()
STORE = "listener.name.ssl.ssl.keystore"
TRUSTING: dict[str, Any] = {
    "security_protocol": "SSL",
    "ssl_truststore_type": "PEM",
    "ssl_truststore_certificates": CA.pem,
}


def put(path: Path, identity: Certified) -> None:
    path.write_text(identity.key_pem() + identity.pem)


class Node:
    """A broker with a TLS listener, and one without for its configuration."""

    def __init__(self, folder: Path, **more: str) -> None:
        self.folder = folder
        self.key = folder / "server.pem"
        self.first = signed(CA, "localhost")
        put(self.key, self.first)
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

    def shown(self) -> x509.Certificate:
        """The certificate that a new connection is shown."""
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
    made = Node(tmp_path)
    with made.broker:
        yield made


def test_setting_the_same_file_reloads_it(node: Node) -> None:
    second, third = signed(CA, "localhost"), signed(CA, "localhost")
    assert node.shown() == node.first.certificate
    with KafkaProducer(**node.options("SSL"), **TRUSTING) as producer:
        producer.send("t", b"before").get(20)
        put(node.key, second)
        node.alter({f"{STORE}.location": str(node.key)})
        assert node.shown() == second.certificate
        put(node.key, third)
        assert node.shown() == second.certificate, "the broker does not know of another one"
        node.alter({f"{STORE}.location": str(node.key)})
        assert node.shown() == third.certificate
        producer.send("t", b"after").get(20)


def test_certificates_stay_what_they_were_set_to(tmp_path: Path) -> None:
    node, second = Node(tmp_path), signed(CA, "localhost")
    other = tmp_path / "other.pem"
    put(other, second)
    with node.broker:
        node.alter({f"{STORE}.location": str(other)})
        assert node.shown() == second.certificate
    again = Node(tmp_path)
    with again.broker:
        assert again.shown() == second.certificate
        again.alter({f"{STORE}.location": None})
        assert again.shown() == again.first.certificate


@pytest.mark.parametrize("content", [None, "nothing"])
def test_what_cannot_be_used_is_refused_and_changes_nothing(node: Node, content: str | None) -> None:
    other = node.folder / "other.pem"
    if content is not None:
        other.write_text(content)
    with pytest.raises(InvalidConfigError, match=r"listener SSL: ssl\.keystore\.location: "):
        node.alter({f"{STORE}.location": str(other)})
    assert node.shown() == node.first.certificate


def test_trust_store_can_be_replaced(tmp_path: Path) -> None:
    clients = authority("clients")
    key = tmp_path / "client.pem"
    put(key, signed(clients, "client"))
    node = Node(tmp_path, ssl_client_auth="required", ssl_truststore_type="PEM", ssl_truststore_certificates=CA.pem)
    existing: dict[str, Any] = {**TRUSTING, "ssl_keystore_type": "PEM", "ssl_keystore_location": str(key)}
    with node.broker:
        with (
            KafkaProducer(**node.options("SSL"), **existing) as producer,
            pytest.raises(SslAuthenticationError),
        ):
            producer.send("t", b"v").get(20)
        node.alter({"listener.name.ssl.ssl.truststore.certificates": clients.pem})
        with KafkaProducer(**node.options("SSL"), **existing) as producer:
            producer.send("t", b"v").get(20)


def test_set_configs_are_described_except_passwords(node: Node) -> None:
    node.alter({f"{STORE}.location": str(node.key), "listener.name.ssl.ssl.truststore.password": "hush"})
    reported = node.described()
    assert reported[f"{STORE}.location"].value == str(node.key)
    assert reported["listener.name.ssl.ssl.truststore.password"].value is None


@pytest.mark.parametrize(
    ("name", "option", "message"),
    [
        ("", f"{STORE}.location", "default cluster level"),
        ("0", "ssl.keystore.location", "Cannot update these configs dynamically"),
        ("0", "listener.name.sls.ssl.keystore.location", "no such listener with TLS; there are: ssl"),
        ("0", "listener.name.plaintext.ssl.keystore.location", "no such listener with TLS; there are: ssl"),
    ],
)
def test_certificates_belong_to_a_listener_of_one_broker(node: Node, name: str, option: str, message: str) -> None:
    with pytest.raises((InvalidRequestError, InvalidConfigError), match=message):
        node.alter({option: str(node.key)}, name)


def test_a_file_that_has_become_unusable_leaves_what_was_in_use(node: Node) -> None:
    node.alter({f"{STORE}.location": str(node.key)})
    node.key.write_text("nothing")
    with pytest.raises(InvalidConfigError):
        node.alter({f"{STORE}.location": str(node.key)})
    assert node.shown() == node.first.certificate
