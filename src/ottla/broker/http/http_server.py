"""The HTTP/1.1 server of a broker's pages, over h11, with limits on everything that a client controls.

h11 parses and validates, without I/O; this module handles sockets, timeouts and limits. A request may have 16 KiB of
headers and 64 KiB of a body, which is ignored. The first request of a connection must arrive within 10 seconds, and
each later one within 90 seconds after the previous response. The client must read a response within 30 seconds. Not
thread-safe: event loop only.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

import h11

from ottla.broker.http.pages import PAGES, HttpRequest, Page, plain
from ottla.broker.monitoring.observed_node import ObservedNode

log = logging.getLogger("ottla.http")

MAX_CONNECTIONS: Final = 64
MAX_HEAD_BYTES: Final = 16 * 1024
MAX_BODY_BYTES: Final = 64 * 1024
READ_BYTES: Final = 16 * 1024
REQUEST_SECONDS: Final = 10.0
"""Maximum time in seconds for the first request of a connection to arrive."""
IDLE_SECONDS: Final = 90.0
"""Maximum time in seconds from a response until the next request of the connection has arrived.

Prometheus usually scrapes at least every minute.
"""
RESPONSE_SECONDS: Final = 30.0
CLOSE_SECONDS: Final = 1.0
METHODS: Final = ("GET", "HEAD")
REALM: Final = 'Basic realm="ottla", charset="UTF-8"'


class Sending(NamedTuple):
    """Options for sending one page."""

    has_body: bool = True
    """False for HEAD."""
    closes: bool = False
    """Whether the connection is closed after the page."""


class HttpServer:
    """The connections of one HTTP listener."""

    def __init__(self, node: ObservedNode, passwords: Mapping[str, str]) -> None:
        """`passwords`: by user; if it is empty, pages are served to every client."""
        self._node = node
        self._passwords = passwords
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it is closed. If there are MAX_CONNECTIONS already, close it at once."""
        if len(self._connections) >= MAX_CONNECTIONS:
            writer.close()
            return
        self._connections[writer] = asyncio.current_task()
        try:
            await self._serve_requests(h11.Connection(h11.SERVER, MAX_HEAD_BYTES), reader, writer)
        except (TimeoutError, OSError):
            pass  # the client is too slow, or has disconnected
        except Exception:
            log.exception(
                "Unexpected error in a request to the HTTP listener from %s; closing the connection",
                writer.get_extra_info("peername"),
            )
        finally:
            del self._connections[writer]
            writer.close()

    async def close(self) -> None:
        """Close all connections."""
        for writer in self._connections:
            writer.transport.abort()
        tasks = [task for task in self._connections.values() if task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)

    async def _serve_requests(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        seconds = REQUEST_SECONDS
        while True:
            try:
                async with asyncio.timeout(seconds):
                    request = await _read_request(connection, reader)
            except h11.RemoteProtocolError as error:
                if connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                    status = error.error_status_hint
                    await _send(connection, writer, plain(status, f"{error}\n"), Sending(closes=True))
                return
            if request is None:
                return
            async with asyncio.timeout(RESPONSE_SECONDS):
                page = await self._page(request)
                method = request.method.decode()
                sending = Sending(has_body=method != "HEAD", closes=method not in METHODS)
                await _send(connection, writer, page, sending)
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()
            seconds = IDLE_SECONDS

    async def _page(self, event: h11.Request) -> Page:
        target = urlsplit(event.target.decode("latin-1"))
        page = PAGES.get(target.path)
        if event.method.decode() not in METHODS:
            return plain(405, "only GET and HEAD are allowed\n", (("Allow", ", ".join(METHODS)),))
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        if self._passwords and (page is None or page.is_protected) and not self._is_authorized(headers):
            return plain(
                401, "user and password of ottla.http.passwords are required\n", (("WWW-Authenticate", REALM),)
            )
        if page is None:
            return plain(404, f"no such page; there are {' '.join(sorted(PAGES))}\n")
        return await page.render(HttpRequest(self._node, parse_qs(target.query), headers))

    def _is_authorized(self, headers: Mapping[str, str]) -> bool:
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            user, _, password = base64.b64decode(credentials, validate=True).decode().partition(":")
        except ValueError:
            return False
        expected = self._passwords.get(user)
        # compared in constant time, even if the user is unknown
        return hmac.compare_digest(password.encode(), (expected or "").encode()) and expected is not None


async def _read_request(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    """Return the next request; None if the client has closed the connection."""
    request: h11.Request | None = None
    nbytes = 0
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(READ_BYTES))
        elif isinstance(event, h11.Request):
            request = event
            if request.method.decode() not in METHODS:
                return request  # it is rejected without reading its body
        elif isinstance(event, h11.Data):
            nbytes += len(event.data)
            if nbytes > MAX_BODY_BYTES:
                raise h11.RemoteProtocolError("the body is too large", error_status_hint=413)
        elif isinstance(event, h11.EndOfMessage):
            return request
        else:
            return None


async def _send(connection: h11.Connection, writer: asyncio.StreamWriter, page: Page, sending: Sending) -> None:
    headers = [("Content-Type", page.content_type), ("Cache-Control", "no-store"), *page.headers]
    body = page.body
    if isinstance(body, bytes):
        headers.append(("Content-Length", str(len(body))))
    if sending.closes:
        headers.append(("Connection", "close"))
    reason = HTTPStatus(page.status).phrase.encode()
    writer.write(connection.send(h11.Response(status_code=page.status, headers=headers, reason=reason)) or b"")
    if not sending.has_body:
        pass
    elif isinstance(body, bytes):
        writer.write(connection.send(h11.Data(body)) or b"")
    else:
        async for block in body:
            writer.write(connection.send(h11.Data(block)) or b"")
            await writer.drain()
    writer.write(connection.send(h11.EndOfMessage()) or b"")
    await writer.drain()
