"""The client's side of a connection: requests, and responses in the same order.

Kafka's `KafkaChannel` and `InFlightRequests`.

The socket is non-blocking and registered directly with the event loop. Requests are sent as soon as the socket accepts
them, without waiting for responses. The peer answers in the order of the requests, so a response belongs to the oldest
request in flight. After an unexpected response or a timeout, this order can no longer be relied on, so the connection
is closed. Not thread-safe: event loop only.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from ottla import errors
from ottla.net.client.channel_metrics import NodeMetrics
from ottla.net.client.connect import (
    SocketOptions,
    connection_error,
    foreign_protocol,
    open_connection,
    pending_tls_error,
    reason,
)
from ottla.protocol.framing import FrameReader, request_frame
from ottla.protocol.header import decode_response_header
from ottla.protocol.message import Request, Response, decode
from ottla.protocol.wire import Chunk, content_of, size_of

log = logging.getLogger("ottla.net")

R = TypeVar("R", bound=Response)

MAX_RESPONSE_BYTES: Final = 512 * 1024 * 1024
"""Maximum size of a response in bytes. If the length field is larger, the peer is assumed not to be a Kafka broker."""
TRUST_BYTES: Final = 16 * 1024 * 1024
"""Maximum size in bytes of a response whose buffer is allocated at once. For larger ones it grows as bytes arrive."""
MAX_CHUNKS: Final = 512
"""Maximum number of buffers passed to one sendmsg; Linux accepts 1024."""
SILENT_HINT: Final = "; is it a Kafka broker, and does security.protocol match its listener?"
"""Text that is appended to the error if a peer does not answer the first request."""
FIRST_BYTES: Final = 20
"""Maximum number of bytes of the first response that are checked to see whether the peer is a Kafka broker."""
LOW_WATER_BYTES: Final = 128 * 1024
"""Minimum number of missing bytes of a response for which the socket is readable only once they have arrived."""
MAX_LOW_WATER_BYTES: Final = 1024 * 1024
"""Maximum number of bytes that the socket waits for. The kernel may lower it, depending on its receive buffer."""
READS_IN_A_ROW: Final = 16
"""Maximum number of consecutive reads from one socket before other sockets are read."""


class InFlight(NamedTuple):
    """A request in flight. `response`: the future of its response. `deadline`: loop time at which it times out."""

    correlation_id: int
    request: type[Request[Any]]
    version: int
    response: asyncio.Future[Any]
    deadline: float


class Channel:
    """One connection to one broker.

    Call `connect` first. After `close`, or when the peer has disconnected, every `send` fails.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        host: str,
        port: int,
        *,
        client_id: str,
        options: SocketOptions = SocketOptions(),  # noqa: B008  (frozen)
        on_close: Callable[[Channel], None] | None = None,
        metrics: NodeMetrics | None = None,
    ) -> None:
        self.loop = loop
        self.host = host
        self.port = port
        self.client_id = client_id
        self.options = options
        self.on_close = on_close
        self.metrics = metrics
        self.error: errors.KafkaError | None = None
        """The error with which the connection was closed; None before that."""
        self.was_connected: bool = False
        self._answers = 0
        """The number of responses received, counted up to two."""
        self.last_used: float = loop.time()
        self.in_flight: deque[InFlight] = deque()
        self._socket: socket.socket | None = None
        self._frames = FrameReader(MAX_RESPONSE_BYTES, trust_bytes=TRUST_BYTES)
        self._low_water = 1
        self._outgoing: deque[Chunk] = deque()
        self._writing = False
        self._when_written: deque[asyncio.Future[None]] = deque()
        self._correlation_id = 0
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Channel {self.host}:{self.port} {self.error or 'open'}>"

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._socket is not None and self.error is None

    async def connect(self) -> None:
        """Connect. Raises BrokerConnectionError, whose text has the address and the reason; if the TLS handshake fails
        permanently, its subclass SslAuthenticationError.
        """
        limit = self.options.connect_timeout
        try:
            async with asyncio.timeout(limit):
                self._socket = await open_connection(self.loop, self.host, self.port, self.options)
        except TimeoutError:
            self.close(
                errors.BrokerConnectionError(
                    f"{self._peer}: no connection within {limit:.2g} s; does a firewall drop packets to this address?"
                )
            )
        except OSError as error:
            self.close(connection_error(error, self._peer) or errors.BrokerConnectionError(self._describe(error)))
        except asyncio.CancelledError:
            self.close(errors.BrokerConnectionError(f"{self._peer}: connecting was cancelled"))
            raise
        if self.error is not None:
            raise self.error
        assert self._socket is not None
        self.was_connected = True
        self.loop.add_reader(self._socket, self._readable)
        self.last_used = self.loop.time()

    @property
    def _peer(self) -> str:
        return f"{self.host}:{self.port}"

    def _describe(self, error: OSError) -> str:
        return f"{self._peer}: {reason(error)}{self._hint if self.was_connected else ''}"

    @property
    def _hint(self) -> str:
        """A hint about what to check if the peer disconnects before the first response, or before the second one.

        Empty after the second response.
        """
        if self._answers == 0:
            return " without a response; does security.protocol match this listener?"
        return "" if self._answers > 1 else " after ApiVersions; does the listener require SASL (security.protocol)?"

    # requests

    def send(self, request: Request[R], version: int, timeout: float) -> asyncio.Future[R]:
        """Send a request, and return the future of its response.

        The future fails with RequestTimedOutError after `timeout` seconds. This also closes the connection, because the
        response may still arrive. If the connection is lost, the future fails with its error.
        """
        response: asyncio.Future[R] = self.loop.create_future()
        if not self.is_open:
            response.set_exception(self.error or errors.NetworkError(f"{self._peer}: not connected"))
            return response
        correlation_id = self._next_id()
        chunks = request_frame(request, version, correlation_id, self.client_id)
        deadline = self.loop.time() + timeout
        self.in_flight.append(InFlight(correlation_id, type(request), version, response, deadline))
        self._send(chunks)
        self._watch(deadline)
        return response

    def send_without_response(self, request: Request[Any], version: int) -> asyncio.Future[None]:
        """Send a request that has no response (acks=0), and return a future.

        It completes when the socket has accepted the whole request, and fails if the connection is closed before.
        """
        if self.is_open:
            self._send(request_frame(request, version, self._next_id(), self.client_id))
        taken: asyncio.Future[None] = self.loop.create_future()
        if not self.is_open:
            taken.set_exception(self.error or errors.NetworkError(f"{self._peer}: not connected"))
        elif not self._outgoing:
            taken.set_result(None)
        else:
            self._when_written.append(taken)
        return taken

    def _next_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        self.last_used = self.loop.time()
        return self._correlation_id

    # writing

    def _send(self, chunks: list[Chunk]) -> None:
        if self.metrics is not None:
            self.metrics.requests.record(sum(map(size_of, chunks)))
        self._outgoing.extend(chunks)
        if not self._writing:
            self._write()

    def _write(self) -> None:
        """Write as much as the socket accepts. Continue when it is writable again."""
        assert self._socket is not None
        try:
            while self._outgoing:
                self._write_some()
        except (BlockingIOError, InterruptedError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            if not self._writing:
                self._writing = True
                self.loop.add_writer(self._socket, self._write)
            return
        except OSError as error:
            why = connection_error(error, self._peer) or pending_tls_error(self._socket, self._peer)
            self.close(why or errors.NetworkError(self._describe(error)))
            return
        if self._writing:
            self._writing = False
            self.loop.remove_writer(self._socket)
        while self._when_written:
            _complete(self._when_written.popleft(), None)

    def _write_some(self) -> None:
        assert self._socket is not None
        out = self._outgoing
        if isinstance(self._socket, ssl.SSLSocket):
            self._sent(self._socket.send(content_of(out[0])))
        elif len(out) <= MAX_CHUNKS:
            self._sent(self._socket.sendmsg(map(content_of, out)))
        else:
            self._sent(self._socket.sendmsg([content_of(out[i]) for i in range(MAX_CHUNKS)]))

    def _sent(self, count: int) -> None:
        """Remove the `count` bytes that were sent from the outgoing chunks."""
        if self.metrics is not None:
            self.metrics.sent.record(count)
        out = self._outgoing
        while count:
            first = memoryview(content_of(out[0]))
            if count < first.nbytes:
                out[0] = first[count:]
                return
            count -= first.nbytes
            out.popleft()
        while out and not memoryview(content_of(out[0])).nbytes:
            out.popleft()

    # reading

    def _readable(self) -> None:
        self._read()
        if self.error is None:
            self._set_low_water()

    def _read(self) -> None:
        assert self._socket is not None
        try:
            for _ in range(READS_IN_A_ROW):
                space = self._frames.space()
                count = self._socket.recv_into(space)
                if not count:
                    self.close(errors.NetworkError(f"{self._peer}: the peer closed the connection{self._hint}"))
                    return
                if self.metrics is not None:
                    self.metrics.received.record(count)
                first = bytes(space[: min(count, FIRST_BYTES)]) if self._answers == 0 else b""
                if first and (foreign := foreign_protocol(first, self._peer)):
                    self.close(foreign)
                    return
                for frame in self._frames.received(count):
                    self._handle_response(frame)
                if self.error is not None or count < len(space):
                    return
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except errors.MalformedMessageError as error:
            self.close(error)
        except OSError as error:
            self.close(connection_error(error, self._peer) or errors.NetworkError(self._describe(error)))

    def _set_low_water(self) -> None:
        """Let the socket become readable only when the rest of a large response, or a MiB of it, has arrived.

        Otherwise, it becomes readable for every 64 KiB, and waking the event loop takes longer than copying them. Does
        nothing on other systems than Linux, and with TLS.
        """
        missing = self._frames.missing
        low = 1 if missing < LOW_WATER_BYTES else min(missing, MAX_LOW_WATER_BYTES)
        if low != self._low_water and type(self._socket) is socket.socket and sys.platform == "linux":
            self._low_water = low
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low)

    def _handle_response(self, frame: memoryview) -> None:
        """Complete the oldest request with its response."""
        if self.metrics is not None:
            self.metrics.responses.record(frame.nbytes + 4)
        if not self.in_flight:
            raise errors.MalformedMessageError(f"{self._peer}: received a response without a request")
        sent = self.in_flight.popleft()
        key = sent.request.API_KEY
        try:
            correlation_id, pos = decode_response_header(frame, key, sent.version)
            if correlation_id != sent.correlation_id:
                raise errors.MalformedMessageError(
                    f"{self._peer}: received response {correlation_id} instead of {sent.correlation_id}"
                )
            version = _version_of_answer(sent, frame, pos)
            response = decode(sent.request.RESPONSE, frame, version, pos)
        except errors.MalformedMessageError as error:
            _fail(sent.response, error)
            raise
        if self._answers < 2:
            self._answers += 1
        self.last_used = self.loop.time()
        _complete(sent.response, response)

    # timeouts and closing

    def _watch(self, deadline: float) -> None:
        """Schedule a check of timeouts at `deadline`, or earlier."""
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = self.loop.call_at(deadline, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer = None
        now = self.loop.time()
        late = [sent for sent in self.in_flight if sent.deadline <= now]
        if late:
            what = late[0].request.NAME
            self.close(
                errors.RequestTimedOutError(
                    f"{self._peer} did not answer {what} in time{SILENT_HINT if self._answers == 0 else ''}"
                )
            )
        elif self.in_flight:
            self._watch(min(request.deadline for request in self.in_flight))

    def close(self, error: errors.KafkaError | None = None) -> None:
        """Close the connection. Requests in flight fail with `error`; None for a NetworkError. Idempotent."""
        if self.error is not None:
            return
        self.error = error or errors.NetworkError(f"{self._peer}: the connection was closed")
        if self._socket is not None:
            self.loop.remove_reader(self._socket)
            self.loop.remove_writer(self._socket)
            self._socket.close()
        if self._timer is not None:
            self._timer.cancel()
        self._outgoing.clear()
        while self.in_flight:
            _fail(self.in_flight.popleft().response, self.error)
        while self._when_written:
            _fail(self._when_written.popleft(), self.error)
        if self.on_close is not None:
            self.on_close(self)


def _version_of_answer(sent: InFlight, frame: memoryview, pos: int) -> int:
    """Return the version of a response: that of the request, but 0 if the broker does not support the version of
    ApiVersions.
    """
    if sent.request.API_KEY == 18 and bytes(frame[pos : pos + 2]) == b"\x00\x23":
        return 0
    return sent.version


def _complete(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: errors.KafkaError) -> None:
    if not future.done():
        future.set_exception(error)
        # marks the error as retrieved, because the caller may have been cancelled
        future.exception()
