"""The broker's side of a socket: accept, frame, keep order, answer.

Sockets are non-blocking and sit directly on the event loop (`add_reader`, `recv_into`, `sendmsg`, `sendfile`), which
serves 40 % more requests than asyncio's protocols do. Per connection one request is worked on at a time, as in Kafka:
the next one is not read before the answer to the last one is written, which bounds the memory of a connection and
keeps answers in order. While a request is worked on, views into its frame stay valid.

Everything here runs on the loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from ottla.errors import StartupError

log = logging.getLogger("ottla.net")

Buffer = bytes | bytearray | memoryview
FIRST_BUFFER_BYTES = 64 * 1024
"""Buffer of a new connection: a typical request with one batch fits."""
KEPT_BUFFER_BYTES = 1024 * 1024
"""A buffer that grew beyond this for one big request is given back after it."""
GROWTH = 2
"""A frame's buffer grows with the bytes that arrive, not with the length that the peer claims."""
IOV_MAX = 512
"""Buffers handed to one sendmsg; the kernel takes 1,024."""
IDLE_CHECK_SECONDS = 10.0
ACCEPT_BACKOFF_SECONDS = 0.2
"""Pause after accept() failed for want of descriptors or memory."""


class FileRange(Protocol):
    """Bytes that lie in a file: sent by the kernel, never read by Python."""

    @property
    def nbytes(self) -> int:
        """How many bytes."""
        ...

    @property
    def position(self) -> int:
        """Where in the file they begin."""
        ...

    def fileno(self) -> int:
        """The open file's descriptor."""
        ...

    def release(self) -> None:
        """The bytes are sent, or never will be."""
        ...


Chunk = Buffer | FileRange
Reply = Sequence[Chunk] | None
"""A framed answer in pieces, or None where the protocol has no answer (acks=0)."""


class HangupError(Exception):
    """Raised by the service to have the connection closed: the peer does not speak the protocol."""


class Service(Protocol):
    """What stands behind a listener."""

    def __call__(self, frame: memoryview, connection: Connection) -> Reply | Awaitable[Reply]:
        """Answer one request, at once where that is possible. `frame` is valid until the answer is there."""
        ...


class Connection:
    """One client: its buffer, the request being worked on, and the part of an answer still to be sent."""

    __slots__ = (
        "_buffer",
        "_filled",
        "_loop",
        "_max_frame",
        "_out",
        "_reading",
        "_service",
        "_sock",
        "_start",
        "_task",
        "_writing",
        "last_active",
        "listener",
        "on_close",
        "peer",
        "state",
    )

    def __init__(self, sock: socket.socket, peer: str, listener: Listener, service: Service, max_frame: int) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._service = service
        self._max_frame = max_frame
        self._buffer = bytearray(FIRST_BUFFER_BYTES)
        self._start = 0  # where the first unhandled frame begins
        self._filled = 0  # where received bytes end
        self._out: list[Chunk] = []
        self._reading = self._writing = False
        self._task: asyncio.Future[Reply] | None = None
        self.peer = peer
        self.listener = listener
        self.state: dict[str, object] = {}
        """What the service keeps per connection: the client's name and software, later its principal."""
        self.on_close: list[Callable[[], None]] = []
        self.last_active = time.monotonic()

    def start(self) -> None:
        """Begin to read."""
        self._read_on()

    def close(self) -> None:
        """Drop the peer; a request being worked on is cancelled."""
        if self._sock.fileno() < 0:
            return
        self._stop_reading()
        self._stop_writing()
        if self._task is not None:
            self._task.cancel()
        release(self._out)
        self._out = []
        self._sock.close()
        self.listener.forget(self)
        for callback in self.on_close:
            callback()

    @property
    def busy(self) -> bool:
        """Whether a request is being worked on or its answer is being sent."""
        return self._task is not None or bool(self._out)

    @property
    def working(self) -> bool:
        """Whether a request is being worked on; a peer that does not take its answer is idle."""
        return self._task is not None

    def _on_readable(self) -> None:
        try:
            n = self._sock.recv_into(memoryview(self._buffer)[self._filled :])
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            n = 0
        if n == 0:
            self.close()
            return
        self.last_active = time.monotonic()
        self._filled += n
        self._handle_frames()

    def _handle_frames(self) -> None:
        """Work on the frames that are complete until one has to wait or none is left."""
        while not self.busy and self._sock.fileno() >= 0:
            have = self._filled - self._start
            if have < 4:
                break
            size = int.from_bytes(self._buffer[self._start : self._start + 4], "big", signed=True)
            if not 0 <= size <= self._max_frame:
                log.warning(
                    "%s: a request of %d bytes is refused (socket.request.max.bytes %d)",
                    self.peer,
                    size,
                    self._max_frame,
                )
                self.close()
                return
            if have < size + 4:
                break
            begin = self._start + 4
            self._start = begin + size
            self._handle(memoryview(self._buffer)[begin : self._start])
        if not self.busy and self._sock.fileno() >= 0:
            self._make_room()
            self._read_on()

    def _handle(self, frame: memoryview) -> None:
        try:
            answer = self._service(frame, self)
        except HangupError as reason:
            log.warning("%s: %s; the connection is closed", self.peer, reason)
            self.close()
            return
        except Exception:
            # a bug of ours: this client must not wait for ever, the others must not notice
            log.exception("%s: a request failed", self.peer)
            self.close()
            return
        if answer is None:
            return
        if isinstance(answer, Awaitable):
            self._stop_reading()
            self._task = asyncio.ensure_future(answer)
            self._task.add_done_callback(self._on_answer)
        else:
            self._send(answer)

    def _on_answer(self, task: asyncio.Future[Reply]) -> None:
        self._task = None
        if self._sock.fileno() < 0:
            if not task.cancelled() and task.exception() is None:
                release(task.result() or ())
            return
        if task.cancelled():
            self.close()
            return
        error = task.exception()
        if error is not None:
            if not isinstance(error, HangupError):
                log.error("%s: a request failed", self.peer, exc_info=error)
            self.close()
            return
        self._send(task.result() or ())
        self._handle_frames()

    def _make_room(self) -> None:
        """Move an unfinished frame to the front and give it as much room as its bytes so far deserve."""
        buffer, start, have = self._buffer, self._start, self._filled - self._start
        wanted = FIRST_BUFFER_BYTES
        if have >= 4:
            size = 4 + int.from_bytes(buffer[start : start + 4], "big", signed=True)
            wanted = min(max(size, FIRST_BUFFER_BYTES), max(GROWTH * have, KEPT_BUFFER_BYTES))
        if wanted > len(buffer) or (len(buffer) > KEPT_BUFFER_BYTES and have < KEPT_BUFFER_BYTES >= wanted):
            grown = bytearray(wanted)
            grown[:have] = memoryview(buffer)[start : self._filled]
            self._buffer = grown
        elif start:
            view = memoryview(buffer)
            view[:have] = bytes(view[start : self._filled]) if have else b""
        self._start, self._filled = 0, have

    def _send(self, chunks: Sequence[Chunk]) -> None:
        self._out = list(chunks)
        self._flush()

    def _flush(self) -> None:
        """Send what the socket takes; the rest waits for it to be writable."""
        try:
            while self._out:
                head = self._out[0]
                if isinstance(head, (bytes, bytearray, memoryview)):
                    self._send_buffers()
                else:
                    self._send_file(head)
        except (BlockingIOError, InterruptedError):
            self._stop_reading()
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._sock.fileno(), self._on_writable)
            return
        except OSError:
            self.close()
            return
        self._stop_writing()

    def _send_buffers(self) -> None:
        out = self._out
        n = 0
        while n < len(out) and n < IOV_MAX and isinstance(out[n], (bytes, bytearray, memoryview)):
            n += 1
        # MSG_MORE: a file range follows, and header and data should share a packet
        sent = self._sock.sendmsg(out[:n], (), socket.MSG_MORE if n < len(out) else 0)  # type: ignore[arg-type]
        done = 0
        while done < n and sent >= len(out[done]):  # type: ignore[arg-type]
            sent -= len(out[done])  # type: ignore[arg-type]
            done += 1
        if sent:
            out[done] = memoryview(out[done])[sent:]  # type: ignore[arg-type]
        del out[:done]

    def _send_file(self, piece: FileRange) -> None:
        if piece.nbytes > 0:
            sent = os.sendfile(self._sock.fileno(), piece.fileno(), piece.position, piece.nbytes)
            if sent == 0:
                raise OSError("a log file ended before the bytes that were promised")
            if sent < piece.nbytes:
                self._out[0] = _Rest(piece, sent)
                return
        piece.release()
        del self._out[0]

    def _on_writable(self) -> None:
        self._flush()
        self.last_active = time.monotonic()
        if not self._out:
            self._handle_frames()

    def _read_on(self) -> None:
        if not self._reading:
            self._reading = True
            self._loop.add_reader(self._sock.fileno(), self._on_readable)

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._sock.fileno())

    def _stop_writing(self) -> None:
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._sock.fileno())


class _Rest:
    """The unsent end of a file range."""

    __slots__ = ("_whole", "nbytes", "position")

    def __init__(self, whole: FileRange, sent: int) -> None:
        self._whole = whole
        self.position = whole.position + sent
        self.nbytes = whole.nbytes - sent

    def fileno(self) -> int:
        return self._whole.fileno()

    def release(self) -> None:
        self._whole.release()


def release(chunks: Sequence[Chunk]) -> None:
    """Let go of the files in an answer that will not be sent."""
    for chunk in chunks:
        if not isinstance(chunk, (bytes, bytearray, memoryview)):
            chunk.release()


class Listener:
    """One listening address and the connections that came in through it."""

    def __init__(
        self,
        name: str,
        service: Service,
        *,
        max_frame_bytes: int,
        max_connections: int,
        max_connections_per_ip: int,
        idle_ms: int,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
    ) -> None:
        self.name = name
        self.connections: set[Connection] = set()
        self._service = service
        self._max_frame_bytes = max_frame_bytes
        self._max_connections = max_connections
        self._max_per_ip = max_connections_per_ip
        self._idle_seconds = idle_ms / 1000
        self._buffers = ((socket.SO_SNDBUF, send_buffer_bytes), (socket.SO_RCVBUF, receive_buffer_bytes))
        self._by_ip: dict[str, int] = {}
        self._sock: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None

    def bind(self, host: str, port: int, backlog: int) -> int:
        """Take the address; returns the port (a free one for 0). StartupError where it cannot be had."""
        try:
            found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            # of a name with several addresses the IPv4 one, where clients look first
            family, kind, proto, _, address = min(found, key=lambda f: f[0] != socket.AF_INET)
            sock = socket.socket(family, kind, proto)
            try:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind(address)
                sock.listen(backlog)
            except OSError:
                sock.close()
                raise
        except OSError as error:
            raise StartupError(
                f"listeners: {self.name}://{host}:{port} cannot be bound: {error.strerror}; is it in use?"
            ) from None
        sock.setblocking(False)
        self._sock = sock
        return int(sock.getsockname()[1])

    def start(self) -> None:
        """Begin to accept."""
        assert self._sock is not None, "bind() comes first"
        asyncio.get_running_loop().add_reader(self._sock.fileno(), self._accept)
        if self._idle_seconds >= 0:
            self._timer = asyncio.get_running_loop().call_later(IDLE_CHECK_SECONDS, self._close_idle)

    def stop_accepting(self) -> None:
        """Take no new connections; those that are there go on."""
        if self._timer is not None:
            self._timer.cancel()
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
            ip = connection.peer.rpartition(":")[0]
            left = self._by_ip[ip] - 1
            if left:
                self._by_ip[ip] = left
            else:
                del self._by_ip[ip]

    def _accept(self) -> None:
        assert self._sock is not None
        try:
            sock, address = self._sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            # EMFILE and its like: the peer stays in the backlog; without a pause the loop would spin
            log.error("cannot accept a connection: %s", error.strerror)
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._sock.fileno())
            loop.call_later(ACCEPT_BACKOFF_SECONDS, self._accept_again)
            return
        ip = str(address[0])
        if len(self.connections) >= self._max_connections or self._by_ip.get(ip, 0) >= self._max_per_ip:
            log.warning("%s: refused, max.connections or max.connections.per.ip is reached", ip)
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option, size in self._buffers:
            if size > 0:
                sock.setsockopt(socket.SOL_SOCKET, option, size)
        self._by_ip[ip] = self._by_ip.get(ip, 0) + 1
        connection = Connection(sock, f"{ip}:{address[1]}", self, self._service, self._max_frame_bytes)
        self.connections.add(connection)
        connection.start()

    def _accept_again(self) -> None:
        if self._sock is not None and self._sock.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self._sock.fileno(), self._accept)

    def _close_idle(self) -> None:
        deadline = time.monotonic() - self._idle_seconds
        for connection in list(self.connections):
            if connection.last_active < deadline and not connection.working:
                connection.close()
        self._timer = asyncio.get_running_loop().call_later(IDLE_CHECK_SECONDS, self._close_idle)
