"""Opens connections (addresses of the host, socket options, TLS handshake), and explains their errors."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ottla.errors import KafkaError, MalformedMessageError, SslAuthenticationError
from ottla.net.client.dns import addresses_of

WRONG_NAME: Final = (62, 64)
"""OpenSSL's error codes if a certificate is for another name: X509_V_ERR_HOSTNAME_MISMATCH and _IP_ADDRESS_MISMATCH."""
OUTDATED: Final = (9, 10)
"""OpenSSL's error codes if a certificate is not valid now: X509_V_ERR_CERT_NOT_YET_VALID and _HAS_EXPIRED."""
NO_TLS: Final = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "HTTPS_PROXY_REQUEST",
    "RECORD_LAYER_FAILURE",
    "PACKET_LENGTH_TOO_LONG",
)
"""OpenSSL's error reasons if the peer does not send TLS."""
TLS_ENDED: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""The errors that Python raises if the peer closes a TLS connection."""
TLS_ALERT: Final = b"\x15\x03"
"""The first bytes of a TLS alert, which a TLS server sends to a plaintext client."""
FOREIGN_BYTES: Final = 20
"""Maximum number of bytes that an error shows of an answer in another protocol than Kafka's."""


class SocketOptions(NamedTuple):
    """Options of new connections.

    Sizes are in bytes; -1 for the system's default. `connect_timeout` is in seconds. `more`: arguments of further
    setsockopt calls. `ssl_context`: None for a connection without TLS.
    """

    receive_buffer_bytes: int = -1
    send_buffer_bytes: int = -1
    connect_timeout: float = 10.0
    more: tuple[tuple[int, int, int], ...] = ()
    ssl_context: ssl.SSLContext | None = None
    ssl_check_hostname: bool = True


async def open_connection(
    loop: asyncio.AbstractEventLoop, host: str, port: int, options: SocketOptions
) -> socket.socket:
    """Return a connected, non-blocking socket, after the TLS handshake if the options have an SSL context.

    The caller limits the time. Raises OSError, of which ssl.SSLError is a subclass.
    """
    sock = await _connect_any(loop, host, port, options)
    if options.ssl_context is None:
        return sock
    name = host if options.ssl_check_hostname or options.ssl_context.check_hostname else None
    try:
        secure = options.ssl_context.wrap_socket(sock, server_hostname=name, do_handshake_on_connect=False)
    except BaseException:
        sock.close()
        raise
    try:
        await _handshake(loop, secure)
    except BaseException:
        secure.close()
        raise
    return secure


async def _connect_any(loop: asyncio.AbstractEventLoop, host: str, port: int, options: SocketOptions) -> socket.socket:
    """Connect to the first reachable address of the host (KIP-302). Raises the last OSError if none is reachable."""
    addresses = await addresses_of(loop, host, port)
    for number, (family, address) in enumerate(addresses, 1):
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            _tune(sock, options)
            await loop.sock_connect(sock, address)
        except OSError:
            sock.close()
            if number == len(addresses):
                raise
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise OSError(f"{host} has no address")


def _tune(sock: socket.socket, options: SocketOptions) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if options.receive_buffer_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
    if options.send_buffer_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)
    for option in options.more:
        sock.setsockopt(*option)


async def _handshake(loop: asyncio.AbstractEventLoop, secure: ssl.SSLSocket) -> None:
    while True:
        try:
            secure.do_handshake()
        except ssl.SSLWantReadError:
            await _until(loop, secure, loop.add_reader, loop.remove_reader)
        except ssl.SSLWantWriteError:
            await _until(loop, secure, loop.add_writer, loop.remove_writer)
        else:
            return


async def _until(
    loop: asyncio.AbstractEventLoop, sock: socket.socket, add: Callable[..., None], remove: Callable[..., Any]
) -> None:
    ready = loop.create_future()
    add(sock, _complete, ready)
    try:
        await ready
    finally:
        remove(sock)


def _complete(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def reason(error: OSError) -> str:
    """Return a text that explains why a connection failed or was lost, with what to check if one cause is likely."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused; is a broker running at this address?"
    if isinstance(error, socket.gaierror):
        return f"{error.strerror}; is the host name right?"
    if isinstance(error, TLS_ENDED) or (isinstance(error, ssl.SSLError) and "EOF" in (error.reason or "")):
        return "the peer closed the connection in the TLS handshake; does the listener use TLS (security.protocol)?"
    if isinstance(error, ConnectionResetError):
        return "the peer reset the connection"
    if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return f"{os.strerror(error.errno)}; are address and network right?"
    return str(error.strerror or error)


def connection_error(error: OSError, peer: str) -> KafkaError | None:
    """Return the error to raise for a permanent TLS error, with the config to check; None for any other error."""
    if isinstance(error, ssl.SSLCertVerificationError):
        what = error.verify_message.rstrip(".")
        if error.verify_code in WRONG_NAME:
            hint = "connect to a name that is in the certificate; see ssl.endpoint.identification.algorithm"
        elif error.verify_code in OUTDATED:
            hint = "renew the broker's certificate, ssl.keystore.location of the broker; is this machine's clock right?"
        else:
            hint = "set ssl.truststore.location to a file with the broker's CA; not set, the system's CAs are trusted"
        return SslAuthenticationError(f"{peer}: the broker's certificate is rejected: {what} ({hint})")
    if isinstance(error, ssl.SSLError) and not isinstance(error, TLS_ENDED):
        why = error.reason or str(error)
        if why in NO_TLS:
            return SslAuthenticationError(
                f"{peer}: the peer does not use TLS ({why}); set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or "
                "use the port of a listener with TLS"
            )
        if "CERTIFICATE" in why:
            return SslAuthenticationError(
                f"{peer}: the broker requires a client certificate, or rejected this one: {why} "
                "(see ssl.keystore.location)"
            )
        return SslAuthenticationError(f"{peer}: the TLS handshake failed: {why} (see ssl.enabled.protocols)")
    return None


def foreign_protocol(first: bytes, peer: str) -> KafkaError | None:
    """Return the error to raise if the first bytes of a response are not of Kafka's protocol; None if they may be.

    For a TLS alert it is an SslAuthenticationError, otherwise a MalformedMessageError, after which clients try again,
    because another server may use the port until the broker starts.
    """
    if first.startswith(b"HTTP/"):
        return MalformedMessageError(f"{peer}: an HTTP server answers, not a Kafka broker; is the port right?")
    if first[:2] == TLS_ALERT:
        return SslAuthenticationError(
            f"{peer}: the listener uses TLS; set security.protocol to SSL or SASL_SSL, or use the port of a listener "
            "without"
        )
    if first[:4].isascii() and first[:4].decode().isprintable():
        shown = first[:FOREIGN_BYTES]
        return MalformedMessageError(
            f"{peer}: another server answers, not a Kafka broker, with {shown!r}; is the port right?"
        )
    return None


def pending_tls_error(sock: socket.socket | None, peer: str) -> KafkaError | None:
    """Return the error for a TLS alert that the peer has sent before it disconnected; None if there is none."""
    if not isinstance(sock, ssl.SSLSocket):
        return None
    try:
        sock.recv(1)
    except OSError as error:
        return connection_error(error, peer)
    return None
