"""The broker's listening sockets: who is let in, and who is sent away for having been silent too long.

Loop thread. What comes in over an accepted socket is the business of `connection`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable

from ottla import addresses
from ottla.errors import StartupError
from ottla.net.server.connection import Connection, Owner, Service
from ottla.net.server.connection_quotas import ConnectionQuotas
from ottla.net.server.memory_pool import MemoryPool

log = logging.getLogger("ottla.net")

IDLE_CHECK_SECONDS = 10.0
ACCEPT_BACKOFF_SECONDS = 0.2
"""Pause after accept() failed for want of descriptors or memory."""
ACCEPTS_PER_WAKEUP = 64
"""Connections taken from the backlog at a time; in a storm of them, requests get their turn in between."""

Connects = Callable[[socket.socket, str, Owner, Service, MemoryPool, int], Connection]
"""Makes a connection of an accepted socket; the arguments are those of `Connection`."""


class Listener:
    """One listening address and the connections that came in through it."""

    def __init__(
        self,
        name: str,
        service: Service,
        *,
        admission: ConnectionQuotas,
        memory: MemoryPool,
        max_frame_bytes: int,
        idle_ms: int,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
        connection: Connects = Connection,
    ) -> None:
        """`connection` makes what speaks with a peer: in plain text, if nothing else is said."""
        self.name = name
        self.connections: set[Connection] = set()
        self._service = service
        self.connects = connection
        """What makes the next connection; may be replaced, as certificates are renewed."""
        self._admission = admission
        self._memory = memory
        self._max_frame_bytes = max_frame_bytes
        self._idle_seconds = idle_ms / 1000
        self._buffers = ((socket.SO_SNDBUF, send_buffer_bytes), (socket.SO_RCVBUF, receive_buffer_bytes))
        self._sock: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._later: asyncio.TimerHandle | None = None

    def bind(self, host: str, port: int) -> int:
        """Take the address; returns the port (a free one for 0). StartupError if it is in use.

        Connections are refused until `listen`, so that an open port says that the broker is a member of its cluster.
        """
        try:
            results = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            # of a name with several addresses the IPv4 one, where clients look first
            family, kind, proto, _, address = min(results, key=lambda f: f[0] != socket.AF_INET)
            sock = socket.socket(family, kind, proto)
            try:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind(address)
            except OSError:
                sock.close()
                raise
        except OSError as error:
            raise self._startup_error(host, port, error) from None
        sock.setblocking(False)
        self._sock = sock
        return int(sock.getsockname()[1])

    def listen(self, backlog: int) -> None:
        """Let clients connect; they wait until `start`. StartupError if another process was faster."""
        assert self._sock is not None, "bind() comes first"
        try:
            self._sock.listen(backlog)
        except OSError as error:
            host, port = self._sock.getsockname()[:2]
            raise self._startup_error(host, port, error) from None

    def _startup_error(self, host: str, port: int, error: OSError) -> StartupError:
        return StartupError(f"listeners: {self.name}://{host}:{port} cannot be bound: {error.strerror}; is it in use?")

    def start(self) -> None:
        """Begin to accept."""
        assert self._sock is not None, "bind() and listen() come first"
        asyncio.get_running_loop().add_reader(self._sock.fileno(), self._accept)
        if self._idle_seconds >= 0:
            self._timer = asyncio.get_running_loop().call_later(IDLE_CHECK_SECONDS, self._close_idle)

    def stop_accepting(self) -> None:
        """Take no new connections; those that are there go on."""
        for timer in (self._timer, self._later):
            if timer is not None:
                timer.cancel()
        self._admission.forget(self._accept_on)
        if self._sock is not None and self._sock.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._sock.fileno())
            self._sock.close()

    def close(self) -> None:
        """Stop accepting and drop every connection."""
        self.stop_accepting()
        for connection in list(self.connections):
            connection.close()

    def forget(self, connection: Connection) -> None:
        """A connection tells that it is closed."""
        if connection in self.connections:
            self.connections.discard(connection)
            self._admission.left(self.name, connection.peer.rpartition(":")[0])

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_WAKEUP):
            wait = self._admission.wait_seconds(self.name, self._accept_on)
            if wait is None or wait > 0:
                self._accept_later(wait)
                return
            if not self._accept_one():
                return

    def _accept_one(self) -> bool:
        """Take one connection from the backlog; False when there is none."""
        assert self._sock is not None
        try:
            sock, address = self._sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False
        except OSError as error:
            # EMFILE and its like: the peer stays in the backlog; without a pause the loop would spin
            log.error("cannot accept a connection: %s", error.strerror)
            self._accept_later(ACCEPT_BACKOFF_SECONDS)
            return False
        ip = addresses.of_peer(address)
        if not self._admission.has_descriptors(self.name, sock.fileno()):
            log.warning("%s: refused, logs need the descriptors that are left; raise the limit (ulimit -n)", ip)
            sock.close()
            return True
        refusal = self._admission.enter(self.name, ip)
        if refusal is not None:
            log.warning("%s: refused, %s is reached", ip, refusal)
            sock.close()
            return True
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option, size in self._buffers:
            if size > 0:
                sock.setsockopt(socket.SOL_SOCKET, option, size)
        peer = f"{ip}:{address[1]}"
        connection = self.connects(sock, peer, self, self._service, self._memory, self._max_frame_bytes)
        self.connections.add(connection)
        connection.start()
        return True

    def _accept_later(self, seconds: float | None) -> None:
        """Leave the others in the backlog for a while; None: until `_accept_on` is called."""
        assert self._sock is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._sock.fileno())
        if seconds is not None:
            self._later = loop.call_later(seconds, self._accept_on)

    def _accept_on(self) -> None:
        if self._sock is not None and self._sock.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self._sock.fileno(), self._accept)

    def _close_idle(self) -> None:
        deadline = time.monotonic() - self._idle_seconds
        for connection in list(self.connections):
            if connection.last_active < deadline and not connection.working:
                connection.close()
        self._timer = asyncio.get_running_loop().call_later(IDLE_CHECK_SECONDS, self._close_idle)
