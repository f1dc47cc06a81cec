"""Malicious or broken clients: the broker stays up, its memory is bounded, and it serves the other clients."""

from __future__ import annotations

import contextlib
import random
import resource
import selectors
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.crash.process import BrokerProcess

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from ottla.broker.apis import SUPPORTED_APIS
from ottla.client.admin.topics.topics import NewTopic
from ottla.net.ports import free_port
from ottla.protocol.header import encode_request_header
from ottla.protocol.message import encode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

pytestmark = pytest.mark.slow

IDLE, SLOW = 2000, 200
MEGABYTE = 1024 * 1024
REQUEST_BYTES = 8 * MEGABYTE
QUEUED_BYTES = 16 * MEGABYTE
MAX_GROWTH_BYTES = 80 * MEGABYTE
"""Maximum memory of 2,000 idle and 600 hostile connections, including `QUEUED_BYTES`. (Measured: 50 MB.)"""
SERVED_SECONDS = 20.0
"""Time limit to send and read a record while all of them are connected; a tenth of it is usual on an idle machine."""
FALSE_LENGTHS = [struct.pack(">I", number) for number in (0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, 0x00FFFFFF)]
FETCH = FetchRequest(
    max_bytes=50 * MEGABYTE,
    max_wait_ms=0,
    topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=0, partition_max_bytes=50 * MEGABYTE)])],
)
FALSE_VARINTS = [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"]


@pytest.fixture(autouse=True)
def _many_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    options = {
        "socket_request_max_bytes": REQUEST_BYTES,
        "queued_max_request_bytes": QUEUED_BYTES,
        "socket_listen_backlog_size": 1024,
    }
    with BrokerProcess(tmp_path / "data", **options) as running:
        yield running
        assert running.stop() == 0


def memory(broker: BrokerProcess) -> int:
    """Return the resident memory of the broker in bytes."""
    pages = int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def send_and_read(broker: BrokerProcess, topic: str, value: bytes) -> float:
    """Send a record and read it, and return how many seconds that took."""
    began = time.monotonic()
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        offset = producer.send(topic, value, partition=0).get(SERVED_SECONDS).offset
    with KafkaConsumer(bootstrap_servers=broker.bootstrap) as consumer:
        tp = TopicPartition(topic, 0)
        consumer.assign([tp])
        consumer.seek(tp, offset)
        result: list[Any] = []
        while not result and time.monotonic() < began + SERVED_SECONDS:
            result = [record.value for records in consumer.poll(1000).values() for record in records]
    assert result == [value]
    return time.monotonic() - began


def create(broker: BrokerProcess, topic: str) -> None:
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])


def connect(broker: BrokerProcess, *, receive_bytes: int | None = None) -> socket.socket:
    sock = socket.socket()
    if receive_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    sock.settimeout(SERVED_SECONDS)
    sock.connect(("127.0.0.1", broker.port))
    return sock


def framed(request: Any, version: int) -> bytes:
    body = bytearray()
    encode_request_header(body, request.API_KEY, version, 1, "hostile")
    encode(request, version, body)
    return struct.pack(">i", len(body)) + bytes(body)


def test_thousands_of_idle_slow_and_incomplete_clients_do_not_delay_others(broker: BrokerProcess) -> None:
    create(broker, "t")
    with KafkaProducer(bootstrap_servers=broker.bootstrap, max_request_size=4 * MEGABYTE) as producer:
        for _ in range(20):
            producer.send("t", bytes(900_000), partition=0)
    send_and_read(broker, "t", b"before")
    before = memory(broker)
    with contextlib.ExitStack() as open_sockets:
        for _ in range(IDLE):
            open_sockets.enter_context(connect(broker))
        for _ in range(SLOW):  # they request 18 MB each, and do not read the response
            sock = open_sockets.enter_context(connect(broker, receive_bytes=4096))
            sock.sendall(framed(FETCH, 11))
        for _ in range(SLOW):  # they send the start of a request of the maximum size
            sock = open_sockets.enter_context(connect(broker))
            sock.sendall(struct.pack(">i", REQUEST_BYTES) + bytes(3))
        writers = [open_sockets.enter_context(connect(broker)) for _ in range(SLOW)]
        _push(writers, struct.pack(">i", REQUEST_BYTES) + bytes(REQUEST_BYTES // 2))
        took = send_and_read(broker, "t", b"during")
        grown = memory(broker) - before
        assert grown < MAX_GROWTH_BYTES, f"{grown / MEGABYTE:.0f} MB more"
        assert took < SERVED_SECONDS
    assert send_and_read(broker, "t", b"after") < SERVED_SECONDS


def _push(socks: list[socket.socket], data: bytes, seconds: float = 2.0) -> None:
    """Send as much of the data as the broker accepts, on all sockets concurrently."""
    views = {sock: memoryview(data) for sock in socks}
    with selectors.DefaultSelector() as selector:
        for sock in socks:
            sock.setblocking(False)
            selector.register(sock, selectors.EVENT_WRITE)
        deadline = time.monotonic() + seconds
        while views and time.monotonic() < deadline:
            for key, _ in selector.select(0.1):
                ready = key.fileobj
                assert isinstance(ready, socket.socket)
                try:
                    views[ready] = views[ready][ready.send(views[ready][:65536]) :]
                except BlockingIOError:
                    continue
                except OSError:
                    views[ready] = memoryview(b"")
                if not views[ready]:
                    selector.unregister(ready)
                    del views[ready]


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with a plaintext listener and a TLS listener, whose port is `secure_port`."""
    certificates = pytest.importorskip("tests.unit.net.certificates", reason="cryptography is missing")
    key = tmp_path / "server.pem"
    made = certificates.signed(certificates.authority(), "localhost")
    key.write_text(made.key_pem() + made.pem)
    broker = BrokerProcess(
        tmp_path / "data",
        ssl_keystore_type="PEM",
        ssl_keystore_location=key,
        socket_listen_backlog_size=1024,
    )
    broker.secure_port = free_port()  # type: ignore[attr-defined]
    broker.options["listeners"] = f"PLAINTEXT://{broker.bootstrap},SSL://127.0.0.1:{broker.secure_port}"  # type: ignore[attr-defined]
    with broker as running:
        yield running
        assert running.stop() == 0


def test_incomplete_tls_handshakes_random_bytes_and_slow_readers_do_not_delay_others(secured: BrokerProcess) -> None:
    create(secured, "t")
    with KafkaProducer(bootstrap_servers=secured.bootstrap) as producer:
        for _ in range(20):
            producer.send("t", bytes(900_000), partition=0)
    send_and_read(secured, "t", b"before")
    before = memory(secured)
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    hello = _hello(trusting)
    with contextlib.ExitStack() as open_sockets:

        def secure_connection(**how: int) -> socket.socket:
            sock = socket.socket()
            for option, value in how.items():
                sock.setsockopt(socket.SOL_SOCKET, getattr(socket, option), value)
            sock.settimeout(SERVED_SECONDS)
            sock.connect(("127.0.0.1", secured.secure_port))  # type: ignore[attr-defined]
            return open_sockets.enter_context(sock)

        for _ in range(IDLE // 2):
            secure_connection()
        for cut in range(1, len(hello)):  # they send the start of a handshake
            secure_connection().sendall(hello[:cut])
        for _ in range(SLOW):  # they send random bytes after the ClientHello
            secure_connection().sendall(hello + random.randbytes(1000))
        for _ in range(SLOW // 2):  # they request 18 MB each, and do not read the response
            sock = trusting.wrap_socket(secure_connection(SO_RCVBUF=4096))
            open_sockets.enter_context(sock)
            sock.sendall(framed(FETCH, 11))
        took = send_and_read(secured, "t", b"during")
        grown = memory(secured) - before
        assert grown < MAX_GROWTH_BYTES, f"{grown / MEGABYTE:.0f} MB more"
        assert took < SERVED_SECONDS
    assert send_and_read(secured, "t", b"after") < SERVED_SECONDS


def _hello(context: ssl.SSLContext) -> bytes:
    """Return the ClientHello of a TLS client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


def test_requests_with_false_lengths_do_not_harm_the_broker(broker: BrokerProcess) -> None:
    create(broker, "t")
    send_and_read(broker, "t", b"before")
    before = memory(broker)
    tried = 0
    for row in SUPPORTED_APIS:
        versions = row.api.request.VERSIONS
        for version in {versions[0], versions[-1]}:
            frame = framed(row.api.request(), version)
            with contextlib.ExitStack() as open_sockets:
                for malformed in _malformed_frames(frame):
                    sock = open_sockets.enter_context(connect(broker))
                    sock.sendall(malformed)
                    tried += 1
    assert tried > 2000
    assert send_and_read(broker, "t", b"after") < SERVED_SECONDS
    assert memory(broker) - before < MAX_GROWTH_BYTES


def _malformed_frames(frame: bytes) -> Iterator[bytes]:
    """Yield the request with a false number at every position, except for the length of the frame, which is correct."""
    body = frame[4:]
    for at in range(8, len(body)):
        for number in (FALSE_LENGTHS[at % len(FALSE_LENGTHS)], FALSE_VARINTS[at % len(FALSE_VARINTS)]):
            malformed = body[:at] + number + body[at + len(number) :]
            yield struct.pack(">i", len(malformed)) + malformed
