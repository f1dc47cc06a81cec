"""Requests that a client sends ahead: their responses are sent together, but none waits for long."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.net.echo_server import Server, Slice, echo, frame, read_response, run, until

from ottla.net.server import connection as connections
from ottla.net.server.connection import HELD_BYTES, TURN_SECONDS, CloseConnectionError, Connection, Reply
from ottla.net.server.memory_pool import STANDARD_BYTES


@pytest.fixture
def sends(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What each `Connection._send_start` sends in this thread: a fixture of another module may have a broker."""
    sent: list[bytes] = []
    original = Connection._send_start
    thread = threading.current_thread()

    def send_start(connection: Connection, buffers: list[connections.Buffer]) -> None:
        if threading.current_thread() is thread:
            sent.append(b"".join(buffers))
        original(connection, buffers)

    monkeypatch.setattr(Connection, "_send_start", send_start)
    return sent


class ReceivedSocket:
    """A socket that has already received bytes from its client, which may not read responses.

    What a real socket has received at a moment depends on the kernel and its load.
    """

    def __init__(self, connection: Connection, data: Iterable[bytes], *, is_read: bool = True) -> None:
        self._sock, self._data, self._is_read = connection._sock, iter(data), is_read
        self._unread = b""
        connection._sock = cast("socket.socket", self)

    def recv_into(self, buffer: memoryview) -> int:
        while len(self._unread) < len(buffer) and (more := next(self._data, b"")):
            self._unread += more
        if not self._unread:
            raise BlockingIOError
        n = min(len(buffer), len(self._unread))
        buffer[:n], self._unread = self._unread[:n], self._unread[n:]
        return n

    def sendmsg(self, buffers: list[connections.Buffer], control: tuple[()], flags: int) -> int:
        if not self._is_read:
            raise BlockingIOError
        return self._sock.sendmsg(buffers, control, flags)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class Clock:
    """A clock for `connection` that stands still unless a test advances it."""

    perf_counter = staticmethod(time.perf_counter)

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(connections, "time", clock)
    return clock


class Handler:
    """Echoes requests, after an action of the test for some of them."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    def __call__(self, body: memoryview, connection: Connection) -> Reply | Awaitable[Reply]:
        match bytes(body):
            case b"wait":
                return self._wait()
            case b"invalid":
                raise CloseConnectionError("invalid request", [frame(b"error")])
            case b"unexpected":
                raise RuntimeError("a bug")
            case b"close":
                connection.close()
                return None
            case b"throttle":
                connection.throttle(0.01)
            case b"large":
                return [frame(bytes(HELD_BYTES))]
        return [frame(bytes(body))]

    async def _wait(self) -> Reply:
        await self.release.wait()
        return [frame(b"wait")]


def _small(number: int) -> list[bytes]:
    return [b"%d" % n for n in range(number)]


def test_responses_to_requests_sent_ahead_are_sent_together(sends: list[bytes], clock: Clock) -> None:
    async def test() -> None:
        async with Server(echo) as server:
            reader, writer = await server.connect()
            writer.write(b"".join(map(frame, _small(10))))
            assert [await read_response(reader) for _ in range(10)] == _small(10)
            assert sends == [b"".join(map(frame, _small(10)))]
            writer.close()

    run(test)


def test_requests_that_fill_the_buffer_are_received_in_one_turn(sends: list[bytes], clock: Clock) -> None:
    async def test() -> None:
        bodies = [bytes([n]) * (STANDARD_BYTES - 100) for n in range(8)]

        def first_byte(body: memoryview, connection: Connection) -> Reply:
            return [frame(bytes(body[:1]))]

        async with Server(first_byte) as server:
            reader, writer = await server.connect()
            await until(lambda: server.listener.connections)
            (connection,) = server.listener.connections
            ReceivedSocket(connection, map(frame, bodies))
            connection._on_readable()
            assert [await read_response(reader) for _ in bodies] == [body[:1] for body in bodies]
            assert len(sends) <= 2
            assert connection.held_bytes == 0
            writer.close()

    run(test)


def test_response_does_not_wait_for_a_request_that_is_answered_later(clock: Clock) -> None:
    async def test() -> None:
        handler = Handler()
        async with Server(handler) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"first") + frame(b"wait") + frame(b"last"))
            assert await read_response(reader) == b"first"
            assert any(c.busy for c in server.listener.connections)
            handler.release.set()
            assert [await read_response(reader) for _ in range(2)] == [b"wait", b"last"]
            writer.close()

    run(test)


def test_response_does_not_wait_for_an_incomplete_request(clock: Clock) -> None:
    async def test() -> None:
        async with Server(echo) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"first") + frame(b"second")[:-1])
            assert await read_response(reader) == b"first"
            writer.write(b"d")
            assert await read_response(reader) == b"second"
            writer.close()

    run(test)


def test_response_waits_no_longer_than_a_turn(sends: list[bytes], clock: Clock) -> None:
    async def test() -> None:
        def slow(body: memoryview, connection: Connection) -> Reply:
            clock.now += TURN_SECONDS * 0.4
            return echo(body, connection)

        async with Server(slow) as server:
            reader, writer = await server.connect()
            writer.write(b"".join(map(frame, _small(8))))
            assert [await read_response(reader) for _ in range(8)] == _small(8)
            assert [sent.count(bytes(3)) for sent in sends] == [3, 3, 2]
            writer.close()

    run(test)


def test_turn_ends_although_the_client_has_sent_more(clock: Clock) -> None:
    async def test() -> None:
        processed = 0

        def slow(body: memoryview, connection: Connection) -> Reply:
            nonlocal processed
            processed += 1
            clock.now += TURN_SECONDS * 0.7
            return [frame(bytes(body[:1]))]

        async with Server(slow) as server:
            reader, writer = await server.connect()
            await until(lambda: server.listener.connections)
            (connection,) = server.listener.connections
            ReceivedSocket(connection, itertools.repeat(frame(bytes(STANDARD_BYTES - 4))))
            connection._on_readable()
            assert processed == 3  # received at 0, 0.7 and 1.4 turns
            assert connection.held_bytes == 0
            assert [await read_response(reader) for _ in range(3)] == [b"\0"] * 3
            writer.close()

    run(test)


def test_connection_whose_response_is_not_read_keeps_no_buffer(clock: Clock) -> None:
    async def test() -> None:
        async with Server(lambda body, connection: [frame(bytes(HELD_BYTES))]) as server:
            _, writer = await server.connect()
            await until(lambda: server.listener.connections)
            (connection,) = server.listener.connections
            ReceivedSocket(connection, itertools.repeat(frame(bytes(STANDARD_BYTES - 104))), is_read=False)
            connection._on_readable()
            assert connection.busy
            assert connection.held_bytes == 100
            connection.close()
            writer.close()

    run(test)


def test_large_response_is_sent_at_once_after_those_before_it(sends: list[bytes], clock: Clock) -> None:
    async def test() -> None:
        async with Server(Handler()) as server:
            reader, writer = await server.connect()
            writer.write(b"".join(map(frame, (b"first", b"large", b"last"))))
            assert [await read_response(reader) for _ in range(3)] == [b"first", bytes(HELD_BYTES), b"last"]
            assert sends == [frame(b"first") + frame(bytes(HELD_BYTES)), frame(b"last")]
            writer.close()

    run(test)


def test_file_range_is_sent_after_the_responses_before_it(tmp_path: Path, clock: Clock) -> None:
    async def test() -> None:
        content = os.urandom(100_000)
        (tmp_path / "log").write_bytes(content)
        piece = Slice(tmp_path / "log", 0, len(content))

        def handle(body: memoryview, connection: Connection) -> Reply:
            return [struct.pack(">i", piece.nbytes), piece] if bytes(body) == b"file" else echo(body, connection)

        async with Server(handle) as server:
            reader, writer = await server.connect()
            writer.write(b"".join(map(frame, (b"first", b"file", b"last"))))
            assert [await read_response(reader) for _ in range(3)] == [b"first", content, b"last"]
            assert piece.released == 1
            writer.close()

    run(test)


@pytest.mark.parametrize(
    ("request_body", "answer"), [(b"invalid", frame(b"error")), (b"unexpected", b""), (b"close", b"")]
)
def test_responses_are_sent_before_the_next_request_closes_the_connection(
    request_body: bytes, answer: bytes, clock: Clock
) -> None:
    async def test() -> None:
        async with Server(Handler()) as server:
            reader, writer = await server.connect()
            writer.write(b"".join(map(frame, (b"first", b"second", request_body, b"not processed"))))
            assert await reader.read() == frame(b"first") + frame(b"second") + answer
            writer.close()

    run(test)


def test_responses_are_sent_before_an_invalid_length_closes_the_connection(clock: Clock) -> None:
    async def test() -> None:
        async with Server(echo) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"first") + frame(b"second") + struct.pack(">i", -1))
            assert await reader.read() == frame(b"first") + frame(b"second")
            writer.close()

    run(test)


def test_responses_are_sent_to_a_client_that_has_closed_its_side(clock: Clock) -> None:
    async def test() -> None:
        async with Server(echo) as server:
            reader, writer = await server.connect()
            writer.write(b"".join(map(frame, _small(3))))
            writer.write_eof()
            assert await reader.read() == b"".join(map(frame, _small(3)))
            writer.close()

    run(test)


def test_throttled_response_is_sent_before_the_pause(clock: Clock) -> None:
    async def test() -> None:
        async with Server(Handler()) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"first") + frame(b"throttle") + frame(b"last"))
            assert [await read_response(reader) for _ in range(3)] == [b"first", b"throttle", b"last"]
            writer.close()

    run(test)


def test_responses_that_the_socket_does_not_accept_are_sent_later(clock: Clock) -> None:
    async def test() -> None:
        async with Server(lambda body, connection: [frame(bytes(body) * 250)]) as server:
            reader, writer = await server.connect()
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"".join(frame(struct.pack(">i", n)) for n in range(40_000)))
            await until(lambda: any(c.busy for c in server.listener.connections))
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            for n in range(40_000):
                assert await read_response(reader) == struct.pack(">i", n) * 250
            writer.close()

    run(test)
