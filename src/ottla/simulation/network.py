"""A network in memory: TCP connections with delays, cuts in one direction, resets, and hosts that vanish.

As in TCP, a connection that is not reset keeps the order of its bytes and loses none: bytes sent over a cut link arrive
when the link is restored. Closing a socket with unread data resets the connection, as on Linux.
"""

from __future__ import annotations

import errno
import os
import random
import socket
import types
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from math import log
from typing import TYPE_CHECKING, Any, Final

from ottla.simulation.process import Process, current

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ottla.simulation.event_loop import SimulatedLoop

FIRST_DESCRIPTOR: Final = 1_000_000
"""The descriptors of simulated sockets are above this number, and so above all real ones."""
FIRST_PORT: Final = 40_000
WINDOW_BYTES: Final = 256 * 1024
"""Maximum number of bytes that a connection accepts before its receiver reads them."""
SYN_RETRY_SECONDS: Final = 1.0
LEAST_GAP_SECONDS: Final = 1e-7
"""Minimum time in seconds between two arrivals that must stay in order."""
MIN_DELAY_SECONDS: Final = 0.0001
TYPICAL_DELAY_SECONDS: Final = 0.001
DELAY_RATE: Final = 1 / TYPICAL_DELAY_SECONDS
JOINED_SHARE: Final = 0.9
"""The share of pieces that arrive together with the previous piece, if both were sent at the same time. TCP puts such
pieces, for example the head of a response and ranges of files, into the same packets.
"""
TCP_ESTABLISHED: Final = 1
TCP_CLOSE_WAIT: Final = 8

Address = tuple[str, int]


class Network:
    """All listeners and sockets of a simulation, and the faults of links and hosts."""

    def __init__(self, loop: SimulatedLoop, rng: random.Random) -> None:
        self._loop = loop
        self._rng = rng
        self._random = rng.random
        self._next_descriptor = FIRST_DESCRIPTOR
        self._next_port = FIRST_PORT
        self.listeners: dict[Address, SimulatedSocket] = {}
        self.sockets: dict[int, SimulatedSocket] = {}
        """Open sockets by descriptor."""
        self.down: set[str] = set()
        """Hosts without power."""
        self._cuts: dict[tuple[str, str], int] = {}
        self._stalled: dict[tuple[str, str], list[Callable[[], None]]] = {}
        self.delays: dict[str, float] = {}
        """Seconds that a slow host adds to each message that it sends or receives, by host."""
        self.on_message: Callable[[str, str, bytes], None] | None = None
        """Called when bytes arrive at a socket, with the names of the sending and the receiving process, and the
        bytes.
        """

    # Faults

    def cut(self, source: str, target: str) -> None:
        """Cut the link in one direction. A link may be cut several times."""
        self._cuts[source, target] = self._cuts.get((source, target), 0) + 1

    def heal(self, source: str, target: str) -> None:
        """Undo one cut. Once the link has no other cut, the messages that were held back arrive."""
        left = self._cuts.get((source, target), 0) - 1
        if left > 0:
            self._cuts[source, target] = left
            return
        self._cuts.pop((source, target), None)
        for deliver in self._stalled.pop((source, target), []):
            deliver()

    def is_cut(self, source: str, target: str) -> bool:
        if not self._cuts and not self.down:
            return False
        return (source, target) in self._cuts or source in self.down or target in self.down

    def reset_connections(self, host: str, share: float) -> int:
        """Reset about this share of a host's connections at both ends, losing the data in transit. Return the
        number of connections that were reset.
        """
        count = 0
        for sock in list(self.sockets.values()):
            if sock.peer is not None and sock.local[0] == host and self._rng.random() < share:
                sock.peer.fail(errno.ECONNRESET)
                sock.fail(errno.ECONNRESET)
                count += 1
        return count

    def power_off(self, host: str) -> None:
        """Turn off the power of a host. Its peers are not notified."""
        self.down.add(host)
        for sock in list(self.sockets.values()):
            if sock.local[0] == host:
                sock.vanish()

    def power_on(self, host: str) -> None:
        self.down.discard(host)
        for link in [link for link in self._stalled if host in link and not self.is_cut(*link)]:
            for deliver in self._stalled.pop(link):
                deliver()

    # Sockets

    def now(self) -> float:
        return self._loop.time()

    def joins(self) -> bool:
        """Decide at random whether bytes arrive together with those that were sent at the same moment before them."""
        return self._random() < JOINED_SHARE

    def open_socket(self, process: Process) -> SimulatedSocket:
        """Return a new socket of a process. `close_sockets_of` closes it when the process ends."""
        self._next_descriptor += 1
        sock = SimulatedSocket(self, process, self._next_descriptor)
        self.sockets[sock.fd] = sock
        self._loop.polled.sockets[sock.fd] = sock
        return sock

    def forget(self, sock: SimulatedSocket) -> None:
        self.sockets.pop(sock.fd, None)
        self._loop.polled.sockets.pop(sock.fd, None)
        if self.listeners.get(sock.local) is sock:
            del self.listeners[sock.local]

    def changed(self, sock: SimulatedSocket) -> None:
        """Make the event loop poll a socket that may have become ready."""
        self._loop.polled.activate(sock.fd)

    def close_sockets_of(self, process: Process) -> None:
        """Close the sockets that a process has left open, as the kernel does."""
        for sock in [sock for sock in self.sockets.values() if sock.process is process]:
            sock.close()

    def ended_connections(self, process: Process) -> list[Address]:
        """Return the peer addresses of connections that have ended and that the process has not closed."""
        own = [sock for sock in self.sockets.values() if sock.process is process and not sock.is_listening]
        return [sock.remote for sock in own if sock.has_ended]

    def new_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def send_after_delay(self, source: str, target: str, not_before: float, deliver: Callable[[], None]) -> float:
        """Schedule `deliver` for the arrival of a message, which is after `not_before`, and return the time of arrival.
        If the link is cut then, the message waits until the link is restored.
        """
        # as `self._rng.expovariate(1 / TYPICAL_DELAY_SECONDS)`, without its call
        delay = MIN_DELAY_SECONDS + -log(1.0 - self._random()) / DELAY_RATE
        if self.delays:
            delay += self.delays.get(source, 0.0) + self.delays.get(target, 0.0)
        loop = self._loop
        arrival = max(loop.time() + delay, not_before + LEAST_GAP_SECONDS)
        loop.call_outside(arrival, self._arrive, source, target, deliver)
        return arrival

    def _arrive(self, source: str, target: str, deliver: Callable[[], None]) -> None:
        if (self._stalled and (source, target) in self._stalled) or self.is_cut(source, target):
            self._stalled.setdefault((source, target), []).append(deliver)
        else:
            deliver()

    def connect(self, client: SimulatedSocket, address: Address) -> None:
        """Send the SYN packet of a connection. If the link is cut, repeat it after SYN_RETRY_SECONDS."""
        if client.is_closed:
            return
        source, target = client.local[0], address[0]
        if self.is_cut(source, target) or self.is_cut(target, source):
            self._loop.call_outside(self._loop.time() + SYN_RETRY_SECONDS, self.connect, client, address)
            return
        self.send_after_delay(source, target, 0, lambda: self._on_connect(client, address))

    def _on_connect(self, client: SimulatedSocket, address: Address) -> None:
        listener = self.listeners.get(address)
        back = (address[0], client.local[0])
        if listener is None or client.is_closed:
            self.send_after_delay(*back, 0, lambda: client.fail(errno.ECONNREFUSED))
            return
        server = self.open_socket(listener.process)
        server.local, server.remote = address, client.local
        server.peer, client.peer = client, server
        server.is_connected = True
        listener.backlog.append(server)
        self.changed(listener)
        server.arrival = self.send_after_delay(*back, 0, client.connected)


class SimulatedSocket:
    """One TCP socket, with the methods of `socket.socket` that Ottla uses."""

    family = socket.AF_INET
    type = socket.SOCK_STREAM
    proto = socket.IPPROTO_TCP

    def __init__(self, network: Network, process: Process, fd: int) -> None:
        self._network = network
        self.process = process
        self.fd = fd
        self.local: Address = (process.host, 0)
        self.remote: Address = ("", 0)
        self.peer: SimulatedSocket | None = None
        self.backlog: deque[SimulatedSocket] = deque()
        self.is_connected = False
        self.is_closed = False
        self.is_listening = False
        self.arrival = 0.0
        """The time at which the last sent bytes arrive."""
        self._received: deque[memoryview] = deque()
        self._received_bytes = 0
        self._last_sent: list[bytes] = []
        """The pieces that arrive together with the last one that was sent; empty when they have arrived."""
        self._last_sent_at = -1.0
        self._on_the_way = 0
        self._has_end = False
        self._error = 0

    @property
    def is_readable(self) -> bool:
        return bool(self._received or self.backlog or self._has_end or self._error)

    @property
    def has_ended(self) -> bool:
        """Whether the peer has closed the connection, or the connection has failed."""
        return self._has_end or bool(self._error)

    @property
    def is_writable(self) -> bool:
        return bool(self._error or (self.peer is None and self._has_end)) or (self.is_connected and self._room > 0)

    @property
    def _room(self) -> int:
        peer = self.peer
        return WINDOW_BYTES if peer is None else WINDOW_BYTES - self._on_the_way - peer._received_bytes

    def fileno(self) -> int:
        return -1 if self.is_closed else self.fd

    def setblocking(self, flag: bool) -> None:
        assert not flag, "simulated sockets do not block"

    def setsockopt(self, *arguments: Any) -> None:
        pass

    def gettimeout(self) -> float:
        return 0.0

    def getsockopt(self, level: int, option: int, size: int = 0) -> Any:
        if (level, option) == (socket.SOL_SOCKET, socket.SO_ERROR):
            error, self._error = self._error, 0
            return error
        if level == socket.IPPROTO_TCP and size:  # TCP_INFO
            return bytes([TCP_CLOSE_WAIT if self._has_end else TCP_ESTABLISHED])
        return 0

    def getsockname(self) -> Address:
        return self.local

    def getpeername(self) -> Address:
        return self.remote

    # Opening

    def bind(self, address: Address) -> None:
        host, port = address[:2]
        port = port or self._network.new_port()
        if (host, port) in self._network.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self.local = (host, port)

    def listen(self, backlog: int = 0) -> None:
        if self.local in self._network.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self.is_listening = True
        self._network.listeners[self.local] = self

    def accept(self) -> tuple[SimulatedSocket, Address]:
        if not self.backlog:
            raise BlockingIOError(errno.EAGAIN, "no connection")
        sock = self.backlog.popleft()
        return sock, sock.remote

    def connect(self, address: Address) -> None:
        self.remote = (address[0], address[1])
        self.local = (self.local[0], self._network.new_port())
        self._network.connect(self, self.remote)
        raise BlockingIOError(errno.EINPROGRESS, "connecting")

    def connected(self) -> None:
        """Complete the connection after the peer has accepted it."""
        if not self.is_closed and not self._error:
            self.is_connected = True
            self._network.changed(self)

    # Sending

    def send(self, data: Buffer, flags: int = 0) -> int:
        return self.sendmsg([data])

    def sendmsg(self, buffers: Iterable[Buffer], ancillary: Any = (), flags: int = 0) -> int:
        if self._error or self.is_closed or not self.is_connected or self.peer is None:
            self._check_writable()
        data = b"".join(buffers)
        if len(data) > (room := self._room):
            data = data[:room]
        if not data:
            raise BlockingIOError(errno.EAGAIN, "the window is full")
        self._on_the_way += len(data)
        now = self._network.now()
        if self._last_sent and self._last_sent_at == now and self._network.joins():
            self._last_sent.append(data)
        else:
            pieces = self._last_sent = [data]
            self._last_sent_at = now
            self._transmit(partial(self._deliver, pieces))
        return len(data)

    def _check_open(self) -> None:
        """Raise the error of a closed socket, or of a failed connection; the latter only once."""
        if self.is_closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        if self._error:
            error, self._error = self._error, 0
            self._has_end = True
            raise OSError(error, os.strerror(error))

    def _check_writable(self) -> None:
        self._check_open()
        if not self.is_connected:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        if self.peer is None:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def _transmit(self, deliver: Callable[[], None]) -> None:
        self.arrival = self._network.send_after_delay(self.local[0], self.remote[0], self.arrival, deliver)

    def _deliver(self, pieces: list[bytes]) -> None:
        data = b"".join(pieces) if len(pieces) > 1 else pieces[0]
        pieces.clear()
        self._on_the_way -= len(data)
        peer = self.peer
        if peer is None:
            return
        if peer.is_closed:
            # nothing has this connection there: the answer is a reset
            peer._transmit(lambda: self.fail(errno.ECONNRESET))
            return
        if self._network.on_message is not None:
            self._network.on_message(self.process.name, peer.process.name, data)
        peer._received.append(memoryview(data))
        peer._received_bytes += len(data)
        self._network.changed(peer)

    # Receiving

    def recv_into(self, buffer: Buffer, nbytes: int = 0, flags: int = 0) -> int:
        received = self._received
        if not received:
            return self._nothing_received() if len(memoryview(buffer)) else 0
        target = memoryview(buffer).cast("B")
        room, filled = len(target), 0
        while received and filled < room:
            head = received[0]
            size = len(head)
            if size <= room - filled:
                target[filled : filled + size] = head
                received.popleft()
            else:
                size = room - filled
                target[filled:] = head[:size]
                received[0] = head[size:]
            filled += size
        self._received_bytes -= filled
        peer = self.peer
        if filled and peer is not None and not peer.is_closed:
            self._network.changed(peer)
        return filled

    def _nothing_received(self) -> int:
        self._check_open()
        if self._has_end:
            return 0
        raise BlockingIOError(errno.EAGAIN, "nothing received")

    def recv(self, nbytes: int, flags: int = 0) -> bytes:
        if flags & socket.MSG_PEEK and self._received:
            return bytes(self._received[0][:nbytes])
        if flags & socket.MSG_PEEK and not self._error:
            if self._has_end:
                return b""
            raise BlockingIOError(errno.EAGAIN, "nothing received")
        data = bytearray(nbytes)
        return bytes(data[: self.recv_into(data)])

    # Ends

    def fail(self, error: int) -> None:
        """Fail the connection with this errno, and drop the bytes that were not read; do nothing if it is closed."""
        if self.is_closed:
            return
        self._error = error
        self.peer = None
        self._received.clear()
        self._received_bytes = 0
        self._network.changed(self)

    def close(self) -> None:
        """Close the socket. If there is unread data, the peer sees a reset, otherwise the end of the stream after the
        last byte.
        """
        if self.is_closed:
            return
        self.is_closed = True
        self._network.forget(self)
        while self.backlog:
            self.backlog.popleft().close()
        peer = self.peer
        if peer is None:
            return
        if self._received:
            self._received.clear()
            self._transmit(lambda: peer.fail(errno.ECONNRESET))
        else:
            self._transmit(peer._end)

    def _end(self) -> None:
        if not self.is_closed:
            self._has_end = True
            self._network.changed(self)

    def vanish(self) -> None:
        """Close the socket without sending any packet, as after a power failure."""
        self.is_closed = True
        self._received.clear()
        self._network.forget(self)

    def shutdown(self, how: int) -> None:
        if self.peer is not None:
            self._transmit(self.peer._end)

    def detach(self) -> int:
        raise NotImplementedError("simulated descriptors cannot be passed on")


class SocketModule(types.ModuleType):
    """Stands in for the module `socket` in production code."""

    def __init__(self, network: Network, resolve: Callable[[str], str]) -> None:
        super().__init__("socket")
        self._network = network
        self._resolve = resolve

    def __getattr__(self, name: str) -> Any:
        return getattr(socket, name)

    def socket(self, *arguments: Any) -> SimulatedSocket:
        return self._network.open_socket(current())

    def getaddrinfo(self, host: Any, port: int, *arguments: Any, **options: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else str(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (self._resolve(name), int(port)))]

    def getfqdn(self) -> str:
        return current().host

    def gethostname(self) -> str:
        return current().host
