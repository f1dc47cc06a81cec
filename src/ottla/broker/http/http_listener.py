"""The socket of `ottla.http.listener`.

The HTTP server is imported with the first connection, so that a broker starts as fast as without it.

If the address cannot be bound, the broker logs it and runs without an HTTP listener. Not thread-safe: event loop only.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla import addresses
from ottla.broker.monitoring.observed_node import ObservedNode
from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.broker.listener_config import Endpoint

if TYPE_CHECKING:
    from ssl import SSLContext

    from ottla.broker.http.http_server import HttpServer

log = logging.getLogger("ottla.http")

BACKLOG = 32
TLS_NAME = "http"
"""The listener's name in its TLS configs, such as `listener.name.http.ssl.keystore.location`."""


class HttpListener:
    """Accepts connections from `start` to `close`."""

    def __init__(self, config: BrokerConfig, endpoint: Endpoint, node: ObservedNode) -> None:
        """Create the listener without binding its address.

        Raises ConfigurationError if the certificates of an https listener cannot be used.
        """
        self._endpoint = endpoint
        self._passwords = config.ottla_http_passwords
        self._node = node
        self._tls = _tls(config) if endpoint.protocol == "SSL" else None
        self._sock: socket.socket | None = None
        self._loading: asyncio.Task[None] | None = None
        self._accepting: asyncio.Server | None = None
        self._server: HttpServer | None = None
        self._bind_error: str | None = None
        self.url: str | None = None
        """The URL, set by `start`; None before, and if the address could not be bound."""

    def start(self) -> None:
        """Bind the address. `log_state` logs whether that has succeeded."""
        host, port = self._endpoint.host, self._endpoint.port
        try:
            # for a str, Python would load the codec of internationalised names, which takes longer than the rest
            name = host.encode() if host.isascii() else host
            family, kind, proto, _, address = socket.getaddrinfo(
                name or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            sock = socket.socket(family, kind, proto)
            try:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind(address)
                sock.listen(BACKLOG)
            except OSError:
                sock.close()
                raise
        except OSError as error:
            self._bind_error = error.strerror or str(error)
            return
        sock.setblocking(False)
        self._sock = sock
        scheme, shown = ("http" if self._tls is None else "https"), host or "0.0.0.0"
        self.url = f"{scheme}://{f'[{shown}]' if ':' in shown else shown}:{sock.getsockname()[1]}"
        asyncio.get_running_loop().add_reader(sock.fileno(), self._on_first_connection)

    def log_state(self) -> None:
        """Log the URL, or why the address cannot be bound.

        Called after the broker has opened its log directories and bound its other listeners: if that fails, its error
        is the only one.
        """
        if self.url is not None:
            log.info("The HTTP listener is serving at %s", self.url)
            return
        address = addresses.host_and_port(self._endpoint.host, self._endpoint.port)
        log.warning(
            "The HTTP listener cannot bind %s: %s. The broker runs without metrics and health checks over HTTP; set "
            "ottla.http.listener to another address.",
            address,
            self._bind_error,
        )

    def _on_first_connection(self) -> None:
        assert self._sock is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._sock.fileno())
        self._loading = loop.create_task(self._serve(self._sock))

    async def _serve(self, sock: socket.socket) -> None:
        # in a worker, because the import takes many milliseconds, for which clients would have to wait
        load: Callable[[str], Any] = importlib.import_module
        module = await asyncio.to_thread(load, "ottla.broker.http.http_server")
        server: HttpServer = module.HttpServer(self._node, self._passwords)
        self._server = server
        self._accepting = await asyncio.start_server(server.serve, sock=sock, ssl=self._tls, backlog=BACKLOG)

    async def close(self) -> None:
        """Close the socket and all connections."""
        if self._sock is None:
            return
        asyncio.get_running_loop().remove_reader(self._sock.fileno())
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])
        if self._accepting is not None:
            self._accepting.close()
        if self._server is not None:
            await self._server.close()
        self._sock.close()


def _tls(config: BrokerConfig) -> SSLContext:
    from ottla.security.tls.contexts import server_context  # imported late: TLS takes time to load

    return server_context(config.tls_of(TLS_NAME), config.on_listener(TLS_NAME, "ssl.client.auth"))
