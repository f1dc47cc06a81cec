"""Connection mistakes: servers and client configs that do not match."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from tests.unit.net.certificates import DAY, authority, signed

from ottla import Broker

CA, OTHER_CA = authority(), authority("other")
SETUP_MS = 500
"""The clients' timeout for establishing a connection."""
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="right" user_ann="right";'
)
SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "connection.failed.authentication.delay.ms": 100,
}
ANN: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "ann",
    "sasl_plain_password": "right",
}
TRUSTING: dict[str, Any] = {
    "security_protocol": "SSL",
    "ssl_truststore_type": "PEM",
    "ssl_truststore_certificates": CA.pem,
}


def tls(name: str = "localhost", valid: Any = 30 * DAY, **more: Any) -> dict[str, Any]:
    """Return the configs of a broker with a certificate for this name."""
    server = signed(CA, name, valid)
    return {
        "listeners": "SSL://localhost:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": server.key_pem(),
        "ssl.keystore.certificate.chain": server.pem,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CA.pem,
        **more,
    }


Server = Callable[[], contextlib.AbstractContextManager[str]]


class Mistake(NamedTuple):
    """A server, the configs of the client, and whether a retry may help."""

    server: Server
    configs: dict[str, Any]
    retriable: bool


def broker(configs: dict[str, Any]) -> Server:
    @contextlib.contextmanager
    def start() -> Iterator[str]:
        with Broker(configs) as running:
            yield running.bootstrap_servers

    return start


@contextlib.contextmanager
def closed_port() -> Iterator[str]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{sock.getsockname()[1]}"


@contextlib.contextmanager
def unknown_name() -> Iterator[str]:
    """A name that is not resolved; the machine's own resolver may take longer than the client waits."""
    look_up = socket.getaddrinfo

    def resolve(host: Any, *args: Any, **options: Any) -> Any:
        if host in ("broker.invalid", b"broker.invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return look_up(host, *args, **options)

    with mock.patch("socket.getaddrinfo", resolve):
        yield "broker.invalid:9092"


@contextlib.contextmanager
def dropping() -> Iterator[str]:
    """An address that drops packets: a listener whose backlog is full."""
    with socket.socket() as sock, contextlib.ExitStack() as stack:
        sock.bind(("127.0.0.1", 0))
        sock.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(sock.getsockname())
        yield f"127.0.0.1:{sock.getsockname()[1]}"


@contextlib.contextmanager
def _serving(handler: type[socketserver.BaseRequestHandler]) -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class _Closing(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        pass


class _Http(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.recv(65536)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


class _Silent(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while self.request.recv(65536):
            pass


class _Ssh(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.sendall(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")
        self.request.recv(1)


def silent() -> contextlib.AbstractContextManager[str]:
    """A server that accepts connections and never responds."""
    return _serving(_Silent)


MISTAKES: dict[str, Mistake] = {
    "nothing listens on the port": Mistake(closed_port, {}, True),
    "the host name does not exist": Mistake(unknown_name, {}, True),
    "a firewall drops the packets": Mistake(dropping, {}, True),
    "the server closes connections at once": Mistake(lambda: _serving(_Closing), {}, True),
    "an HTTP server": Mistake(lambda: _serving(_Http), {}, True),
    "an SSH server": Mistake(lambda: _serving(_Ssh), {}, True),
    "plaintext client, TLS listener": Mistake(broker(tls()), {}, False),
    "TLS client, plaintext listener": Mistake(broker({}), TRUSTING, True),
    "TLS client, HTTP server": Mistake(lambda: _serving(_Http), TRUSTING, False),
    "plaintext client, SASL listener": Mistake(broker(SASL), {}, True),
    "SASL client, plaintext listener": Mistake(broker({}), ANN, False),
    "wrong SASL mechanism": Mistake(broker(SASL), {**ANN, "sasl_mechanism": "SCRAM-SHA-256"}, False),
    "wrong password": Mistake(broker(SASL), {**ANN, "sasl_plain_password": "wrong"}, False),
    "unknown CA": Mistake(broker(tls()), {**TRUSTING, "ssl_truststore_certificates": OTHER_CA.pem}, False),
    "certificate of another host": Mistake(broker(tls("kafka.example.com")), TRUSTING, False),
    "expired certificate": Mistake(broker(tls(valid=-DAY)), TRUSTING, False),
    "the broker requires a client certificate": Mistake(
        broker(tls(**{"ssl.client.auth": "required"})), TRUSTING, False
    ),
}


def properties(configs: dict[str, Any], directory: Path) -> str:
    """Write a properties file for a tool, and return its path."""
    file = directory / "client.properties"
    lines = []
    for key, value in configs.items():
        name = {"sasl_plain_username": "sasl.plain.username", "sasl_plain_password": "sasl.plain.password"}.get(key)
        text = str(value).replace("\n", "\\n")
        lines.append(f"{name or key.replace('_', '.')}={text}")
    file.write_text("\n".join(lines))
    return str(file)
