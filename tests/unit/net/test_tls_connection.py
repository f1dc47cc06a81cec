"""TLS on a listener: frames and responses, handshakes, and principals of client certificates."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography")

from tests.unit.net.certificates import Certified, authority, signed
from tests.unit.net.echo_server import (
    Handle,
    Server,
    Slice,
    echo,
    frame,
    read_response,
    run,
    send_a_file_from_a_stopped_disk,
    until,
)
from tests.unit.slow_disk import SlowDisk

from ottla.config.broker.principal_rules import principal_rules
from ottla.config.tls import TlsConfig
from ottla.latency import LatencyHistogram
from ottla.net.server.connection import USER, Connection, Reply
from ottla.net.server.tls_connection import RECORD_BYTES, TlsConnection, TlsSettings, failure_text
from ottla.security.tls.contexts import server_context

CA = authority()
SERVER = signed(CA, "localhost")
CLIENT = signed(CA, "client")
LOGGER = "ottla.net"


def server_ssl_context(client_auth: str = "none", **options: str) -> ssl.SSLContext:
    configs = {"ssl.keystore.key": SERVER.key_pem(), "ssl.keystore.certificate.chain": SERVER.pem}
    configs |= {"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM", "ssl.truststore.certificates": CA.pem}
    return server_context(TlsConfig({**configs, **options}), client_auth)


class SecureServer(Server):
    """A listener that speaks TLS, on a free port of the running loop."""

    def __init__(
        self, handle: Handle, context: ssl.SSLContext | None = None, rules: str = "DEFAULT", **more: Any
    ) -> None:
        security = TlsSettings(context or server_ssl_context(), principal_rules(rules))
        super().__init__(handle, connection=partial(TlsConnection, security=security), **more)

    async def connect(
        self, certificate: Certified | None = None, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(
            "127.0.0.1", self.port, limit=1 << 26, ssl=client_context(certificate, newest), server_hostname="localhost"
        )


def client_context(
    certificate: Certified | None = None, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=CA.pem)
    context.maximum_version = newest
    if certificate is not None:
        descriptor = os.memfd_create("key")
        os.write(descriptor, (certificate.key_pem() + certificate.pem).encode())
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        os.close(descriptor)
    return context


# Frames


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("size", [0, 1, RECORD_BYTES - 4, RECORD_BYTES, 65_533, 5_000_000])
def test_frames_of_any_size_arrive_whole(size: int, newest: ssl.TLSVersion) -> None:
    async def test() -> None:
        async with SecureServer(echo) as server:
            reader, writer = await server.connect(newest=newest)
            body = os.urandom(size)
            writer.write(frame(body) + frame(b"next"))
            assert await read_response(reader) == body
            assert await read_response(reader) == b"next"
            writer.close()

    run(test)


def test_frame_of_many_tls_records_is_reassembled() -> None:
    async def test() -> None:
        async with SecureServer(echo) as server:
            reader, writer = await server.connect()
            for byte in frame(b"slowly"):
                writer.write(bytes([byte]))  # asyncio makes a record of each
                await writer.drain()
            assert await read_response(reader) == b"slowly"
            writer.close()

    run(test)


@pytest.mark.parametrize("pause", [0, 0.01])
def test_requests_buffered_by_openssl_are_handled_after_the_previous_response(pause: float) -> None:
    async def test() -> None:
        async def later(body: bytes) -> Reply:
            await asyncio.sleep(pause)
            return [frame(body)]

        async with SecureServer(lambda body, connection: later(bytes(body))) as server:
            reader, writer = await server.connect()
            # One record: after the first of them the socket has no more data.
            writer.write(b"".join(frame(bytes([i]) * 200) for i in range(50)))
            assert [await read_response(reader) for _ in range(50)] == [bytes([i]) * 200 for i in range(50)]
            writer.close()

    run(test)


def test_request_larger_than_the_memory_pool_waits_and_continues() -> None:
    async def test() -> None:
        async with SecureServer(lambda body, connection: [frame(bytes(body[:4]))], memory_bytes=1) as server:
            peers = [await server.connect() for _ in range(5)]
            for i, (_, writer) in enumerate(peers):
                writer.write(frame(b"%04d" % i + bytes(500_000)))
            assert [await read_response(reader) for reader, _ in peers] == [b"%04d" % i for i in range(5)]
            await until(lambda: server.memory.used == 0)
            for _, writer in peers:
                writer.close()

    run(test)


class ManualTlsPeer:
    """A TLS peer whose bytes the test sends piece by piece."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = client_context().wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        await self._until(self._tls.do_handshake)
        await self.send(self._outgoing.read())

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self, count: int) -> bytes:
        return bytes(await self._until(lambda: self._tls.read(count)))

    def encrypted(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._outgoing.read()

    def close(self) -> None:
        self._writer.close()

    async def _until(self, done: Callable[[], Any]) -> Any:
        while True:
            try:
                return done()
            except ssl.SSLWantReadError:
                await self.send(self._outgoing.read())
                self._incoming.write(await self._reader.read(65536))


@pytest.mark.parametrize("cut", [1, 5, 6, 100])
def test_partial_tls_record_holds_no_buffer(cut: int) -> None:
    async def test() -> None:
        async with SecureServer(echo) as server:
            peer = ManualTlsPeer(server.port)
            await peer.connect()
            await until(lambda: any(c._reading for c in server.listener.connections))
            record = peer.encrypted(frame(b"x" * 200))
            await peer.send(record[:cut])
            await asyncio.sleep(0.02)  # there is no event to wait for: the record is incomplete
            (connection,) = server.listener.connections
            assert connection.held_bytes == 0
            await peer.send(record[cut:])
            assert await peer.receive(300) == frame(b"x" * 200)
            peer.close()

    run(test)


# Responses


def test_file_ranges_are_sent_between_buffers_and_released_once(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "log").write_bytes(content)
    pieces = [Slice(tmp_path / "log", 100, 2_000_000), Slice(tmp_path / "log", 0, 0), Slice(tmp_path / "log", 5, 10)]

    async def test() -> None:
        def handle(body: memoryview, connection: Connection) -> Reply:
            size = 4 + sum(p.nbytes for p in pieces)
            return [struct.pack(">i", size), b"he", pieces[0], b"ll", pieces[1], pieces[2]]

        async with SecureServer(handle) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"?"))
            assert await read_response(reader) == b"he" + content[100:2_000_100] + b"ll" + content[5:15]
            writer.close()

    run(test)
    assert [p.released for p in pieces] == [1, 1, 1]


def test_slow_reader_gets_every_byte_without_delaying_others(tmp_path: Path) -> None:
    content = os.urandom(8_000_000)
    (tmp_path / "log").write_bytes(content)

    async def test() -> None:
        piece = Slice(tmp_path / "log", 0, len(content))

        def handle(body: memoryview, connection: Connection) -> Reply:
            return [struct.pack(">i", len(content)), piece] if bytes(body) == b"all" else [frame(b"small")]

        async with SecureServer(handle) as server:
            slow_reader, slow = await server.connect()
            slow.transport.pause_reading()  # type: ignore[attr-defined]
            slow.write(frame(b"all") + frame(b"next"))
            await until(lambda: any(c._writing for c in server.listener.connections))
            (connection,) = server.listener.connections
            times = connection.send_times = LatencyHistogram()
            reader, writer = await server.connect()
            for _ in range(20):
                writer.write(frame(b"x"))
                assert await read_response(reader) == b"small"
            slow.transport.resume_reading()  # type: ignore[attr-defined]
            assert await read_response(slow_reader) == content
            assert await read_response(slow_reader) == b"small"
            slow.close()
            writer.close()
        assert piece.released == 1
        assert times.snapshot(0).count == 1
        assert times.snapshot(0).seconds > 0

    run(test)


def test_peer_that_disconnects_during_its_response_releases_the_file(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(bytes(8_000_000))

    async def test() -> None:
        piece = Slice(tmp_path / "log", 0, 8_000_000)
        async with SecureServer(lambda body, connection: [struct.pack(">i", 8_000_000), piece]) as server:
            _, writer = await server.connect()
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(frame(b"?"))
            await until(lambda: any(c._writing for c in server.listener.connections))
            writer.transport.abort()
            await until(lambda: not server.listener.connections)
        assert piece.released == 1

    run(test)


class WantingOppositeSocket(ssl.SSLSocket):
    """A socket that wants the other direction on every other call, and checks what is repeated."""

    turn = 0
    retried: bytes | None = None
    wants: type[ssl.SSLError] = ssl.SSLWantReadError

    def send(self, data: Any, flags: int = 0) -> int:
        expected, self.retried = self.retried, None
        assert expected is None or bytes(data) == expected, "a write was retried with other bytes"
        self.turn += 1
        if self.turn % 2:
            self.retried = bytes(data)
            raise self.wants()
        return super().send(data[: len(data) // 2 + 1], flags)

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        self.turn += 1
        if self.turn % 2:
            raise ssl.SSLWantWriteError()
        return super().recv_into(buffer, nbytes, flags)


@pytest.mark.parametrize("wants", [ssl.SSLWantReadError, ssl.SSLWantWriteError])
def test_write_may_want_read_and_read_may_want_write(wants: type[ssl.SSLError]) -> None:
    async def test() -> None:
        context = server_ssl_context()
        context.sslsocket_class = type("Wanting", (WantingOppositeSocket,), {"wants": wants})
        async with SecureServer(lambda body, connection: [frame(bytes(body) * 3)], context) as server:
            reader, writer = await server.connect()
            body = os.urandom(300_000)
            writer.write(frame(body))
            answered = asyncio.ensure_future(read_response(reader))
            while not answered.done():
                writer.write(frame(b""))  # so that there is always something to be read
                await asyncio.sleep(0)
            assert answered.result() == body * 3
            writer.close()

    run(test)


class WantWriteAfterReadSocket(ssl.SSLSocket):
    """A socket that reads data, and wants to write before it returns the data."""

    held = b""

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        if not self.held:
            n = super().recv_into(buffer, nbytes, flags)
            self.held = bytes(buffer[:n])
            raise ssl.SSLWantWriteError()
        n, buffer[: len(self.held)] = len(self.held), self.held
        self.held = b""
        return n


def test_data_read_before_want_write_is_handled_at_once() -> None:
    async def test() -> None:
        context = server_ssl_context()
        context.sslsocket_class = WantWriteAfterReadSocket
        async with SecureServer(echo, context) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"all that comes"))
            assert await read_response(reader) == b"all that comes"
            writer.close()

    run(test)


# Handshakes


def test_stalled_handshake_is_closed(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("ottla.net.server.tls_connection.HANDSHAKE_SECONDS", 0.05)

    async def test() -> None:
        async with SecureServer(echo) as server:
            silent = await asyncio.open_connection("127.0.0.1", server.port)
            half = await asyncio.open_connection("127.0.0.1", server.port)
            half[1].write(client_hello()[:50])
            for reader, writer in (silent, half):
                await reader.read()
                writer.close()
            await until(lambda: not server.listener.connections)

    with caplog.at_level(logging.WARNING, LOGGER):
        run(test)
    assert sum("no TLS handshake on listener TEST within" in r.getMessage() for r in caplog.records) == 2


def test_handshake_of_a_client_that_has_disconnected_is_not_logged_as_stalled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ottla.net.server.tls_connection.HANDSHAKE_SECONDS", 0.05)

    def not_connected(*_: object, **__: object) -> None:
        raise OSError(errno.ENOTCONN, "not connected")

    async def test() -> None:
        context = server_ssl_context()
        monkeypatch.setattr(context, "wrap_socket", not_connected)
        async with SecureServer(echo, context) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(client_hello()[:50])
            with contextlib.suppress(ConnectionResetError):
                await reader.read()
            writer.close()
            await asyncio.sleep(0.1)

    with caplog.at_level(logging.WARNING, LOGGER):
        run(test)
    assert caplog.messages == []


def test_connection_with_completed_handshake_is_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.net.server.tls_connection.HANDSHAKE_SECONDS", 0.2)

    async def test() -> None:
        async with SecureServer(echo) as server:
            reader, writer = await server.connect()
            await asyncio.sleep(0.3)
            writer.write(frame(b"still here"))
            assert await read_response(reader) == b"still here"
            writer.close()

    run(test)


def client_hello() -> bytes:
    """Return a TLS ClientHello."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        client_context().wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (frame(b"\0\x12\0\0\0\0\0\1"), "does not use TLS, but listener TEST does"),
        (b"GET / HTTP/1.1\r\n\r\n", "does not use TLS, but listener TEST does"),
        (b"\x16" + b"\xff" * 300, "TLS handshake on listener TEST failed"),
        (client_hello()[:60] + os.urandom(4000), "TLS handshake on listener TEST failed"),
    ],
    ids=["Kafka", "HTTP", "noise", "damaged"],
)
def test_data_other_than_tls_is_logged_and_disconnected(
    data: bytes, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with SecureServer(echo) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(data)
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
            await until(lambda: not server.listener.connections)

    with caplog.at_level(logging.INFO, LOGGER):
        run(test)
    assert any(line in record.getMessage() for record in caplog.records)


def test_tls_on_a_plaintext_listener_is_logged_and_disconnected(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with Server(echo) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(client_hello())
            assert await reader.read() == b""
            writer.close()

    with caplog.at_level(logging.WARNING, LOGGER):
        run(test)
    assert "it uses TLS, but listener TEST does not" in caplog.text


def test_peers_that_disconnect_before_or_during_the_handshake_are_removed() -> None:
    async def test() -> None:
        async with SecureServer(echo) as server:
            for data in (b"", b"\x16", client_hello()):
                sock = socket.create_connection(("127.0.0.1", server.port))
                sock.sendall(data)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
                sock.close()
            reader, writer = await server.connect()
            writer.write(frame(b"in"))
            assert await read_response(reader) == b"in"
            await until(lambda: len(server.listener.connections) == 1)
            assert server.admission.count == 1
            writer.close()

    run(test)


# Principals


def respond_with_principal(body: memoryview, connection: Connection) -> Reply:
    return [frame(str(connection.state.get(USER)).encode())]


@pytest.mark.parametrize(
    ("client_auth", "certificate", "expected"),
    [
        ("none", CLIENT, "None"),
        ("requested", None, "None"),
        ("requested", CLIENT, "CN=client"),
        ("required", CLIENT, "CN=client"),
    ],
)
def test_principal_is_the_subject_of_the_client_certificate(
    client_auth: str, certificate: Certified | None, expected: str
) -> None:
    async def test() -> None:
        async with SecureServer(respond_with_principal, server_ssl_context(client_auth)) as server:
            reader, writer = await server.connect(certificate)
            writer.write(frame(b"?"))
            assert await read_response(reader) == expected.encode()
            writer.close()

    run(test)


def test_certificate_in_the_trust_store_is_trusted_without_its_issuer() -> None:
    async def test() -> None:
        context = server_ssl_context("required", **{"ssl.truststore.certificates": CLIENT.pem})
        async with SecureServer(respond_with_principal, context) as server:
            reader, writer = await server.connect(CLIENT)
            writer.write(frame(b"?"))
            assert await read_response(reader) == b"CN=client"
            writer.close()

    run(test)


def test_principal_mapping_rules_are_applied() -> None:
    async def test() -> None:
        async with SecureServer(
            respond_with_principal, server_ssl_context("required"), "RULE:^CN=(.*)$/$1@here/U"
        ) as server:
            reader, writer = await server.connect(CLIENT)
            writer.write(frame(b"?"))
            assert await read_response(reader) == b"CLIENT@HERE"
            writer.close()

    run(test)


@pytest.mark.parametrize(
    ("certificate", "rules", "line"),
    [
        (None, "DEFAULT", "peer did not return a certificate"),
        (signed(authority("else"), "x"), "DEFAULT", "its certificate was rejected"),
        (CLIENT, "RULE:^CN=other$/x/", "no rule of ssl.principal.mapping.rules matches CN=client"),
    ],
    ids=["anonymous", "stranger", "no rule"],
)
def test_client_without_valid_certificate_or_principal_is_rejected(
    certificate: Certified | None, rules: str, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with SecureServer(respond_with_principal, server_ssl_context("required"), rules) as server:
            reader, writer = await server.connect(certificate)  # with TLS 1.3 the client is notified afterwards
            writer.write(frame(b"?"))
            with contextlib.suppress(ssl.SSLError, ConnectionError):  # the first one has the reason
                assert await reader.read() == b""
            writer.close()

    with caplog.at_level(logging.WARNING, LOGGER):
        run(test)
    assert line in caplog.text


def test_connection_is_closed_with_close_notify() -> None:
    def receive_after_invalid_frame(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port)) as sock:
            # without close_notify this raises, as a third party may have cut the connection
            with client_context().wrap_socket(sock, server_hostname="localhost", suppress_ragged_eofs=False) as peer:
                peer.sendall(struct.pack(">i", -1))
                return peer.recv(1)

    async def test() -> None:
        async with SecureServer(echo) as server:
            assert await asyncio.to_thread(receive_after_invalid_frame, server.port) == b""

    run(test)


@pytest.mark.parametrize("leaves", [False, True])
def test_uncached_file_is_read_by_a_worker_without_delaying_others(
    tmp_path: Path, slow_disk: SlowDisk, leaves: bool
) -> None:
    run(lambda: send_a_file_from_a_stopped_disk(SecureServer, tmp_path, slow_disk, leaves=leaves))


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", "the client rejected this broker's certificate (certificate expired)"),
        ("TLSV1_ALERT_UNKNOWN_CA", "the client rejected this broker's certificate (unknown ca)"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "the client ended it (tlsv1 alert protocol version)"),
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "peer did not return a certificate"),
    ],
)
def test_failed_handshake_names_the_side_whose_certificate_is_rejected(reason: str, text: str) -> None:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    assert failure_text(error) == text
