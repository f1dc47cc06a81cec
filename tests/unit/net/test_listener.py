"""The listener: requests are answered in order and within bounds, whatever the peer does."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import struct
from collections.abc import Awaitable
from pathlib import Path

import pytest
from tests.unit.net.echo_server import (
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

from ottla import page_cache
from ottla.errors import StartupError
from ottla.net.server import connection as connections
from ottla.net.server.connection import (
    COPIED_BYTES,
    FILE_BYTES,
    IOV_MAX,
    ONE_PACKET_BYTES,
    CloseConnectionError,
    Connection,
    Reply,
    Service,
    UnsentBytes,
)
from ottla.net.server.connection_quotas import ConnectionLimits, ConnectionQuotas
from ottla.net.server.listener import Listener
from ottla.net.server.memory_pool import STANDARD_BYTES, MemoryPool


def test_pipelined_requests_are_answered_in_order() -> None:
    async def test() -> None:
        async def slow(body: bytes) -> Reply:
            await asyncio.sleep(0)
            return [frame(body)]

        def handle(body: memoryview, connection: Connection) -> Reply | Awaitable[Reply]:
            return slow(bytes(body)) if body[0] % 2 else [frame(bytes(body))]

        async with Server(handle) as server:
            reader, writer = await server.connect()
            writer.write(b"".join(frame(bytes([i, i])) for i in range(50)))
            assert [await read_response(reader) for _ in range(50)] == [bytes([i, i]) for i in range(50)]
            writer.close()

    run(test)


@pytest.mark.parametrize("releases", [False, True])
def test_requests_are_received_while_one_is_in_progress_until_the_buffer_is_full(releases: bool) -> None:
    async def test() -> None:
        release = asyncio.Event()

        async def wait(body: bytes) -> Reply:
            await release.wait()
            return [frame(body)]

        def handle(body: memoryview, connection: Connection) -> Reply | Awaitable[Reply]:
            if bytes(body) != b"first":
                return [frame(bytes(body))]
            if releases:
                connection.release_frame()
            return wait(b"first")

        async with Server(handle) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"first"))
            await until(lambda: any(c.busy for c in server.listener.connections))
            (connection,) = server.listener.connections
            writer.write(frame(b"small"))
            await until(lambda: connection._has_unhandled)
            assert connection._reading
            large = [os.urandom(60_000) for _ in range(40)]
            writer.write(b"".join(map(frame, large)))
            await until(lambda: not connection._reading)
            assert connection.held_bytes <= STANDARD_BYTES
            release.set()
            assert [await read_response(reader) for _ in range(42)] == [b"first", b"small", *large]
            writer.close()

    run(test)


def test_request_in_progress_is_answered_before_an_invalid_one_closes_the_connection() -> None:
    async def test() -> None:
        release = asyncio.Event()

        async def wait() -> Reply:
            await release.wait()
            return [frame(b"first")]

        def handle(body: memoryview, connection: Connection) -> Awaitable[Reply]:
            connection.release_frame()
            return wait()

        async with Server(handle) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"first"))
            await until(lambda: any(c.busy for c in server.listener.connections))
            (connection,) = server.listener.connections
            writer.write(struct.pack(">i", -1))
            await until(lambda: connection._has_unhandled)
            release.set()
            assert await read_response(reader) == b"first"
            assert await reader.read() == b""
            writer.close()

    run(test)


@pytest.mark.parametrize("size", [0, 1, 65532, 65533, 1_048_576, 5_000_000])
def test_frames_of_any_size_arrive_whole(size: int) -> None:
    async def test() -> None:
        async with Server(echo) as server:
            reader, writer = await server.connect()
            body = os.urandom(size)
            writer.write(frame(body) + frame(b"next"))
            assert await read_response(reader) == body
            assert await read_response(reader) == b"next"
            writer.close()

    run(test)


def test_frame_received_byte_by_byte_is_reassembled() -> None:
    async def test() -> None:
        async with Server(echo) as server:
            reader, writer = await server.connect()
            for byte in frame(b"slowly"):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0)
            assert await read_response(reader) == b"slowly"
            writer.close()

    run(test)


@pytest.mark.parametrize("size", [-1, 10_000_001, 2**31 - 1])
def test_invalid_frame_length_closes_the_connection(size: int) -> None:
    async def test() -> None:
        async with Server(echo) as server:
            reader, writer = await server.connect()
            writer.write(struct.pack(">i", size))
            assert await reader.read() == b""
            writer.close()

    run(test)


def test_frame_length_allocates_no_memory_before_its_bytes_arrive() -> None:
    async def test() -> None:
        async with Server(echo, max_frame_bytes=2**30) as server:
            reader, writer = await server.connect()
            writer.write(struct.pack(">i", 2**30) + b"x")
            await writer.drain()
            while not server.listener.connections:
                await asyncio.sleep(0)
            (connection,) = server.listener.connections
            while not connection.held_bytes:
                await asyncio.sleep(0)
            assert connection.held_bytes <= 64 * 1024
            writer.close()

    run(test)


def test_file_ranges_are_sent_between_buffers_and_released_once(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "log").write_bytes(content)
    pieces = [Slice(tmp_path / "log", 100, 2_000_000), Slice(tmp_path / "log", 0, 0), Slice(tmp_path / "log", 5, 10)]

    async def test() -> None:
        def handle(body: memoryview, connection: Connection) -> Reply:
            size = 4 + sum(p.nbytes for p in pieces)
            return [struct.pack(">i", size), b"he", pieces[0], b"ll", pieces[1], pieces[2]]

        async with Server(handle) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"?"))
            expected = b"he" + content[100:2_000_100] + b"ll" + content[5:15]
            assert await read_response(reader) == expected
            writer.close()

    run(test)
    assert [p.released for p in pieces] == [1, 1, 1]


def test_peer_that_stops_reading_does_not_delay_others() -> None:
    async def test() -> None:
        async with Server(lambda body, c: [frame(bytes(20_000_000)) if body[0] else frame(b"small")]) as server:
            _, stuck = await server.connect()
            stuck.write(frame(b"\x01"))
            reader, writer = await server.connect()
            for _ in range(20):
                writer.write(frame(b"\x00"))
                assert await read_response(reader) == b"small"
            stuck.close()
            writer.close()

    run(test)


def _raise_at_once(body: memoryview, connection: Connection) -> Reply:
    raise CloseConnectionError("nonsense")


async def _raise_later(body: memoryview, connection: Connection) -> Reply:
    raise CloseConnectionError("nonsense")


@pytest.mark.parametrize("handle", [_raise_at_once, _raise_later])
def test_protocol_violation_closes_the_connection_and_logs_the_reason(
    handle: Service, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with Server(handle) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"?"))
            assert await reader.read() == b""
            writer.close()

    run(test)
    assert [message.partition(": ")[2] for message in caplog.messages] == ["nonsense"]


def test_unexpected_exception_closes_only_its_connection() -> None:
    async def test() -> None:
        def handle(body: memoryview, connection: Connection) -> Reply:
            return [frame(bytes([1 // body[0]]))]

        async with Server(handle) as server:
            reader, writer = await server.connect()
            other_reader, other = await server.connect()
            writer.write(frame(b"\x00"))
            assert await reader.read() == b""
            other.write(frame(b"\x01"))
            assert await read_response(other_reader) == b"\x01"
            writer.close()
            other.close()

    run(test)


def test_peer_that_disconnects_while_its_request_is_pending_is_removed() -> None:
    async def test() -> None:
        release = asyncio.Event()

        async def later() -> Reply:
            await release.wait()
            return [frame(b"late" * 100)]

        async with Server(lambda body, c: later()) as server:
            _, writer = await server.connect()
            writer.write(frame(b"?"))
            while not any(c.busy for c in server.listener.connections):
                await asyncio.sleep(0)
            writer.transport.abort()
            release.set()
            while server.listener.connections:
                await asyncio.sleep(0)

    run(test)


def test_connections_above_the_limit_are_closed() -> None:
    async def test() -> None:
        async with Server(echo, ConnectionLimits(per_ip=1)) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"in"))
            assert await read_response(reader) == b"in"
            closed_reader, second = await server.connect()
            assert await closed_reader.read() == b""
            writer.close()
            second.close()

    run(test)


def test_connections_above_the_descriptor_limit_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with Server(echo) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"in"))
            assert await read_response(reader) == b"in"
            monkeypatch.setattr(resource, "getrlimit", lambda _: (8, 8))
            closed_reader, second = await server.connect()
            assert await closed_reader.read() == b""
            writer.write(frame(b"still"))
            assert await read_response(reader) == b"still"
            writer.close()
            second.close()

    run(test)


def test_address_in_use_is_a_startup_error_that_names_it() -> None:
    async def test() -> None:
        async with Server(echo) as server:
            other = Listener(
                "X", echo, admission=ConnectionQuotas(), memory=MemoryPool(), max_frame_bytes=1, idle_ms=-1
            )
            with pytest.raises(StartupError, match=rf"X://127.0.0.1:{server.port}.*in use"):
                other.bind("127.0.0.1", server.port)

    run(test)


def test_bind_without_listen_refuses_connections() -> None:
    # an open port means that the broker is registered
    async def test() -> None:
        listener = Listener("X", echo, admission=ConnectionQuotas(), memory=MemoryPool(), max_frame_bytes=1, idle_ms=-1)
        port = listener.bind("127.0.0.1", 0)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        listener.listen(5)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        listener.close()

    run(test)


def test_connection_at_max_connections_is_accepted_when_another_closes() -> None:
    async def test() -> None:
        async with Server(echo, ConnectionLimits(connections=1)) as server:
            reader, first = await server.connect()
            first.write(frame(b"1"))
            assert await read_response(reader) == b"1"
            waiting, second = await server.connect()
            second.write(frame(b"2"))
            await asyncio.sleep(0.05)
            assert len(server.listener.connections) == 1
            first.close()
            assert await read_response(waiting) == b"2"
            second.close()

    run(test)


def test_max_connections_without_a_waiting_connection_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with Server(echo, ConnectionLimits(connections=1)) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"in"))
            assert await read_response(reader) == b"in"
            assert server.listener.blocked_seconds == 0
            assert caplog.messages == []
            _, waiting = await server.connect()
            while not server.listener.blocked_seconds:
                await asyncio.sleep(0)
            assert "max.connections=1 is reached" in caplog.text
            for each in (writer, waiting):
                each.close()

    run(test)


def test_rejected_connections_of_one_host_do_not_hide_those_of_others(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with Server(echo, ConnectionLimits(per_ip=0)) as server:
            for host in (*["127.0.0.1"] * 10, "127.0.0.2"):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port, local_addr=(host, 0))
                assert await reader.read() == b""
                writer.close()
            prefixes = [message.partition("from ")[2].partition(":")[0] for message in caplog.messages]
            assert prefixes == ["127.0.0.1"] * 5 + ["127.0.0.2"]
            assert caplog.messages[0].endswith(" on listener TEST: max.connections.per.ip=0 is reached")

    run(test)


def test_raised_max_connections_accepts_waiting_connections(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with Server(echo, ConnectionLimits(connections=0)) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"in"))
            while not server.listener.blocked_seconds:
                await asyncio.sleep(0)
            server.admission.update_limits(ConnectionLimits(connections=1))
            assert await read_response(reader) == b"in"
            writer.close()
            reasons = [message.partition(": ")[2].partition(" is reached")[0] for message in caplog.messages]
            assert reasons == ["max.connections=0"]  # not a second time within a minute

    run(test)


def test_idle_peers_and_small_unfinished_frames_hold_no_buffers() -> None:
    async def test() -> None:
        async with Server(echo) as server:
            peers = [await server.connect() for _ in range(20)]
            for reader, writer in peers:
                writer.write(frame(b"whole") + frame(b"unfinished")[:9])
                assert await read_response(reader) == b"whole"
            assert sum(c.held_bytes for c in server.listener.connections) <= 20 * 9
            assert server.memory.used == 0
            for reader, writer in peers:
                writer.write(frame(b"unfinished")[9:])
                assert await read_response(reader) == b"unfinished"
                writer.close()

    run(test)


def test_large_requests_wait_for_the_memory_pool_and_small_ones_do_not() -> None:
    size, count = 300_000, 12

    async def test() -> None:
        released = asyncio.Event()

        async def respond_later(body: bytes) -> Reply:
            await released.wait()
            return [frame(body)]

        def handle(body: memoryview, connection: Connection) -> Reply | Awaitable[Reply]:
            return respond_later(bytes(body[:4])) if len(body) > 4 else [frame(bytes(body))]

        async with Server(handle, memory_bytes=2 * size) as server:
            peers = [await server.connect() for _ in range(count)]
            requests = [_write(w, frame(b"%04d" % i + bytes(size))) for i, (_, w) in enumerate(peers)]
            writes = [asyncio.ensure_future(request) for request in requests]
            await until(lambda: any(c.busy for c in server.listener.connections))
            await until(lambda: server.memory._waiting)
            reader, small = await server.connect()
            small.write(frame(b"in"))
            assert await read_response(reader) == b"in"
            assert server.memory.used <= 3 * size + 10_000
            assert sum(c.busy for c in server.listener.connections) < count
            released.set()
            assert [await read_response(r) for r, _ in peers] == [b"%04d" % i for i in range(count)]
            await asyncio.gather(*writes)
            await until(lambda: server.memory.used == 0)
            for _, writer in [*peers, (reader, small)]:
                writer.close()

    run(test)


def test_first_request_continues_if_all_wait_for_memory() -> None:
    async def test() -> None:
        async with Server(lambda body, connection: [frame(bytes(body[:4]))], memory_bytes=1) as server:
            peers = [await server.connect() for _ in range(20)]
            for i, (_, writer) in enumerate(peers):
                writer.write(frame(b"%04d" % i + bytes(500_000)))
            assert [await read_response(r) for r, _ in peers] == [b"%04d" % i for i in range(20)]
            assert server.memory.used == 0
            for _, writer in peers:
                writer.close()

    run(test)


def test_slow_request_is_closed_if_others_need_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.net.server.connection.SLOW_REQUEST_SECONDS", 0.05)
    monkeypatch.setattr("ottla.net.server.memory_pool.REAP_SECONDS", 0.01)

    async def test() -> None:
        async with Server(echo, memory_bytes=100_000) as server:
            stalled, unfinished = await server.connect()
            unfinished.write(frame(bytes(500_000))[:80_000])
            await until(lambda: server.memory.used)
            reader, writer = await server.connect()
            writer.write(frame(bytes(200_000)))
            assert len(await read_response(reader)) == 200_000
            assert await stalled.read() == b""
            assert server.memory.used == 0
            writer.close()
            unfinished.close()

    run(test)


def test_pending_request_releases_its_buffer_once_it_is_decoded() -> None:
    async def test() -> None:
        released = asyncio.Event()

        async def later(body: bytes) -> Reply:
            await released.wait()
            return [frame(body)]

        def handle(body: memoryview, connection: Connection) -> Awaitable[Reply]:
            connection.release_frame()
            return later(bytes(body))

        async with Server(handle) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"one") + frame(b"two") + frame(b"three")[:5])
            await until(lambda: any(c.busy for c in server.listener.connections))
            (connection,) = server.listener.connections
            assert connection.held_bytes < 100
            writer.write(frame(b"three")[5:])
            released.set()
            assert [await read_response(reader) for _ in range(3)] == [b"one", b"two", b"three"]
            writer.close()

    run(test)


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


def test_peer_that_disconnects_while_waiting_for_memory_is_removed() -> None:
    async def test() -> None:
        released = asyncio.Event()

        async def later() -> Reply:
            await released.wait()
            return [frame(b"done")]

        async with Server(lambda body, connection: later(), memory_bytes=100_000) as server:
            reader, holder = await server.connect()
            holder.write(frame(bytes(200_000)))
            await until(lambda: any(c.busy for c in server.listener.connections))
            _, waiting = await server.connect()
            waiting.write(frame(bytes(200_000)))
            await until(lambda: server.memory._waiting)
            waiting.transport.abort()
            released.set()
            assert await read_response(reader) == b"done"
            await until(lambda: server.memory.used == 0 and len(server.listener.connections) == 1)
            holder.close()

    run(test)


@pytest.mark.parametrize("pipelined", [False, True])
def test_throttled_connection_is_answered_and_then_muted(pipelined: bool) -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()

        def handle(body: memoryview, connection: Connection) -> Reply:
            if bytes(body) == b"much":
                connection.throttle(0.2)
            return [frame(bytes(body))]

        async with Server(handle) as server:
            reader, writer = await server.connect()
            began = loop.time()
            writer.write(frame(b"much") + (frame(b"next") if pipelined else b""))
            assert await read_response(reader) == b"much"
            assert loop.time() - began < 0.15
            if not pipelined:
                writer.write(frame(b"next"))
            assert await read_response(reader) == b"next"
            assert loop.time() - began >= 0.19
            writer.close()

    run(test)


def test_pipelined_requests_continue_after_a_large_response_is_read() -> None:
    async def test() -> None:
        def handle(body: memoryview, connection: Connection) -> Reply:
            return [frame(bytes(body) * (2_000_000 if bytes(body) == b"large" else 1))]

        async with Server(handle) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"large") + frame(b"a") + frame(b"b"))
            await until(lambda: any(c._writing for c in server.listener.connections))
            assert [len(await read_response(reader)) for _ in range(3)] == [10_000_000, 1, 1]
            writer.close()

    run(test)


def test_unsent_bytes_of_a_file_range_advance_past_the_sent_ones(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(bytes(100))
    piece = Slice(tmp_path / "log", 10, 90)
    rest = UnsentBytes(piece)
    rest.advance(3)
    rest.advance(4)
    assert (rest.fileno(), rest.position, rest.nbytes) == (piece.fileno(), 17, 83)
    rest.release()
    assert piece.released == 1


@pytest.mark.parametrize("leaves", [False, True])
def test_uncached_file_is_read_by_a_worker_without_delaying_others(
    tmp_path: Path, slow_disk: SlowDisk, leaves: bool
) -> None:
    run(lambda: send_a_file_from_a_stopped_disk(Server, tmp_path, slow_disk, leaves=leaves))


def test_bytes_probed_in_the_page_cache_are_not_probed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket takes a part of a file range at a time; the rest is still cached when it takes the next part."""
    content = os.urandom(5_000_000)
    (tmp_path / "log").write_bytes(content)
    piece = Slice(tmp_path / "log", 0, len(content))
    probed: list[int] = []

    def count(fd: int, position: int, nbytes: int) -> int:
        probed.append(position)
        return nbytes

    monkeypatch.setattr(page_cache, "cached_bytes", count)
    monkeypatch.setattr(connections, "PROBED_SECONDS", 3600.0)  # however busy the machine is

    def handle(body: memoryview, connection: Connection) -> Reply:
        connection._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
        return [struct.pack(">i", piece.nbytes), piece]

    async def test() -> None:
        async with Server(handle) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"file"))
            assert await read_response(reader) == content
            writer.close()
        assert len(probed) <= 2 * len(content) // FILE_BYTES + 2

    run(test)


def test_last_byte_of_a_file_range_is_probed(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(bytes(FILE_BYTES + 1))
    rest = UnsentBytes(Slice(tmp_path / "log", 0, FILE_BYTES + 1))
    assert rest.probe() == FILE_BYTES
    rest.advance(FILE_BYTES)
    assert rest.probe() == 1
    rest.release()


@pytest.mark.parametrize("send_buffer", [None, 4096])
@pytest.mark.parametrize("supports_nowait", [True, False])
def test_short_file_ranges_are_sent_whole_in_order_and_released_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, send_buffer: int | None, supports_nowait: bool
) -> None:
    content = os.urandom(1_000_000)
    (tmp_path / "log").write_bytes(content)
    sizes = [1, 0, 100, 5000, COPIED_BYTES, COPIED_BYTES + 1, 0, ONE_PACKET_BYTES + 1, 3] + [4000] * 100
    slices = [Slice(tmp_path / "log", sum(sizes[:i]), size) for i, size in enumerate(sizes)]
    body = b"".join(b"head" + content[sum(sizes[:i]) : sum(sizes[: i + 1])] for i in range(len(sizes))) + b"end"
    if not supports_nowait:
        monkeypatch.setattr(page_cache, "RWF_NOWAIT", 0)

    def handle(_: memoryview, connection: Connection) -> Reply:
        if send_buffer is not None:
            connection._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        return [struct.pack(">i", len(body)), *(chunk for piece in slices for chunk in (b"head", piece)), b"end"]

    async def test() -> None:
        async with Server(handle) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"files"))
            assert await read_response(reader) == body
            writer.close()
        assert [piece.released for piece in slices] == [1] * len(slices)

    run(test)


def test_short_file_range_that_is_not_cached_is_read_by_a_worker(tmp_path: Path, slow_disk: SlowDisk) -> None:
    content = os.urandom(8192)
    slices = []
    for name in ("first", "cold", "last"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log").write_bytes(content)
        slices.append(Slice(tmp_path / name / "log", 0, len(content)))
    slow_disk.evict(tmp_path / "cold")

    def handle(_: memoryview, connection: Connection) -> Reply:
        size = 3 * (2 + len(content))
        return [struct.pack(">i", size), *(chunk for piece in slices for chunk in (b"--", piece))]

    async def test() -> None:
        async with Server(handle) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"files"))
            assert await read_response(reader) == 3 * (b"--" + content)
            writer.close()
        assert slow_disk.loads
        assert not slow_disk.waits_on_the_loop

    run(test)


def test_more_buffers_than_one_call_takes_are_sent_whole() -> None:
    buffers = [b"%d " % i for i in range(2 * IOV_MAX + 1)]

    def handle(_: memoryview, connection: Connection) -> Reply:
        return [struct.pack(">i", len(b"".join(buffers))), *buffers]

    async def test() -> None:
        async with Server(handle) as server:
            reader, writer = await server.connect()
            writer.write(frame(b"buffers"))
            assert await read_response(reader) == b"".join(buffers)
            writer.close()

    run(test)
