"""A plain blocking connection: one request, one response. Kafka 0.8's `BlockingChannel`.

It uses no event loop and no thread. Every wait for the peer ends after the timeout, even if the peer sends single
bytes, and in the main thread on Ctrl+C. Another thread may call `disconnect`, which ends a `send` or `receive` that
waits.
"""

from __future__ import annotations

import socket
import time
from typing import Any, Final, NamedTuple

from ottla.errors import BrokerConnectionError, MalformedMessageError, NetworkError, RequestTimedOutError
from ottla.protocol.framing import FrameReader, request_frame
from ottla.protocol.header import decode_response_header
from ottla.protocol.message import Request, Response, decode
from ottla.protocol.wire import content_of

MAX_RESPONSE_BYTES: Final = 512 * 1024 * 1024
"""Maximum size of a response in bytes. If the length field is larger, the peer is assumed not to be a Kafka broker."""
USE_DEFAULT_BUFFER_SIZE: Final = -1


class Sent(NamedTuple):
    """The request that was sent last and has no response yet."""

    request: type[Request[Any]]
    version: int
    correlation_id: int


class BlockingChannel:
    """One connection to one broker.

    Buffer sizes are in bytes; -1 for the system's default. `read_timeout_ms` applies to each of connecting, sending and
    receiving.
    """

    def __init__(
        self,
        host: str,
        port: int,
        read_buffer_size: int = USE_DEFAULT_BUFFER_SIZE,
        write_buffer_size: int = USE_DEFAULT_BUFFER_SIZE,
        read_timeout_ms: int = 10_000,
    ) -> None:
        self.host = host
        self.port = port
        self.read_buffer_size = read_buffer_size
        self.write_buffer_size = write_buffer_size
        self.read_timeout_ms = read_timeout_ms
        self._socket: socket.socket | None = None
        self._frames = FrameReader(MAX_RESPONSE_BYTES)
        self._sent: Sent | None = None

    @property
    def is_connected(self) -> bool:
        """Whether the connection is open on this side."""
        return self._socket is not None

    def connect(self) -> None:
        """Open the connection if it is closed. Raises BrokerConnectionError if that fails."""
        if self._socket is not None:
            return
        try:
            sock = self._connected()
        except OSError as error:
            raise BrokerConnectionError(f"{self.host}:{self.port}: {error.strerror or error}") from None
        self._frames = FrameReader(MAX_RESPONSE_BYTES)
        self._sent = None
        self._socket = sock

    def _connected(self) -> socket.socket:
        """Connect to the first reachable address of the host.

        Raises OSError if none is reachable within the timeout.
        """
        deadline = time.monotonic() + self.read_timeout_ms / 1000
        last: OSError = OSError(f"{self.host} has no address")
        for family, kind, _, _, address in socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM):
            sock = socket.socket(family, kind)
            try:
                self._tune(sock)
                sock.settimeout(max(0.001, deadline - time.monotonic()))
                sock.connect(address)
            except OSError as error:
                sock.close()
                last = error
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        raise last

    def _tune(self, sock: socket.socket) -> None:
        if self.read_buffer_size > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.read_buffer_size)
        if self.write_buffer_size > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.write_buffer_size)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: Request[Any], version: int, correlation_id: int, client_id: str) -> None:
        """Send a request. Raises NetworkError if there is no connection or it is lost, and RequestTimedOutError if the
        peer does not read the request in time.
        """
        sock = self._open()
        data = b"".join(map(content_of, request_frame(request, version, correlation_id, client_id)))
        try:
            sock.settimeout(self.read_timeout_ms / 1000)  # raises if another thread has just disconnected
            sock.sendall(data)
        except TimeoutError:
            raise self._late(type(request)) from None
        except OSError as error:
            raise self._lost(error) from None
        self._sent = Sent(type(request), version, correlation_id)

    def receive(self) -> Response:
        """Return the response to the last request.

        Raises NetworkError if there is no connection, it is lost, or no request waits for a response,
        RequestTimedOutError after the timeout, and MalformedMessageError if the response is invalid.
        """
        sock, sent = self._open(), self._sent
        if sent is None:
            raise NetworkError(f"{self.host}:{self.port}: no request was sent")
        self._sent = None
        frame = self._frame(sock, sent)
        correlation_id, pos = decode_response_header(frame, sent.request.API_KEY, sent.version)
        if correlation_id != sent.correlation_id:
            raise MalformedMessageError(
                f"{self.host}:{self.port}: received response {correlation_id} instead of {sent.correlation_id}"
            )
        response: Response = decode(sent.request.RESPONSE, frame, sent.version, pos)
        return response

    def _frame(self, sock: socket.socket, sent: Sent) -> memoryview:
        deadline = time.monotonic() + self.read_timeout_ms / 1000
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._late(sent.request)
            try:
                sock.settimeout(left)
                count = sock.recv_into(self._frames.space())
            except TimeoutError:
                raise self._late(sent.request) from None
            except OSError as error:
                raise self._lost(error) from None
            if not count:
                raise NetworkError(f"{self.host}:{self.port}: the peer closed the connection")
            for frame in self._frames.received(count):
                return frame

    def disconnect(self) -> None:
        """Close the connection. Idempotent; may be called from any thread."""
        sock, self._socket = self._socket, None
        if sock is None:
            return
        try:
            sock.shutdown(socket.SHUT_RDWR)  # closing the descriptor alone would not end the wait of a reading thread
        except OSError:
            pass
        sock.close()

    def _open(self) -> socket.socket:
        if self._socket is None:
            raise NetworkError(f"{self.host}:{self.port}: not connected")
        return self._socket

    def _late(self, request: type[Request[Any]]) -> RequestTimedOutError:
        return RequestTimedOutError(f"{self.host}:{self.port} did not answer {request.NAME} in time")

    def _lost(self, error: OSError) -> NetworkError:
        return NetworkError(f"{self.host}:{self.port}: {error.strerror or error}")
