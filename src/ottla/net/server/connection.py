"""One client's socket: frames in, answers out, in order and within bounds.

Sockets are non-blocking and sit directly on the event loop (`add_reader`, `recv_into`, `sendmsg`, `sendfile`), which
serves 40 % more requests than asyncio's protocols do. Per connection one request is worked on at a time, as in Kafka:
the next one is not read before the answer to the last one is written, which bounds the memory of a connection and
keeps answers in order. While a request is worked on, views into its frame stay valid.

A connection that waits for its peer holds no buffer: one is taken when bytes come, and given back when they are worked
on. Everything here runs on the loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from ottla.logs import RateLimitFilter
from ottla.net.server.memory_pool import LARGE_BYTES, STANDARD_BYTES, MemoryPool

log = logging.getLogger("ottla.net")
log.addFilter(RateLimitFilter())

Buffer = bytes | bytearray | memoryview
SLOW_REQUEST_SECONDS = 10.0
"""How long a large request may take to arrive while others wait for its memory."""
USER = "user"
"""Where a connection's state has the user's name; a client that has not said who it is has none."""
TLS_HELLO = 0x1603
"""What a peer's first words begin with, when it speaks TLS."""
TCP_CLOSE, TCP_CLOSE_WAIT = 7, 8
MSG_MORE: Final[int] = getattr(socket, "MSG_MORE", 0)  # Linux only; elsewhere a packet more is sent
"""States of a socket whose peer has gone (linux/tcp_states.h)."""
LOOK_SECONDS = 1.0
"""Between looks whether a peer has gone that has sent more than the request that is worked on."""
IOV_MAX = 512
"""Buffers handed to one sendmsg; the kernel takes 1,024."""


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


class Owner(Protocol):
    """The listener that a connection came in through."""

    name: str

    def forget(self, connection: Connection) -> None:
        """The connection is closed."""
        ...


class CloseConnectionError(Exception):
    """Raised by the service to have the connection closed: the peer does not speak the protocol, or is not let in.

    `pending_tls_error` are an answer that is sent before, as far as the socket takes it at once.
    """

    def __init__(self, reason: str, pending_tls_error: Reply = None) -> None:
        super().__init__(reason)
        self.pending_tls_error = pending_tls_error


class Service(Protocol):
    """What stands behind a listener."""

    def __call__(self, frame: memoryview, connection: Connection) -> Reply | Awaitable[Reply]:
        """Answer one request, at once where that is possible. `frame` is valid until the answer is there."""
        ...


class Connection:
    """One client: its unfinished request, the request being worked on, and the part of an answer still to be sent."""

    __slots__ = (
        "_buffer",
        "_filled",
        "_frame_began",
        "_frame_free",
        "_loop",
        "_memory",
        "_out",
        "_pause",
        "_proven",
        "_reading",
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
        """The most bytes of a request; above them the peer is cut off."""
        self._buffer: bytearray | None = None
        self._start = 0  # where the first unhandled frame begins
        self._filled = 0  # where received bytes end
        self._stash = b""  # the beginning of a frame, while no buffer is held
        self._frame_began = 0.0  # when a frame began that does not fit the standard buffer
        self._frame_free = False  # whether the request being worked on needs its frame no more
        self._proven = False  # has sent a large frame to its end, so the next one gets its room at once
        self._out: list[Chunk] = []
        self._reading = self._writing = False
        self._task: asyncio.Future[Reply] | None = None
        self._throttle_seconds = 0.0
        self._pause: asyncio.TimerHandle | None = None
        self.peer = peer
        self.listener = listener
        self.state: dict[str, object] = {}
        """What is kept per connection: its user, once it has said who it is, and the client's software."""
        self.on_close: list[Callable[[], None]] = []
        """Called once, when the peer has gone: nobody waits for a response any more."""
        self.last_active = time.monotonic()

    def start(self) -> None:
        """Begin to read."""
        self._read_on()

    def close(self) -> None:
        """Drop the peer; a request being worked on is cancelled."""
        self._close(cancel=True)

    def _close(self, *, cancel: bool) -> None:
        if self._sock.fileno() < 0:
            return
        self._stop_reading()
        self._stop_writing()
        if self._pause is not None:
            self._pause.cancel()
        if self._task is not None:
            if cancel:
                self._task.cancel()
            self._buffer = None  # it goes with the task: views into it may be alive
        self._let_go()
        release(self._out)
        self._out = []
        self._sock.close()
        self._forgotten()

    def _forgotten(self) -> None:
        """The socket is closed: tell those who count on it."""
        self.listener.forget(self)
        self._tell_gone()

    def throttle(self, seconds: float) -> None:
        """Read nothing more for this long after the answer to the present request (KIP-219)."""
        self._throttle_seconds = max(self._throttle_seconds, seconds)

    def release_frame(self) -> None:
        """The request being worked on has been read out of its frame; the buffer can serve others while it waits."""
        self._frame_free = True
        if self._task is not None:
            self._make_room()

    @property
    def busy(self) -> bool:
        """Whether a request is being worked on or its answer is being sent."""
        return self._task is not None or bool(self._out)

    @property
    def working(self) -> bool:
        """Whether the peer waits for us; one that does not take its answer is idle."""
        return self._task is not None or self._pause is not None

    @property
    def held_bytes(self) -> int:
        """Bytes of buffers that this connection holds."""
        return len(self._buffer or b"") + len(self._stash)

    def _on_readable(self) -> None:
        if self._task is not None:
            self._look_for_end()
            return
        buffer = self._buffer or self._take_buffer()
        try:
            n = self._sock.recv_into(memoryview(buffer)[self._filled :])
        except (BlockingIOError, InterruptedError):
            self._make_room()
            return
        except OSError:
            n = 0
        if n == 0:
            self.close()
            return
        self.last_active = time.monotonic()
        self._filled += n
        self._handle_frames()

    def _look_for_end(self) -> None:
        """While a request is worked on, see whether its peer has gone.

        Nobody waits for the response any more then. What the request changes is carried out all the same, but who waits
        on the peer's behalf ends that (`on_close`), and the descriptor is free at once. If the peer has sent more
        requests before it went, they are worked on first: of acks=0 there may be no other copy.
        """
        if self._task is None or self._sock.fileno() < 0:
            return
        has_more, has_gone = self._peeked()
        has_more = has_more or self._has_unhandled
        if has_gone and not has_more:
            self._close(cancel=False)
            return
        if has_gone:
            self._tell_gone()
        elif has_more:
            self._loop.call_later(LOOK_SECONDS, self._look_for_end)
        if has_more:
            self._stop_reading()

    @property
    def _has_unhandled(self) -> bool:
        """Whether there are bytes behind the request that is worked on."""
        return bool(self._stash) or (self._buffer is not None and self._filled > self._start)

    def _peeked(self) -> tuple[bool, bool]:
        """Whether there is more to read, and whether nothing comes after that."""
        try:
            if not self._sock.recv(1, socket.MSG_PEEK):
                return False, True
        except (BlockingIOError, InterruptedError):
            return False, False
        except OSError:
            return False, True
        return True, self._is_half_closed()

    def _is_half_closed(self) -> bool:
        """Return whether the client has closed its side although there is data to read; only Linux reports this."""
        if sys.platform != "linux":
            return False
        try:
            return self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in (TCP_CLOSE, TCP_CLOSE_WAIT)
        except OSError:
            return False

    def _tell_gone(self) -> None:
        callbacks, self.on_close = self.on_close, []
        for callback in callbacks:
            callback()

    def _handle_frames(self) -> None:
        """Work on the frames that are complete until one has to wait or none is left."""
        while not self.busy and self._pause is None and self._sock.fileno() >= 0:
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
            self._begin_pause()
        if self._sock.fileno() < 0 or (self._task is not None and not self._frame_free):
            return
        if self._make_room() and not self.busy and self._pause is None:
            self._read_on()

    def _frame_size(self) -> int | None:
        """The length that the unfinished frame claims; None while it is not known, or when it is refused."""
        if self._filled - self._start < 4:
            return None
        assert self._buffer is not None
        size = int.from_bytes(self._buffer[self._start : self._start + 4], "big", signed=True)
        if 0 <= size <= self.max_frame:
            return size
        if size >> 16 == TLS_HELLO:
            log.warning(
                "%s: it speaks TLS, listener %s does not; the connection is closed", self.peer, self.listener.name
            )
        else:
            log.warning(
                "%s: a request of %d bytes is refused; the most is %d (socket.request.max.bytes, and"
                " sasl.server.max.receive.size before it is known who it is)",
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
            log.warning("%s: %s; the connection is closed", self.peer, reason)
            self._hang_up(reason)
            return
        except Exception:
            # a bug of ours: this client must not wait for ever, the others must not notice
            log.exception("%s: a request failed", self.peer)
            self.close()
            return
        if answer is None:
            return
        if isinstance(answer, Awaitable):
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
            if isinstance(error, CloseConnectionError):
                self._hang_up(error)
                return
            log.error("%s: a request failed", self.peer, exc_info=error)
            self.close()
            return
        self._send(task.result() or ())
        self._begin_pause()
        self.resume()

    def _hang_up(self, reason: CloseConnectionError) -> None:
        if reason.pending_tls_error:
            self._send(reason.pending_tls_error)
        self.close()

    def _begin_pause(self) -> None:
        if self._throttle_seconds and self._task is None and self._sock.fileno() >= 0:
            self._pause = self._loop.call_later(self._throttle_seconds, self._end_pause)
            self._throttle_seconds = 0.0
            self._stop_reading()

    def _end_pause(self) -> None:
        self._pause = None
        self.resume()

    # Memory

    def _take_buffer(self) -> bytearray:
        """A buffer with what came before in it."""
        buffer = self._buffer = self._memory.allocate(STANDARD_BYTES)
        self._filled = len(self._stash)
        buffer[: self._filled] = self._stash
        self._stash = b""
        return buffer

    def _make_room(self) -> bool:
        """Move an unfinished frame to where the next bytes can follow it; False when it has to wait for memory."""
        buffer, start, have = self._buffer, self._start, self._filled - self._start
        if buffer is None:
            return True
        size = self._frame_size() or 0
        if self._sock.fileno() < 0:
            return False
        if size + 4 <= STANDARD_BYTES >= have:
            # the rest of a small frame: exact bytes, so that a slow peer holds no more than it sent
            self._stash = bytes(memoryview(buffer)[start : self._filled])
            self._let_go()
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
        elif start:
            self._move(buffer, start, have)
        self._start, self._filled = 0, have
        return True

    @staticmethod
    def _move(buffer: bytearray, start: int, have: int) -> int:
        view = memoryview(buffer)
        view[:have] = bytes(view[start : start + have])
        return have

    def _let_go(self) -> None:
        """Hold no buffer."""
        if self._buffer is not None:
            self._memory.release(self._buffer)
            self._buffer = None
        self._start = self._filled = 0
        if self._frame_began:
            self._frame_began = 0.0
            self._memory.drop(self)

    def resume(self) -> None:
        """Go on after a pause, or when memory is there again."""
        if self._sock.fileno() >= 0:
            if self._stash:
                self._take_buffer()
            self._handle_frames()

    def overdue(self) -> bool:
        """Whether the peer has had its time to send the rest of a large request."""
        return not self.busy and 0 < self._frame_began < time.monotonic() - SLOW_REQUEST_SECONDS

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
        out = self._out
        n = 0
        while n < len(out) and n < IOV_MAX and isinstance(out[n], (bytes, bytearray, memoryview)):
            n += 1
        # MSG_MORE: a file range follows, and header and data should share a packet
        sent = self._sock.sendmsg(out[:n], (), MSG_MORE if n < len(out) else 0)  # type: ignore[arg-type]
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
                self._out[0] = UnsentBytes(piece, sent)
                return
        piece.release()
        del self._out[0]

    def _on_writable(self) -> None:
        self._flush()
        self.last_active = time.monotonic()
        if not self._out:
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


def _rounded(nbytes: int) -> int:
    """The size of the buffer for a large frame: one that is kept for the next, where that is enough."""
    return LARGE_BYTES if STANDARD_BYTES < nbytes <= LARGE_BYTES else nbytes


class UnsentBytes:
    """The unsent end of a file range."""

    __slots__ = ("_whole", "nbytes", "position")

    def __init__(self, whole: FileRange, sent: int) -> None:
        # of the range itself, not of its last rest: a slow peer takes a large one in thousands of pieces
        self._whole: FileRange = whole._whole if isinstance(whole, UnsentBytes) else whole
        self.position = whole.position + sent
        self.nbytes = whole.nbytes - sent

    def fileno(self) -> int:
        """The open file's descriptor."""
        return self._whole.fileno()

    def release(self) -> None:
        """The last bytes are sent, or never will be."""
        self._whole.release()


def release(chunks: Sequence[Chunk]) -> None:
    """Let go of the files in an answer that will not be sent."""
    for chunk in chunks:
        if not isinstance(chunk, (bytes, bytearray, memoryview)):
            chunk.release()
