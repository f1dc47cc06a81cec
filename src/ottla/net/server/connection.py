"""A client's connection: receives requests and sends responses, in order and with limited memory.

Sockets are non-blocking and registered directly with the event loop (`add_reader`, `recv_into`, `sendmsg`, `sendfile`).
This serves 40 % more requests than asyncio's protocols. As in Kafka, one request of a connection is processed at a
time: the next one is not processed before the response to the last one is written. This limits the memory of a
connection and keeps responses in order. Small responses are an exception: those to requests that a client has sent
ahead wait for each other, and are sent together within TURN_SECONDS, because each send wakes the client. While a
request is processed, views into its frame stay valid.

A connection that waits for its peer has no buffer, unless a part of a large request has arrived: it allocates one when
bytes arrive, and releases it when they are processed. Not thread-safe: event loop only.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Final, Protocol

from ottla import page_cache
from ottla.latency import LatencyHistogram
from ottla.logs import RateLimitFilter, message_and_host
from ottla.net.server.memory_pool import LARGE_BYTES, STANDARD_BYTES, MemoryPool

log = logging.getLogger("ottla.net")
log.addFilter(RateLimitFilter(per_window=5, key=message_and_host))
log.addFilter(RateLimitFilter())

Buffer = bytes | bytearray | memoryview
SLOW_REQUEST_SECONDS = 10.0
"""Time in seconds after which a peer that has not completed a large request is disconnected, if other connections wait
for memory.
"""
USER = "user"
"""The key of the user's name in a connection's state; absent while the client is not authenticated."""
BY_TOKEN = "by token"
"""The key in a connection's state whose value is true if the client has authenticated with a delegation token."""
TLS_HELLO = 0x1603
"""The first two bytes that a TLS client sends, as a number."""
TCP_CLOSE, TCP_CLOSE_WAIT = 7, 8
"""States of a socket whose peer has closed the connection (linux/tcp_states.h)."""
MSG_MORE: Final[int] = getattr(socket, "MSG_MORE", 0)  # Linux only; other systems send one packet more
ONE_PACKET_BYTES: Final = 60 * 1024
"""Maximum size in bytes of a file range that shares a packet with the buffer before it. A packet has up to 17 pieces of
memory, one for each page of the file; more would need a second one, for which the kernel wakes the client again.
"""
DISCONNECT_CHECK_SECONDS = 1.0
"""Interval in seconds between checks whether a peer has disconnected.

Only used if the peer has sent data beyond the request in progress: the socket is then not read, so its end would not be
noticed.
"""
RECEIVES: Final = 16
"""Maximum number of calls of recv before other connections have their turn: about a MiB of a large request."""
TURN_SECONDS: Final = 0.00025
"""Time in seconds after which a connection that has sent several requests ahead gives others their turn, and the
maximum time that a response waits for those to the requests behind it.
"""
HELD_BYTES: Final = 4096
"""Maximum size in bytes of a response that waits for others."""
IOV_MAX = 512
"""Maximum number of buffers passed to one sendmsg; the kernel accepts 1024."""
FILE_BYTES: Final = 1024 * 1024
"""Maximum number of bytes of a file per sendfile, which then takes about 0.2 ms.

A worker reads as much at a time if the file is not cached.
"""
COPIED_BYTES: Final = 24 * 1024
"""Maximum size in bytes of a file range that is read and sent together with others: up to here, copying takes less time
than the system calls and packets of a sendfile for each.
"""
COPIED_AT_ONCE: Final = 256 * 1024
"""Maximum total size in bytes of the file ranges that are read and sent together. `socket.send.buffer.bytes` is 100 KiB
by default, which the kernel doubles.
"""
PROBED_SECONDS: Final = 0.1
"""Time in seconds for which bytes that were found in the page cache are assumed to stay there."""


class FileRange(Protocol):
    """A range of bytes in a file, which the kernel can send without Python reading them."""

    @property
    def nbytes(self) -> int: ...

    @property
    def position(self) -> int:
        """The position of the first byte in the file."""
        ...

    def fileno(self) -> int: ...

    def release(self) -> None:
        """Release the file, because the bytes were sent or will not be sent."""
        ...


Chunk = Buffer | FileRange
Reply = Sequence[Chunk] | None
"""A framed response in pieces; None if the protocol has no response (acks=0)."""


class Owner(Protocol):
    """The listener of a connection."""

    name: str
    counts: ConnectionCounts

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection."""
        ...


class ConnectionCounts:
    """Numbers of connections of one listener since the start, by event."""

    __slots__ = (
        "accepted",
        "authenticated",
        "closed",
        "expired",
        "failed_authentication",
        "reauthenticated",
        "rejected",
    )

    def __init__(self) -> None:
        self.accepted = self.rejected = self.closed = 0
        self.authenticated = self.reauthenticated = self.failed_authentication = self.expired = 0


class CloseConnectionError(Exception):
    """Raised by the service to close the connection, for example because the peer violates the protocol or is not
    authenticated.

    `response` is sent before the connection is closed, as far as the socket accepts it at once. If it is None, the
    connection logs the reason; otherwise, the service has already logged it.
    """

    def __init__(self, reason: str, response: Reply = None) -> None:
        super().__init__(reason)
        self.response = response


class Service(Protocol):
    """Processes the requests of a listener."""

    def __call__(self, frame: memoryview, connection: Connection, /) -> Reply | Awaitable[Reply]:
        """Process one request, and return its response, or an awaitable of it.

        `frame` is valid until the response is complete.
        """
        ...


class Connection:
    """A client's connection: its incomplete request, the request in progress, and the unsent part of a response."""

    __slots__ = (
        "_buffer",
        "_filled",
        "_frame_began",
        "_frame_free",
        "_held",
        "_hold_until",
        "_is_check_scheduled",
        "_is_continuing",
        "_is_loading",
        "_loop",
        "_memory",
        "_out",
        "_pause",
        "_proven",
        "_reading",
        "_send_began",
        "_service",
        "_sock",
        "_start",
        "_stash",
        "_task",
        "_throttle_seconds",
        "_writing",
        "last_active",
        "listener",
        "max_frame",
        "on_close",
        "peer",
        "send_times",
        "state",
    )

    def __init__(
        self,
        sock: socket.socket,
        peer: str,
        listener: Owner,
        service: Service,
        memory: MemoryPool,
        max_frame: int,
    ) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._service = service
        self._memory = memory
        self.max_frame = max_frame
        """Maximum size in bytes of a request; a larger one closes the connection."""
        self._buffer: bytearray | None = None
        self._start = 0  # start of the first unprocessed frame in the buffer
        self._filled = 0  # end of the received bytes in the buffer
        self._stash = b""  # the start of a frame while there is no buffer
        self._frame_began = 0.0  # start time of a frame that is larger than the standard buffer; 0 if there is none
        self._frame_free = False  # whether the request in progress has released its frame
        self._proven = (
            False  # whether the peer has sent a complete large frame; the next one then gets its buffer at once
        )
        self._out: list[Chunk] = []
        self._held: list[Chunk] = []  # responses that wait for those to the next requests; empty between turns
        self._hold_until = 0.0  # the time until which responses may wait; 0 between turns
        self._is_continuing = False  # whether more is received in this turn, because the last recv filled the buffer
        self._reading = self._writing = False
        self._is_loading = False  # whether a worker is reading the next bytes to send from the disk
        self._is_check_scheduled = False  # whether a timer will check for a disconnect of the peer
        self._task: asyncio.Future[Reply] | None = None
        self._throttle_seconds = 0.0
        self._send_began = 0.0  # start time of a response that the socket did not accept at once; 0 if there is none
        self.send_times: LatencyHistogram | None = None
        """Records the time until the socket has accepted a response, unless it does so at once; None: not recorded."""
        self._pause: asyncio.TimerHandle | None = None
        self.peer = peer
        self.listener = listener
        self.state: dict[str, object] = {}
        """State of the connection: the authenticated user, the client's software and more."""
        self.on_close: list[Callable[[], None]] = []
        """Functions to call once, when the connection is closed or the peer has closed its side. Nothing should wait
        for the peer after that. Requests that it sent before are still processed.
        """
        self.last_active = time.monotonic()

    def start(self) -> None:
        """Start reading."""
        self._read_on()

    def close(self) -> None:
        """Close the connection, and cancel the request in progress."""
        self._close(cancel=True)

    def _close(self, *, cancel: bool) -> None:
        self._end_turn()
        if self._sock.fileno() < 0:
            return
        self._stop_reading()
        self._stop_writing()
        if self._pause is not None:
            self._pause.cancel()
        if self._task is not None:
            if cancel:
                self._task.cancel()
            self._buffer = None  # the task will release it, because there may be views into it
        self._release_buffers()
        release(self._out)
        self._out = []
        self._sock.close()
        self._forgotten()

    def _forgotten(self) -> None:
        """Remove the closed connection from its listener, and call the functions in `on_close`."""
        self.listener.forget(self)
        self._notify_closed()

    def throttle(self, seconds: float) -> None:
        """Stop reading for `seconds` after the current response, or longer if that was requested before (KIP-219)."""
        self._throttle_seconds = max(self._throttle_seconds, seconds)

    def release_frame(self) -> None:
        """Release the frame of the request in progress, because nothing refers to it any longer."""
        self._frame_free = True
        if self._task is not None:
            self._make_room()

    @property
    def busy(self) -> bool:
        """Whether a request is in progress or its response is being sent."""
        return self._task is not None or bool(self._out)

    @property
    def working(self) -> bool:
        """Whether the client waits for the broker. A client that does not read its response counts as idle."""
        return self._task is not None or self._pause is not None or self._is_loading

    @property
    def held_bytes(self) -> int:
        """Bytes of the buffers that this connection holds."""
        return len(self._buffer or b"") + len(self._stash)

    def _on_readable(self) -> None:
        if self._task is not None:
            self._read_ahead()
            return
        self._hold_until = time.monotonic() + TURN_SECONDS
        self._receive_requests(self._hold_until)
        self._end_turn()

    def _end_turn(self) -> None:
        """Send the responses that were held back to be sent together. Until the next turn begins, each response is sent
        at once.
        """
        self._hold_until = 0.0
        if self._held:
            self._send(())

    def _receive_requests(self, end: float) -> None:
        """Receive and process requests until no more have arrived, the connection has to wait, or its turn is over.
        `end`: the time after which a full buffer does not extend the turn.
        """
        for i in range(1, RECEIVES + 1):
            buffer = self._buffer or self._take_buffer()
            n = self._receive(buffer)
            # After a full buffer, the rest of a large request or the next one is usually there. A turn of the event
            # loop costs more than to look for it.
            self._is_continuing = self._filled == len(buffer) and i < RECEIVES and self.last_active < end
            if n is None:
                self._make_room()
                return
            if n == 0:
                self.close()
                return
            self._handle_frames()
            if not self._reading or self._task is not None or (self._buffer is None and not self._is_continuing):
                return

    def _read_ahead(self) -> None:
        """Receive further requests while one is in progress, as many as the buffer has room for.

        Otherwise, the socket would have to be removed from the selector, and added again after the response. The buffer
        does not grow: a client whose request waits for long must not take memory from others meanwhile.
        """
        buffer = self._buffer or self._take_buffer()
        if self._filled == len(buffer):
            self._check_for_disconnect()
        elif self._receive(buffer) == 0:
            self._on_end(has_more=self._has_unhandled)
        elif self._frame_free and self._filled - self._start <= STANDARD_BYTES:
            self._stash_rest(buffer)

    def _receive(self, buffer: bytearray) -> int | None:
        """Receive bytes into the rest of the buffer. Return how many: 0 if the peer has disconnected, None if there are
        none yet.
        """
        try:
            n = self._sock.recv_into(memoryview(buffer)[self._filled :])
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return 0
        if n:
            self.last_active = time.monotonic()
            self._filled += n
        return n

    def _check_again(self) -> None:
        self._is_check_scheduled = False
        self._check_for_disconnect()

    def _check_for_disconnect(self) -> None:
        """Check whether the peer has disconnected while a request is in progress.

        If it has, the response cannot be sent. The request is completed nevertheless, but no longer waits for
        anything on behalf of the peer (`on_close`), and the file descriptor is released at once. If the peer has sent
        further requests, they are processed first, because a request with acks=0 is not sent again.
        """
        if self._task is None or self._sock.fileno() < 0:
            return
        has_more, has_gone = self._peeked()
        has_more = has_more or self._has_unhandled
        if has_gone:
            self._on_end(has_more=has_more)
        elif has_more:
            if not self._is_check_scheduled:
                self._is_check_scheduled = True
                self._loop.call_later(DISCONNECT_CHECK_SECONDS, self._check_again)
            self._stop_reading()

    def _on_end(self, *, has_more: bool) -> None:
        """Handle a disconnect of the peer while a request is in progress. `has_more`: whether it has sent others."""
        if not has_more:
            self._close(cancel=False)
            return
        self._notify_closed()
        self._stop_reading()

    @property
    def _has_unhandled(self) -> bool:
        """Whether there are bytes after the request in progress."""
        return bool(self._stash) or (self._buffer is not None and self._filled > self._start)

    def _peeked(self) -> tuple[bool, bool]:
        """Return whether there is more to read, and whether the peer has closed its side."""
        try:
            if not self._sock.recv(1, socket.MSG_PEEK):
                return False, True
        except (BlockingIOError, InterruptedError):
            return False, False
        except OSError:
            return False, True
        return True, self._is_half_closed()

    def _is_half_closed(self) -> bool:
        """Return whether the client has closed its side while there is data to read. Only Linux reports this."""
        if sys.platform != "linux":
            return False
        try:
            return self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in (TCP_CLOSE, TCP_CLOSE_WAIT)
        except OSError:
            return False

    def _notify_closed(self) -> None:
        callbacks, self.on_close = self.on_close, []
        for callback in callbacks:
            callback()

    def _handle_frames(self) -> None:
        """Process complete frames until none is left, one is not answered at once, or the connection is throttled."""
        while self._filled - self._start >= 4 and not self.busy and self._pause is None:
            size = self._frame_size()
            if size is None or self._filled - self._start < size + 4:
                break
            if size + 4 > STANDARD_BYTES:
                self._proven = True
                self._frame_began = time.monotonic() if self._frame_began else 0.0
            begin = self._start + 4
            self._start = begin + size
            assert self._buffer is not None
            self._handle(memoryview(self._buffer)[begin : self._start])
            if self._throttle_seconds:
                self._begin_pause()
        if self._sock.fileno() < 0 or (self._task is not None and not self._frame_free):
            return
        if self._make_room() and not self.busy and self._pause is None:
            self._read_on()

    def _frame_size(self) -> int | None:
        """Return the size of the next frame; None if it is not known yet. If it is invalid, close the connection, and
        return None.
        """
        if self._filled - self._start < 4:
            return None
        assert self._buffer is not None
        size = int.from_bytes(self._buffer[self._start : self._start + 4], "big", signed=True)
        if 0 <= size <= self.max_frame:
            return size
        if size >> 16 == TLS_HELLO:
            log.warning(
                "Closing the connection of %s: it uses TLS, but listener %s does not", self.peer, self.listener.name
            )
        else:
            log.warning(
                "Closing the connection of %s: a request size of %d bytes is negative or exceeds %d"
                " (socket.request.max.bytes; before authentication sasl.server.max.receive.size)",
                self.peer,
                size,
                self.max_frame,
            )
        self.close()
        return None

    def _handle(self, frame: memoryview) -> None:
        self._frame_free = False
        try:
            answer = self._service(frame, self)
        except CloseConnectionError as reason:
            self._close_for(reason)
            return
        except Exception:
            # A bug in the broker: close this connection, so that the client does not wait forever. Others are not
            # affected.
            log.exception("Closing the connection of %s after an unexpected error in a request", self.peer)
            self.close()
            return
        if answer is None:
            return
        if isinstance(answer, list) or not isinstance(answer, Awaitable):  # the first check is the faster one
            self._send(answer)
        else:
            self._task = asyncio.ensure_future(answer)
            self._task.add_done_callback(self._on_answer)

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
            if isinstance(error, CloseConnectionError):
                self._close_for(error)
                return
            log.error("Closing the connection of %s after an unexpected error in a request", self.peer, exc_info=error)
            self.close()
            return
        self._send(task.result() or ())
        self._begin_pause()
        self.resume()

    def _close_for(self, reason: CloseConnectionError) -> None:
        if reason.response:
            self._send(reason.response)
        else:
            log.warning("Closing the connection of %s: %s", self.peer, reason)
        self.close()

    def _begin_pause(self) -> None:
        if self._throttle_seconds and self._task is None and self._sock.fileno() >= 0:
            self._pause = self._loop.call_later(self._throttle_seconds, self._end_pause)
            self._throttle_seconds = 0.0
            self._stop_reading()

    def _end_pause(self) -> None:
        self._pause = None
        self.resume()

    # memory

    def _take_buffer(self) -> bytearray:
        """Allocate a buffer, and copy the bytes received before to its start."""
        buffer = self._buffer = self._memory.allocate(STANDARD_BYTES)
        if self._stash:
            self._filled = len(self._stash)
            buffer[: self._filled] = self._stash
            self._stash = b""
        return buffer

    def _make_room(self) -> bool:
        """Make room in the buffer for the rest of an incomplete frame.

        Return False if the connection has to wait for memory, or is closed, for example because the frame's size is
        invalid.
        """
        buffer, start, have = self._buffer, self._start, self._filled - self._start
        if buffer is None:
            return True
        if not have:
            self._release_buffers()
            return True
        size = self._frame_size() or 0
        if self._sock.fileno() < 0:
            return False
        if size + 4 <= STANDARD_BYTES >= have:
            if self._is_continuing and self._hold_until and not self.busy and self._pause is None:
                self._start, self._filled = 0, self._move(buffer, start, have)
            else:
                self._stash_rest(buffer)
            return True
        needed = _rounded(size + 4) if self._proven else min(size + 4, max(STANDARD_BYTES, 2 * have))
        if needed > len(buffer):
            if not self._frame_began:
                self._frame_began = time.monotonic()
            if not self._memory.hold(self, needed):
                self._start, self._filled = 0, self._move(buffer, start, have)
                self._stop_reading()
                return False
            grown = self._memory.allocate(needed)
            grown[:have] = memoryview(buffer)[start : self._filled]
            self._memory.release(buffer)
            self._buffer = grown
        elif start + min(needed, size + 4) > len(buffer):
            self._move(buffer, start, have)
        else:
            return True
        self._start, self._filled = 0, have
        return True

    def _stash_rest(self, buffer: bytearray) -> None:
        """Replace the buffer by a copy of its unprocessed bytes, so that a slow peer uses only the memory it needs."""
        self._stash = bytes(memoryview(buffer)[self._start : self._filled])
        self._release_buffers()

    @staticmethod
    def _move(buffer: bytearray, start: int, have: int) -> int:
        view = memoryview(buffer)
        view[:have] = view[start : start + have]  # overlapping views are copied correctly
        return have

    def _release_buffers(self) -> None:
        """Return the buffer and the memory of a large request to the memory pool."""
        if self._buffer is not None:
            self._memory.release(self._buffer)
            self._buffer = None
        self._start = self._filled = 0
        if self._frame_began:
            self._frame_began = 0.0
            self._memory.drop(self)

    def resume(self) -> None:
        """Process the requests that have been received, and continue reading, after a pause, a response, or a wait for
        memory.
        """
        if self._sock.fileno() >= 0:
            if self._stash:
                self._take_buffer()
            self._handle_frames()

    def overdue(self) -> bool:
        """Return whether the peer has not completed a large request within SLOW_REQUEST_SECONDS."""
        return not self.busy and 0 < self._frame_began < time.monotonic() - SLOW_REQUEST_SECONDS

    def _send(self, chunks: Sequence[Chunk]) -> None:
        """Send a response after those that wait, unless it may wait, too."""
        if self._hold_until and (self._is_continuing or self._filled > self._start) and self._may_wait(chunks):
            self._held += chunks
            return
        self._out = [*self._held, *chunks]
        self._held.clear()
        self._flush()
        if self._out:
            self._send_began = time.perf_counter()

    def _may_wait(self, response: Sequence[Chunk]) -> bool:
        """Return whether a response may wait for those to the next requests: a small one, not for long."""
        nbytes = 0
        for chunk in response:
            nbytes += len(chunk) if isinstance(chunk, (bytes, bytearray, memoryview)) else HELD_BYTES + 1
        now = time.monotonic()
        if now < self._hold_until:
            return nbytes <= HELD_BYTES
        self._hold_until = now + TURN_SECONDS
        return False

    def _flush(self) -> None:
        """Send as much as the socket accepts.

        Continue when it is writable again, or when a file has been read from the disk.
        """
        try:
            while self._out and not self._is_loading:
                head = self._out[0]
                if isinstance(head, (bytes, bytearray, memoryview)):
                    self._send_buffers()
                else:
                    self._send_file(head)
        except (BlockingIOError, InterruptedError):
            self._write_later()
            return
        except OSError:
            self.close()
            return
        self._stop_writing()

    def _write_later(self) -> None:
        self._stop_reading()
        if not self._writing:
            self._writing = True
            self._loop.add_writer(self._sock.fileno(), self._on_writable)

    def _send_buffers(self) -> None:
        """Send the buffers at the start of the response, together with short file ranges that follow."""
        out = self._out
        n = 0
        while n < len(out) and n < IOV_MAX and isinstance(out[n], (bytes, bytearray, memoryview)):
            n += 1
        if n == len(out) or _size(out[n]) > COPIED_BYTES:
            self._send_start(out[:n])  # type: ignore[arg-type]
            return
        copies = self._memory.allocate(LARGE_BYTES)
        try:
            self._send_start(_with_copies(out, memoryview(copies)))
        finally:
            self._memory.release(copies)

    def _send_start(self, buffers: list[Buffer]) -> None:
        """Send buffers that have the content of the first chunks, and remove from the chunks what was sent."""
        out = self._out
        shares_packet = len(buffers) < len(out) and _size(out[len(buffers)]) <= ONE_PACKET_BYTES
        sent = self._sock.sendmsg(buffers, (), MSG_MORE if shares_packet else 0)
        done = 0
        for buffer in buffers:
            if sent < len(buffer):
                break
            sent -= len(buffer)
            chunk = out[done]
            if chunk is not buffer:
                chunk.release()  # type: ignore[union-attr]  # a file range, of which the buffer is a copy
            done += 1
        if sent:
            chunk = out[done]
            if isinstance(chunk, (bytes, bytearray, memoryview)):
                out[done] = memoryview(chunk)[sent:]
            else:
                rest = out[done] = chunk if isinstance(chunk, UnsentBytes) else UnsentBytes(chunk, chunk.nbytes)
                rest.advance(sent)
        del out[:done]

    def _send_file(self, piece: FileRange) -> None:
        nbytes = piece.nbytes
        if nbytes > 0:
            fd, position = piece.fileno(), piece.position
            if isinstance(piece, UnsentBytes):
                cached = piece.probe()
            else:
                cached = page_cache.cached_bytes(fd, position, min(nbytes, FILE_BYTES))
            if cached == 0:
                self._load(piece)
                return
            sent = os.sendfile(self._sock.fileno(), fd, position, cached)
            if sent == 0:
                raise OSError("a log file ended early")
            if sent < nbytes:
                rest = self._out[0] = piece if isinstance(piece, UnsentBytes) else UnsentBytes(piece, cached)
                rest.advance(sent)
                return
        piece.release()
        del self._out[0]

    def _load(self, piece: FileRange) -> None:
        """Have a worker read the next bytes of a file into the page cache.

        Otherwise sendfile would block the event loop for the disk.
        """
        try:
            loading = page_cache.load(piece.fileno(), piece.position, min(piece.nbytes, FILE_BYTES))
        except OSError as error:  # out of descriptors
            log.warning("Closing the connection of %s: cannot read a log file from the disk: %s", self.peer, error)
            self.close()
            return
        self._is_loading = True
        self._stop_reading()
        loading.add_done_callback(self._on_loaded)

    def _on_loaded(self, _: asyncio.Future[None]) -> None:
        self._is_loading = False
        if self._sock.fileno() >= 0:
            self._on_writable()

    def _on_writable(self) -> None:
        self._flush()
        self.last_active = time.monotonic()
        if not self._out:
            if self._send_began and self.send_times is not None:
                self.send_times.record(time.perf_counter() - self._send_began)
            self._send_began = 0.0
            self.resume()

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


def _size(chunk: Chunk) -> int:
    return len(chunk) if isinstance(chunk, (bytes, bytearray, memoryview)) else chunk.nbytes


def _with_copies(chunks: Sequence[Chunk], room: memoryview) -> list[Buffer]:
    """Return the first chunks as buffers, with copies of file ranges in `room`, up to COPIED_AT_ONCE bytes.

    They end before a file range that is longer than COPIED_BYTES or not in the page cache.
    """
    buffers: list[Buffer] = []
    end = 0
    for chunk in islice(chunks, IOV_MAX):
        if isinstance(chunk, (bytes, bytearray, memoryview)):
            buffers.append(chunk)
            continue
        begin, end = end, end + chunk.nbytes
        if end > COPIED_AT_ONCE or chunk.nbytes > COPIED_BYTES:
            break
        copy = room[begin:end]
        if chunk.nbytes and page_cache.read_cached(chunk.fileno(), copy, chunk.position) < chunk.nbytes:
            break
        buffers.append(copy)
    return buffers


def _rounded(nbytes: int) -> int:
    """Return the buffer size for a frame: LARGE_BYTES, which is pooled, for a large one that fits; else `nbytes`."""
    return LARGE_BYTES if STANDARD_BYTES < nbytes <= LARGE_BYTES else nbytes


class UnsentBytes:
    """The unsent rest of a file range, and how much of it is known to be in the page cache."""

    __slots__ = ("_cached", "_probed_at", "_whole", "nbytes", "position")

    def __init__(self, whole: FileRange, cached: int = 0) -> None:
        """`cached`: the number of bytes that are known to be in the page cache."""
        self._whole = whole
        self.position = whole.position
        self.nbytes = whole.nbytes
        self._cached = cached
        """The number of bytes that were in the page cache at `_probed_at`, in seconds of `time.monotonic`."""
        self._probed_at = time.monotonic() if cached else 0.0

    def fileno(self) -> int:
        return self._whole.fileno()

    def probe(self) -> int:
        """Return how many bytes can be sent without waiting for the disk, at most FILE_BYTES.

        The page cache is not probed again within PROBED_SECONDS while it is known to have more than half of these
        bytes.
        """
        nbytes, now = min(self.nbytes, FILE_BYTES), time.monotonic()
        if self._cached <= nbytes // 2 or now - self._probed_at > PROBED_SECONDS:
            self._cached, self._probed_at = page_cache.cached_bytes(self.fileno(), self.position, nbytes), now
        return self._cached

    def advance(self, sent: int) -> None:
        """Move the start of the range past `sent` bytes, which were sent."""
        self.position += sent
        self.nbytes -= sent
        self._cached -= sent

    def release(self) -> None:
        self._whole.release()


def release(chunks: Sequence[Chunk]) -> None:
    """Release the files among the unsent pieces of a response."""
    for chunk in chunks:
        if not isinstance(chunk, (bytes, bytearray, memoryview)):
            chunk.release()
