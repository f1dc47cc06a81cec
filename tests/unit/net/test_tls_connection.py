"""TLS on a listener: the same frames and answers, whatever OpenSSL keeps, wants first, or takes in part."""

from __future__ import annotations

import asyncio
import contextlib
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
    answer,
    echo,
    frame,
    run,
    send_a_file_from_a_stopped_disk,
    until,
)
from tests.unit.slow_disk import SlowDisk

from ottla.config.principal_rules import principal_rules
from ottla.config.tls import TlsConfig
from ottla.latency import LatencyHistogram
from ottla.net.server.connection import USER, Connection, Reply
from ottla.net.server.tls_connection import RECORD_BYTES, TlsConnection, TlsSettings, failure_text
from ottla.security.tls.contexts import server_context

CA = authority()
SERVER = signed(CA, "localhost")
CLIENT = signed(CA, "client")
LINE = "ottla.net"


def serving(client_auth: str = "none", **options: str) -> ssl.SSLContext:
    configs = {"ssl.keystore.key": SERVER.key_pem(), "ssl.keystore.certificate.chain": SERVER.pem}
    configs |= {"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM", "ssl.truststore.certificates": CA.pem}
    return server_context(TlsConfig({**configs, **options}), client_auth)


class SecureServer(Server):
    """A listener that speaks TLS, on a free port of the running loop."""

    def __init__(
        self, handle: Handle, context: ssl.SSLContext | None = None, rules: str = "DEFAULT", **more: Any
    ) -> None:
        security = TlsSettings(context or serving(), principal_rules(rules))
        super().__init__(handle, connection=partial(TlsConnection, security=security), **more)

    async def connect(
        self, who: Certified | None = None, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(
            "127.0.0.1", self.port, limit=1 << 26, ssl=asking(who, newest), server_hostname="localhost"
        )


def asking(who: Certified | None = None, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=CA.pem)
    context.maximum_version = newest
    if who is not None:
        descriptor = os.memfd_create("key")
        os.write(descriptor, (who.key_pem() + who.pem).encode())
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
            assert await answer(reader) == body
            assert await answer(reader) == b"next"
            writer.close()

    run(test)


def test_a_frame_of_many_records_is_put_together() -> None:
    async def test() -> None:
        async with SecureServer(echo) as server:
            reader, writer = await server.connect()
            for byte in frame(b"slowly"):
                writer.write(bytes([byte]))  # asyncio makes a record of each
                await writer.drain()
            assert await answer(reader) == b"slowly"
            writer.close()

    run(test)


@pytest.mark.parametrize("pause", [0, 0.01])
def test_what_openssl_holds_already_is_worked_on_when_the_answer_before_is_there(pause: float) -> None:
    async def test() -> None:
        async def later(body: bytes) -> Reply:
            await asyncio.sleep(pause)
            return [frame(body)]

        async with SecureServer(lambda body, connection: later(bytes(body))) as server:
            reader, writer = await server.connect()
            # One record: after the first of them the socket has no more data.
            writer.write(b"".join(frame(bytes([i]) * 200) for i in range(50)))
            assert [await answer(reader) for _ in range(50)] == [bytes([i]) * 200 for i in range(50)]
            writer.close()

    run(test)


def test_a_record_larger_than_the_room_for_it_waits_for_memory_and_goes_on() -> None:
    async def test() -> None:
        async with SecureServer(lambda body, connection: [frame(bytes(body[:4]))], memory_bytes=1) as server:
            peers = [await server.connect() for _ in range(5)]
            for i, (_, writer) in enumerate(peers):
                writer.write(frame(b"%04d" % i + bytes(500_000)))
            assert [await answer(reader) for reader, _ in peers] == [b"%04d" % i for i in range(5)]
            await until(lambda: server.memory.used == 0)
            for _, writer in peers:
                writer.close()

    run(test)


class ByHand:
    """A peer whose bytes are sent one by one, as the test has it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._coming, self._going = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = asking().wrap_bio(self._coming, self._going, server_hostname="localhost")

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        await self._until(self._tls.do_handshake)
        await self.send(self._going.read())

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self, count: int) -> bytes:
        return bytes(await self._until(lambda: self._tls.read(count)))

    def encrypted(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._going.read()

    def close(self) -> None:
        self._writer.close()

    async def _until(self, done: Callable[[], Any]) -> Any:
        while True:
            try:
                return done()
            except ssl.SSLWantReadError:
                await self.send(self._going.read())
                self._coming.write(await self._reader.read(65536))


@pytest.mark.parametrize("cut", [1, 5, 6, 100])
def test_the_beginning_of_a_record_is_waited_with_and_holds_no_buffer(cut: int) -> None:
    async def test() -> None:
        async with SecureServer(echo) as server:
            peer = ByHand(server.port)
            await peer.connect()
            await until(lambda: any(c._reading for c in server.listener.connections))
            record = peer.encrypted(frame(b"x" * 200))
            await peer.send(record[:cut])
            await asyncio.sleep(0.02)  # there is no event: what has come is not yet anything
            (connection,) = server.listener.connections
            assert connection.held_bytes == 0
            await peer.send(record[cut:])
            assert await peer.receive(300) == frame(b"x" * 200)
            peer.close()

    run(test)


# Answers


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
            assert await answer(reader) == b"he" + content[100:2_000_100] + b"ll" + content[5:15]
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
                assert await answer(reader) == b"small"
            slow.transport.resume_reading()  # type: ignore[attr-defined]
            assert await answer(slow_reader) == content
            assert await answer(slow_reader) == b"small"
            slow.close()
            writer.close()
        assert piece.released == 1
        assert times.snapshot(0).count == 1
        assert times.snapshot(0).seconds > 0

    run(test)


def test_a_peer_that_goes_in_the_midst_of_its_answer_lets_go_of_the_file(tmp_path: Path) -> None:
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


class Contrary(ssl.SSLSocket):
    """Wants the other way first, every other time, and watches what is repeated."""

    turn = 0
    refused: bytes | None = None
    wants: type[ssl.SSLError] = ssl.SSLWantReadError

    def send(self, data: Any, flags: int = 0) -> int:
        again, self.refused = self.refused, None
        assert again is None or bytes(data) == again, "OpenSSL was offered other bytes than before"
        self.turn += 1
        if self.turn % 2:
            self.refused = bytes(data)
            raise self.wants()
        return super().send(data[: len(data) // 2 + 1], flags)

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        self.turn += 1
        if self.turn % 2:
            raise ssl.SSLWantWriteError()
        return super().recv_into(buffer, nbytes, flags)


@pytest.mark.parametrize("wants", [ssl.SSLWantReadError, ssl.SSLWantWriteError])
def test_writing_may_wait_for_reading_and_reading_for_writing(wants: type[ssl.SSLError]) -> None:
    async def test() -> None:
        context = serving()
        context.sslsocket_class = type("Wanting", (Contrary,), {"wants": wants})
        async with SecureServer(lambda body, connection: [frame(bytes(body) * 3)], context) as server:
            reader, writer = await server.connect()
            body = os.urandom(300_000)
            writer.write(frame(body))
            answered = asyncio.ensure_future(answer(reader))
            while not answered.done():
                writer.write(frame(b""))  # so that there is always something to be read
                await asyncio.sleep(0)
            assert answered.result() == body * 3
            writer.close()

    run(test)


class Hoarding(ssl.SSLSocket):
    """Takes what has come from the socket, and wants to write before it hands it out."""

    held = b""

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        if not self.held:
            n = super().recv_into(buffer, nbytes, flags)
            self.held = bytes(buffer[:n])
            raise ssl.SSLWantWriteError()
        n, buffer[: len(self.held)] = len(self.held), self.held
        self.held = b""
        return n


def test_what_was_read_before_writing_was_wanted_is_not_waited_for() -> None:
    async def test() -> None:
        context = serving()
        context.sslsocket_class = Hoarding
        async with SecureServer(echo, context) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"all that comes"))
            assert await answer(reader) == b"all that comes"
            writer.close()

    run(test)


# Handshakes


def test_a_peer_that_stalls_in_its_handshake_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ottla.net.server.tls_connection.HANDSHAKE_SECONDS", 0.05)

    async def test() -> None:
        async with SecureServer(echo) as server:
            silent = await asyncio.open_connection("127.0.0.1", server.port)
            half = await asyncio.open_connection("127.0.0.1", server.port)
            half[1].write(hello()[:50])
            for reader, writer in (silent, half):
                await reader.read()
                writer.close()
            await until(lambda: not server.listener.connections)

    with caplog.at_level(logging.WARNING, LINE):
        run(test)
    assert sum("no TLS handshake on listener TEST within" in r.getMessage() for r in caplog.records) == 2


def test_a_handshake_that_came_to_its_end_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.net.server.tls_connection.HANDSHAKE_SECONDS", 0.2)

    async def test() -> None:
        async with SecureServer(echo) as server:
            reader, writer = await server.connect()
            await asyncio.sleep(0.3)
            writer.write(frame(b"still here"))
            assert await answer(reader) == b"still here"
            writer.close()

    run(test)


def hello() -> bytes:
    """The first words of a client of TLS."""
    coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        asking().wrap_bio(coming, going, server_hostname="localhost").do_handshake()
    return going.read()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (frame(b"\0\x12\0\0\0\0\0\1"), "does not use TLS, but listener TEST does"),
        (b"GET / HTTP/1.1\r\n\r\n", "does not use TLS, but listener TEST does"),
        (b"\x16" + b"\xff" * 300, "TLS handshake on listener TEST failed"),
        (hello()[:60] + os.urandom(4000), "TLS handshake on listener TEST failed"),
    ],
    ids=["Kafka", "HTTP", "noise", "damaged"],
)
def test_what_is_not_tls_is_named_and_cut_off(words: bytes, line: str, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with SecureServer(echo) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(words)
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
            await until(lambda: not server.listener.connections)

    with caplog.at_level(logging.INFO, LINE):
        run(test)
    assert any(line in record.getMessage() for record in caplog.records)


def test_tls_on_a_listener_without_it_is_named_and_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with Server(echo) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(hello())
            assert await reader.read() == b""
            writer.close()

    with caplog.at_level(logging.WARNING, LINE):
        run(test)
    assert "it uses TLS, but listener TEST does not" in caplog.text


def test_peers_that_go_before_or_in_their_handshake_are_forgotten() -> None:
    async def test() -> None:
        async with SecureServer(echo) as server:
            for words in (b"", b"\x16", hello()):
                sock = socket.create_connection(("127.0.0.1", server.port))
                sock.sendall(words)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
                sock.close()
            reader, writer = await server.connect()
            writer.write(frame(b"in"))
            assert await answer(reader) == b"in"
            await until(lambda: len(server.listener.connections) == 1)
            assert server.admission.count == 1
            writer.close()

    run(test)


# Who it is


def named(body: memoryview, connection: Connection) -> Reply:
    return [frame(str(connection.state.get(USER)).encode())]


@pytest.mark.parametrize(
    ("client_auth", "who", "expected"),
    [
        ("none", CLIENT, "None"),
        ("requested", None, "None"),
        ("requested", CLIENT, "CN=client"),
        ("required", CLIENT, "CN=client"),
    ],
)
def test_a_client_is_called_by_its_certificate(client_auth: str, who: Certified | None, expected: str) -> None:
    async def test() -> None:
        async with SecureServer(named, serving(client_auth)) as server:
            reader, writer = await server.connect(who)
            writer.write(frame(b"?"))
            assert await answer(reader) == expected.encode()
            writer.close()

    run(test)


def test_a_certificate_in_the_trust_store_is_trusted_without_who_signed_it() -> None:
    async def test() -> None:
        only_it = serving("required", **{"ssl.truststore.certificates": CLIENT.pem})
        async with SecureServer(named, only_it) as server:
            reader, writer = await server.connect(CLIENT)
            writer.write(frame(b"?"))
            assert await answer(reader) == b"CN=client"
            writer.close()

    run(test)


def test_a_client_is_called_as_the_rules_have_it() -> None:
    async def test() -> None:
        async with SecureServer(named, serving("required"), "RULE:^CN=(.*)$/$1@here/U") as server:
            reader, writer = await server.connect(CLIENT)
            writer.write(frame(b"?"))
            assert await answer(reader) == b"CLIENT@HERE"
            writer.close()

    run(test)


@pytest.mark.parametrize(
    ("who", "rules", "line"),
    [
        (None, "DEFAULT", "peer did not return a certificate"),
        (signed(authority("else"), "x"), "DEFAULT", "its certificate was rejected"),
        (CLIENT, "RULE:^CN=other$/x/", "no rule of ssl.principal.mapping.rules matches CN=client"),
    ],
    ids=["anonymous", "stranger", "no rule"],
)
def test_unknown_user_is_rejected_and_disconnected(
    who: Certified | None, rules: str, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with SecureServer(named, serving("required"), rules) as server:
            reader, writer = await server.connect(who)  # with TLS 1.3 the client is notified afterwards
            writer.write(frame(b"?"))
            with contextlib.suppress(ssl.SSLError, ConnectionError):  # the first of them says why
                assert await reader.read() == b""
            writer.close()

    with caplog.at_level(logging.WARNING, LINE):
        run(test)
    assert line in caplog.text


def test_a_connection_ends_with_tls_saying_so() -> None:
    def talk(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port)) as sock:
            # without close_notify this raises, as a third party may have cut the connection
            with asking().wrap_socket(sock, server_hostname="localhost", suppress_ragged_eofs=False) as peer:
                peer.sendall(struct.pack(">i", -1))
                return peer.recv(1)

    async def test() -> None:
        async with SecureServer(echo) as server:
            assert await asyncio.to_thread(talk, server.port) == b""

    run(test)


@pytest.mark.parametrize("leaves", [False, True])
def test_file_that_is_not_cached_is_read_by_a_worker_beside_others(
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
def test_failed_handshake_says_whose_certificate_is_rejected(reason: str, text: str) -> None:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    assert failure_text(error) == text
