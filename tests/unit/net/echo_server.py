"""A listener with an echo handler, and helpers for its frames."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Self

from tests.unit.slow_disk import SlowDisk

from ottla.net.server.connection import Connection, Reply
from ottla.net.server.connection_quotas import UNLIMITED, ConnectionLimits, ConnectionQuotas
from ottla.net.server.listener import Connects, Listener
from ottla.net.server.memory_pool import MemoryPool

Handle = Callable[[memoryview, Connection], Reply | Awaitable[Reply]]


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def echo(body: memoryview, connection: Connection) -> Reply:
    return [frame(bytes(body))]


class Slice:
    """A file range, as the log returns it."""

    def __init__(self, path: Path, position: int, nbytes: int) -> None:
        self._fd = os.open(path, os.O_RDONLY)
        self.position, self.nbytes, self.released = position, nbytes, 0

    def fileno(self) -> int:
        return self._fd

    def release(self) -> None:
        self.released += 1
        os.close(self._fd)


class Server:
    """A listener on a free port of the running loop."""

    def __init__(
        self,
        handle: Handle,
        limits: ConnectionLimits = UNLIMITED,
        memory_bytes: int = -1,
        max_frame_bytes: int = 10_000_000,
        connection: Connects = Connection,
    ) -> None:
        self.memory = MemoryPool(memory_bytes)
        self.admission = ConnectionQuotas(limits)
        self.listener = Listener(
            "TEST",
            handle,
            admission=self.admission,
            memory=self.memory,
            max_frame_bytes=max_frame_bytes,
            idle_ms=-1,
            connection=connection,
        )
        self.port = self.listener.bind("127.0.0.1", 0)
        self.listener.listen(50)

    async def __aenter__(self) -> Self:
        self.listener.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.listener.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 26)


async def read_response(reader: asyncio.StreamReader) -> bytes:
    size = struct.unpack(">i", await reader.readexactly(4))[0]
    return await reader.readexactly(size)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 20))


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def send_a_file_from_a_stopped_disk(
    serve: Callable[[Handle], Server], directory: Path, disk: SlowDisk, *, leaves: bool = False
) -> None:
    """Send a file from a disk that hangs, while another client is answered.

    Assert that the whole file arrives once the disk responds or, if the client `leaves`, that the file is released.
    """
    content = os.urandom(3_500_000)
    (directory / "log").write_bytes(content)
    piece = Slice(directory / "log", 100_000, 3_000_000)
    disk.evict(directory)

    def handle(body: memoryview, connection: Connection) -> Reply:
        if bytes(body) == b"file":
            return [struct.pack(">i", piece.nbytes + 4), b"head", piece]
        return echo(body, connection)

    async with serve(handle) as server:
        reader, writer = await server.connect()
        other_reader, other_writer = await server.connect()
        with disk.stopped():
            writer.write(frame(b"file") + frame(b"next"))
            await disk.until_waited_for()
            for _ in range(3):
                other_writer.write(frame(b"x"))
                assert await read_response(other_reader) == b"x"
            if leaves:
                next(c for c in server.listener.connections if c._is_loading).close()
                assert piece.released == 1
        if not leaves:
            assert await read_response(reader) == b"head" + content[100_000:3_100_000]
            assert await read_response(reader) == b"next"
        writer.close()
        other_writer.close()
    assert piece.released == 1
