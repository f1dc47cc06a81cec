"""A client of the HTTP listener of a broker in the same event loop: one request per connection, over plain sockets."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ottla.broker.server.broker_node import BrokerNode

LISTENER: dict[str, Any] = {"ottla_http_listener": "127.0.0.1:0"}


class HttpResponse(NamedTuple):
    """A response of the HTTP listener."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def url_of(node: BrokerNode) -> str:
    assert node.http_url is not None
    return node.http_url


async def connect(url: str, tls: ssl.SSLContext | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = urlsplit(url)
    return await asyncio.open_connection(address.hostname, address.port, ssl=tls)


async def exchange(url: str, request: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    """Send bytes, and return everything received until the connection is closed."""
    reader, writer = await connect(url, tls)
    writer.write(request)
    try:
        return await reader.read(-1)
    except ConnectionResetError:
        return b""  # closed before the request was read
    finally:
        writer.close()


async def get(
    url: str, path: str, method: str = "GET", tls: ssl.SSLContext | None = None, **headers: str
) -> HttpResponse:
    """Send one request, and close the connection after it."""
    lines = [f"{method} {path} HTTP/1.1", "Host: broker", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return parse_response(await exchange(url, "\r\n".join([*lines, "", ""]).encode(), tls))


def parse_response(received: bytes) -> HttpResponse:
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        body = _joined(body)
    return HttpResponse(int(status.split()[1]), headers, body)


def _joined(body: bytes) -> bytes:
    joined, rest = b"", body
    while True:
        size, _, rest = rest.partition(b"\r\n")
        if int(size, 16) == 0:
            return joined
        joined, rest = joined + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
