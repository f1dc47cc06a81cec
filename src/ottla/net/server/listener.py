"""The broker's listening sockets: accept connections, close idle ones. Not thread-safe: event loop only.

`connection` handles everything after accept().
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections.abc import Callable

from ottla import addresses
from ottla.errors import StartupError
from ottla.net.server.connection import Connection, ConnectionCounts, Owner, Service
from ottla.net.server.connection_quotas import ConnectionQuotas
from ottla.net.server.memory_pool import MemoryPool

log = logging.getLogger("ottla.net")

IDLE_CHECK_SECONDS = 10.0
ACCEPT_BACKOFF_SECONDS = 0.2
"""Pause in seconds after accept() has failed, for example because there are no file descriptors or memory."""
REPORTED_WAIT_SECONDS = 1.0
REPORT_SECONDS = 60.0
"""Minimum time in seconds between two log lines about limits that keep connections waiting."""
ACCEPTS_PER_WAKEUP = 64
"""Maximum number of connections accepted at a time, so that requests are processed in between."""

Connects = Callable[[socket.socket, str, Owner, Service, MemoryPool, int], Connection]
"""A function that creates the connection of an accepted socket. Its arguments are those of `Connection`."""


class Listener:
    """One listening address and its connections."""

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
        """`connection`: creates the connections; plaintext ones by default."""
        self.name = name
        self.connections: dict[Connection, None] = {}
        self.counts = ConnectionCounts()
        self._service = service
        self._connection = connection
        self._admission = admission
        self._memory = memory
        self._max_frame_bytes = max_frame_bytes
        self._idle_seconds = idle_ms / 1000
        self._buffers = ((socket.SO_SNDBUF, send_buffer_bytes), (socket.SO_RCVBUF, receive_buffer_bytes))
        self._sock: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._blocked_since: float | None = None
        self._blocked_seconds = 0.0
        self._next_report = 0.0

    @property
    def blocked_seconds(self) -> float:
        """The total time in seconds for which limits have kept new connections waiting."""
        since = self._blocked_since
        return self._blocked_seconds if since is None else self._blocked_seconds + time.monotonic() - since

    def use(self, connection: Connects) -> None:
        """Create new connections with `connection` from now on, because certificates were reloaded."""
        self._connection = connection

    def bind(self, host: str, port: int) -> int:
        """Bind the address, and return the port; for port 0, a free one.

        Raises StartupError if the host cannot be resolved, or the address cannot be bound, such as one in use.

        Connections are refused until `listen`, so that an open port means that the broker has joined its cluster.
        """
        try:
            # for a str, Python would load the codec of internationalised names, which is as large as this whole package
            name = host.encode() if host.isascii() else host
            results = socket.getaddrinfo(name or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            # if a name has several addresses, the IPv4 address, which clients try first
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
        """Let clients connect.

        They wait in the backlog until `start`. Raises StartupError if that fails, for example because another process
        has taken the port.
        """
        assert self._sock is not None, "bind() must be called first"
        try:
            self._sock.listen(backlog)
        except OSError as error:
            host, port = self._sock.getsockname()[:2]
            raise self._startup_error(host, port, error) from None

    def _startup_error(self, host: str, port: int, error: OSError) -> StartupError:
        remedy = "; stop the other program, or set listeners to another port" if error.errno == errno.EADDRINUSE else ""
        return StartupError(f"listeners: cannot bind {self.name}://{host}:{port}: {error.strerror}{remedy}")

    def start(self) -> None:
        """Start accepting connections, and closing idle ones unless `idle_ms` is negative."""
        assert self._sock is not None, "bind() and listen() must be called first"
        asyncio.get_running_loop().add_reader(self._sock.fileno(), self._accept)
        if self._idle_seconds >= 0:
            self._timer = asyncio.get_running_loop().call_later(IDLE_CHECK_SECONDS, self._close_idle)

    def stop_accepting(self) -> None:
        """Stop accepting new connections, and closing idle ones. Existing ones continue."""
        for timer in (self._timer, self._later):
            if timer is not None:
                timer.cancel()
        self._admission.forget(self._accept_on)
        if self._sock is not None and self._sock.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._sock.fileno())
            self._sock.close()

    def close(self) -> None:
        """Stop accepting and close every connection."""
        self.stop_accepting()
        for connection in list(self.connections):
            connection.close()

    def forget(self, connection: Connection) -> None:
        if connection in self.connections:
            del self.connections[connection]
            self.counts.closed += 1
            self._admission.left(self.name, connection.peer.rpartition(":")[0])

    def _accept(self) -> None:
        for accepted in range(ACCEPTS_PER_WAKEUP):
            wait = self._admission.wait_seconds(self.name, self._accept_on)
            if wait is None or wait > 0:
                if accepted:
                    return  # perhaps no other connection waits; if one does, this is called again
                self._blocked_since = time.monotonic()
                self._report_limit(wait)
                self._accept_later(wait)
                return
            if not self._accept_one():
                return

    def _report_limit(self, wait: float | None) -> None:
        """Log which limit keeps connections waiting, at most once a minute.

        `wait`: seconds until the next connection is accepted; less than a second is not logged. None: until one is
        closed, or the limit is raised.
        """
        now = time.monotonic()
        if now < self._next_report or (wait is not None and wait < REPORTED_WAIT_SECONDS):
            return
        self._next_report = now + REPORT_SECONDS
        until = "one is closed" if wait is None else f"{wait:.1f} s have passed"
        log.warning(
            "Listener %s accepts no further connection until %s: %s is reached; new clients have to wait",
            self.name,
            until,
            self._admission.reached(self.name),
        )

    def _accept_one(self) -> bool:
        """Accept one connection. Return False if there is none, or accepting has to pause."""
        assert self._sock is not None
        try:
            sock, address = self._sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False
        except OSError as error:
            # For example EMFILE: the peer stays in the backlog. Without a pause, the event loop would try again at
            # once, endlessly.
            log.error(
                "Listener %s cannot accept connections; retrying in %g s: %s",
                self.name,
                ACCEPT_BACKOFF_SECONDS,
                error.strerror,
            )
            self._accept_later(ACCEPT_BACKOFF_SECONDS)
            return False
        ip = addresses.of_peer(address)
        peer = f"{ip}:{address[1]}"
        if not self._admission.has_descriptors(self.name, sock.fileno()):
            self.counts.rejected += 1
            log.warning(
                "Closing the new connection from %s on listener %s: the remaining file descriptors are reserved for "
                "log segments; raise the limit (ulimit -n)",
                peer,
                self.name,
            )
            sock.close()
            return True
        refusal = self._admission.enter(self.name, ip)
        if refusal is not None:
            self.counts.rejected += 1
            log.warning("Closing the new connection from %s on listener %s: %s is reached", peer, self.name, refusal)
            sock.close()
            return True
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option, size in self._buffers:
            if size > 0:
                sock.setsockopt(socket.SOL_SOCKET, option, size)
        connection = self._connection(sock, peer, self, self._service, self._memory, self._max_frame_bytes)
        self.connections[connection] = None
        self.counts.accepted += 1
        connection.start()
        return True

    def _accept_later(self, seconds: float | None) -> None:
        """Stop accepting for `seconds`; None: until `_accept_on` is called. Connections wait in the backlog."""
        assert self._sock is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._sock.fileno())
        if seconds is not None:
            self._later = loop.call_later(seconds, self._accept_on)

    def _accept_on(self) -> None:
        self._blocked_seconds, self._blocked_since = self.blocked_seconds, None
        if self._sock is not None and self._sock.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self._sock.fileno(), self._accept)

    def _close_idle(self) -> None:
        deadline = time.monotonic() - self._idle_seconds
        for connection in list(self.connections):
            if connection.last_active < deadline and not connection.working:
                connection.close()
        self._timer = asyncio.get_running_loop().call_later(IDLE_CHECK_SECONDS, self._close_idle)
