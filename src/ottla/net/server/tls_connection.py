"""A client's connection with TLS: frames and responses as in `connection`, after a handshake.

Reading and writing of bytes differ. OpenSSL reads one TLS record at a time, and may keep a part of it that the socket
does not report (`pending`). A write that the socket has rejected must be repeated with the same bytes. Each direction
may have to wait for the other. Files are read by Python, because they have to be encrypted: one record at a time, so
that a slow peer uses little memory. A peer that does not complete the handshake in time is disconnected.
Not thread-safe: event loop only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla import page_cache
from ottla.config.broker.principal_rules import Rule, mapped
from ottla.net.server.connection import USER, Connection, Owner, Service, UnsentBytes
from ottla.net.server.memory_pool import MemoryPool
from ottla.security.tls.distinguished_name import subject_of

log = logging.getLogger("ottla.net")

HANDSHAKE_SECONDS = 30.0
"""Maximum time in seconds for the handshake, after which the connection is closed."""
UNEXPECTED_MESSAGE: Final = bytes((21, 3, 3, 0, 2, 2, 10))
"""The TLS alert unexpected_message, sent to a client that does not use TLS, so that it can report the cause."""
HELLO: Final = b"\x16"
"""The first byte that a TLS client sends."""
RECORD_BYTES: Final = 16384
"""Maximum size in bytes of the content of a TLS record."""
IN_A_ROW: Final = 64
"""Maximum number of calls of `_read_records` in a row, and of records that one `_flush` writes, before the connection
lets others run.
"""
DISCARD_BYTES: Final = 65536


class TlsSettings(NamedTuple):
    """The TLS context of a listener, and the mapping of certificates to user names.

    `with_sasl`: whether SASL follows the handshake, and authenticates the client.
    """

    context: ssl.SSLContext
    rules: tuple[Rule, ...] = (Rule(),)
    with_sasl: bool = False


class TlsConnection(Connection):
    """A client's TLS connection.

    If the client presents a certificate, the certificate's subject, mapped by ssl.principal.mapping.rules, becomes
    `user` in the connection's state.
    """

    __slots__ = ("_deadline", "_sealed", "_security")

    def __init__(
        self,
        sock: socket.socket,
        peer: str,
        listener: Owner,
        service: Service,
        memory: MemoryPool,
        max_frame: int,
        *,
        security: TlsSettings,
    ) -> None:
        super().__init__(sock, peer, listener, service, memory, max_frame)
        self._security = security
        self._deadline: asyncio.TimerHandle | None = None
        self._sealed = False  # whether OpenSSL may have already encrypted the first pending data as a record

    def start(self) -> None:
        """Wait for the handshake. The memory for TLS is allocated when its first byte has arrived."""
        self._deadline = self._loop.call_later(HANDSHAKE_SECONDS, self._too_late)
        self._wait(self._on_hello)

    def _close(self, *, cancel: bool) -> None:
        """Send TLS's close_notify if TLS is in use and the socket accepts it at once, and close."""
        if self._deadline is not None:
            self._deadline.cancel()
        if isinstance(self._sock, ssl.SSLSocket):
            with contextlib.suppress(OSError, ValueError):
                self._sock.unwrap()
        super()._close(cancel=cancel)

    # handshake

    def _on_hello(self) -> None:
        try:
            first = self._sock.recv(1, socket.MSG_PEEK)
        except OSError:
            first = b""
        if first != HELLO:
            if first:
                log.warning(
                    "Closing the connection of %s: it does not use TLS, but listener %s does",
                    self.peer,
                    self.listener.name,
                )
                with contextlib.suppress(OSError):
                    self._sock.recv(DISCARD_BYTES)  # with unread bytes the kernel would reset the connection
                    self._sock.send(UNEXPECTED_MESSAGE)
            self.close()
            return
        try:
            self._sock = self._security.context.wrap_socket(self._sock, server_side=True, do_handshake_on_connect=False)
        except (OSError, ValueError):
            # the peer has disconnected
            assert self._deadline is not None
            self._deadline.cancel()
            self._sock.close()
            self._forgotten()
            return
        self._handshake()

    def _handshake(self) -> None:
        assert isinstance(self._sock, ssl.SSLSocket)
        try:
            self._sock.do_handshake()
        except ssl.SSLWantReadError:
            self._wait(self._handshake)
        except ssl.SSLWantWriteError:
            self._wait(self._handshake, writable=True)
        except (OSError, ValueError) as error:
            self._reject(error)
        else:
            self._begin()

    def _begin(self) -> None:
        """Map the client's certificate, if there is one, to a user, and start to read requests. Reject the client if
        its certificate cannot be mapped.
        """
        assert isinstance(self._sock, ssl.SSLSocket)
        assert self._deadline is not None
        self._deadline.cancel()
        certificate = self._sock.getpeercert(binary_form=True)
        if certificate:
            try:
                subject = subject_of(certificate)
            except ValueError as error:
                self._reject(error)
                return
            user = mapped(self._security.rules, subject)
            if user is None:
                self._reject(ValueError(f"no rule of ssl.principal.mapping.rules matches {subject}"))
                return
            self.state[USER] = user
        if not self._security.with_sasl:
            self.listener.counts.authenticated += 1
        self._read_on()

    def _reject(self, error: Exception) -> None:
        self.listener.counts.failed_authentication += 1
        is_disconnected = isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError))
        log.log(
            logging.INFO if is_disconnected else logging.WARNING,
            "Closing the connection of %s: TLS handshake on listener %s failed: %s",
            self.peer,
            self.listener.name,
            failure_text(error),
        )
        # with unread bytes the kernel would reset the connection, and the peer would not receive the alert
        with contextlib.suppress(OSError):
            socket.socket.recv(self._sock, DISCARD_BYTES)
        self.close()

    def _too_late(self) -> None:
        log.warning(
            "Closing the connection of %s: no TLS handshake on listener %s within %g s",
            self.peer,
            self.listener.name,
            HANDSHAKE_SECONDS,
        )
        self.close()

    # waiting for the other direction

    def _wait(self, then: Callable[[], None], *, writable: bool = False) -> None:
        """Call `then` when the socket is readable, or, if `writable` is true, when it is writable."""
        self._stop_reading()
        self._stop_writing()
        if writable:
            self._writing = True
            self._loop.add_writer(self._sock.fileno(), self._resume_with, then)
        else:
            self._reading = True
            self._loop.add_reader(self._sock.fileno(), self._resume_with, then)

    def _resume_with(self, then: Callable[[], None]) -> None:
        self._stop_reading()
        self._stop_writing()
        then()

    # reading

    def _peeked(self) -> tuple[bool, bool]:
        # The bytes in the socket may be the end of TLS or further requests. The kernel only knows the end of the
        # connection.
        has_gone = self._is_half_closed()
        return not has_gone, has_gone

    def _on_readable(self) -> None:
        if self._task is not None:
            self._check_for_disconnect()
            return
        for _ in range(IN_A_ROW):
            if not self._reading:
                return
            if not self._read_records():
                return
        self._loop.call_soon(self._on_readable)

    def _read_records(self) -> bool:
        """Read and process bytes. Return whether to call this again without waiting for the socket."""
        assert isinstance(self._sock, ssl.SSLSocket)
        before = len(self._stash) if self._buffer is None else self._filled
        error = self._fill(self._buffer or self._take_buffer())
        if self._filled > before:
            self.last_active = time.monotonic()
            self._handle_frames()
            # other errors occur again with the next read
            return not isinstance(error, ssl.SSLWantReadError) and (error is not None or self._sock.pending() > 0)
        if isinstance(error, ssl.SSLWantReadError):
            self._make_room()
        elif isinstance(error, ssl.SSLWantWriteError):
            if self._make_room():
                self._wait(self._read_again, writable=True)
        else:
            self.close()
        return False

    def _fill(self, buffer: bytearray) -> OSError | None:
        """Read until a request is complete, the buffer is full, or a read fails, because some clients send a TLS record
        for every few bytes. Return the error of the failed read, or None.
        """
        room = memoryview(buffer)
        try:
            while self._filled < len(buffer):
                n = self._sock.recv_into(room[self._filled :])
                if n == 0:
                    return ConnectionResetError()
                self._filled += n
                size = int.from_bytes(buffer[self._start : self._start + 4], "big")
                if self._filled - self._start - 4 >= size:
                    return None
        except OSError as error:
            return error
        return None

    def _read_again(self) -> None:
        self._read_on()
        self._on_readable()

    def _read_on(self) -> None:
        assert isinstance(self._sock, ssl.SSLSocket)
        if not self._reading:
            super()._read_on()
            if self._sock.pending():
                self._loop.call_soon(self._on_readable)

    # writing

    def _flush(self) -> None:
        try:
            with page_cache.cached_only():
                for _ in range(IN_A_ROW):
                    if not self._out:
                        break
                    self._send_record()
        except page_cache.NotCachedError:
            self._stop_writing()
            self._load(self._out[0])  # type: ignore[arg-type]  # only a file is read
            return
        except ssl.SSLWantWriteError:
            self._write_later()
            return
        except ssl.SSLWantReadError:
            self._wait(self._on_writable)
            return
        except OSError:
            self.close()
            return
        if self._out:
            self._write_later()
        else:
            self._stop_writing()

    def _send_record(self) -> None:
        if not self._sealed:
            self._seal()
        if not self._sealed:
            return
        head = self._out[0]
        assert isinstance(head, memoryview)
        sent = self._sock.send(head)
        if sent < len(head):
            self._out[0] = head[sent:]
        else:
            del self._out[0]
            self._sealed = False

    def _seal(self) -> None:
        """Join the first pieces of the pending data, at most RECORD_BYTES, so that they are sent in one record."""
        pieces: list[bytes | memoryview] = []
        room = RECORD_BYTES
        while self._out and room:
            try:
                piece = self._cut(room)
            except page_cache.NotCachedError:
                if not pieces:
                    raise
                break
            room -= len(piece)
            pieces.append(piece)
        record = b"".join(pieces)
        if record:
            self._out.insert(0, memoryview(record))
            self._sealed = True

    def _cut(self, most: int) -> bytes | memoryview:
        """Remove the next bytes, at most `most`, from the pending data, and return them."""
        head = self._out[0]
        if isinstance(head, (bytes, bytearray, memoryview)):
            view = memoryview(head)
            if len(view) > most:
                self._out[0] = view[most:]
            else:
                del self._out[0]
            return view[:most]
        read = page_cache.pread(head.fileno(), min(most, head.nbytes), head.position)
        if not read and head.nbytes:
            raise OSError("a log file ended early")
        if len(read) < head.nbytes:
            rest = self._out[0] = head if isinstance(head, UnsentBytes) else UnsentBytes(head)
            rest.advance(len(read))
        else:
            head.release()
            del self._out[0]
        return read


CERTIFICATE_ALERTS: Final = frozenset(
    {"bad certificate", "certificate expired", "certificate revoked", "certificate unknown", "unknown ca"}
)
"""The TLS alerts of a client that does not accept the broker's certificate."""


def failure_text(error: Exception) -> str:
    """Return the reason for the failure of a TLS handshake, for log lines."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate was rejected ({error.verify_message})"
    if isinstance(error, ssl.SSLError) and error.reason:
        reason = error.reason.replace("_", " ").lower()
        if "alert" not in reason:
            return reason
        about = reason.partition("alert ")[2]
        if about in CERTIFICATE_ALERTS:
            return f"the client rejected this broker's certificate ({about})"
        return f"the client ended it ({reason})"
    return str(error)
