"""TCP proxies that can be cut. A link is named by the two processes that it connects; while it is cut, it buffers what
is sent.

As with an unplugged cable, neither side gets an error: bytes wait, the proxy accepts new connections but does not
forward them, and traffic continues if the link is repaired in time. `reset` breaks open connections, so that responses
are lost.

Runs on its own thread; all methods are thread-safe.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Coroutine
from struct import pack
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.chaos.sockets import owner_of

CHUNK_BYTES = 65_536


class Link(NamedTuple):
    """The source and the target of connections: `broker 1`, `zookeeper`, `client`."""

    source: str
    target: str

    def between(self, one: str, other: str) -> bool:
        """Return whether the link connects these two, in either direction."""
        return {self.source, self.target} == {one, other}


class Links:
    """All proxies of a cluster. `pids` maps process ids to names; other processes are clients."""

    def __init__(self, pids: Callable[[], dict[int, str]]) -> None:
        self._pids = pids
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._gates: dict[Link, asyncio.Event] = {}
        self._cut: Callable[[Link], bool] = lambda link: False
        self._open: dict[asyncio.StreamWriter, Link] = {}

    def listen(self, target: str, port: int, source: str | None = None) -> int:
        """Return a port that forwards to `port` of `target`. Without `source`, a connection's source is its process."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            link_source = source or self._source_of(writer)
            await self._serve(Link(link_source, target), port, reader, writer)

        async def start() -> int:
            server = await asyncio.start_server(accept, "127.0.0.1", 0)
            return int(server.sockets[0].getsockname()[1])

        return int(self._run(start()))

    def cut(self, which: Callable[[Link], bool]) -> None:
        """Cut these links, and repair all others."""

        async def change() -> None:
            self._cut = which
            for link, gate in self._gates.items():
                self._set(link, gate)

        self._run(change())

    def heal(self) -> None:
        """Repair all links."""
        self.cut(lambda link: False)

    def reset(self, which: Callable[[Link], bool]) -> None:
        """Break the open connections of these links."""

        async def close() -> None:
            for writer, link in list(self._open.items()):
                if which(link):
                    _break(writer)

        self._run(close())

    def _set(self, link: Link, gate: asyncio.Event) -> None:
        if self._cut(link):
            gate.clear()
        else:
            gate.set()

    def _gate(self, link: Link) -> asyncio.Event:
        gate = self._gates.get(link)
        if gate is None:
            gate = self._gates[link] = asyncio.Event()
            self._set(link, gate)
        return gate

    def _source_of(self, writer: asyncio.StreamWriter) -> str:
        pids = self._pids()
        pid = owner_of(writer.get_extra_info("peername")[1], pids)
        return "client" if pid is None else pids[pid]

    async def _serve(self, link: Link, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gate = self._gate(link)
        self._open[writer] = link
        try:
            await gate.wait()
            back_reader, back_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            self._open.pop(writer, None)
            _break(writer)
            return
        self._open[back_writer] = link
        ways = ((reader, back_writer), (back_reader, writer))
        tasks = [asyncio.create_task(_pump(gate, from_, to)) for from_, to in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for end in (writer, back_writer):
            self._open.pop(end, None)
            end.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async def end() -> None:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


def _break(writer: asyncio.StreamWriter) -> None:
    """Close with a reset, as when a process ends while bytes are in flight."""
    actual = writer.get_extra_info("socket")
    actual.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", 1, 0))
    writer.transport.abort()


async def _pump(gate: asyncio.Event, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward bytes in one direction until either end closes; the close is forwarded only if the link is not cut."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            await gate.wait()
            writer.write(data)
            await writer.drain()
    await gate.wait()
