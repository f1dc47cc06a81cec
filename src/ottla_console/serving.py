"""Serving of an ASGI application by a command, until a signal ends it."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.errors import ConfigurationError

if TYPE_CHECKING:
    from starlette.types import ASGIApp


def serve(
    app: ASGIApp, host: str, port: int, certificate: Path | str | None, key: Path | str | None, title: str
) -> tuple[int, bool]:
    """Bind the address, print `title`, and serve until SIGINT or SIGTERM, which uvicorn raises again after its
    shutdown. If the server ends without a signal, return the exit code, and whether the application has started.
    `certificate` and `key` are PEM files for TLS. Needs the package uvicorn. Raises ConfigurationError if the address
    cannot be bound.
    """
    import uvicorn

    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        ssl_certfile=certificate,
        ssl_keyfile=None if key is None else str(key),
    )
    server = uvicorn.Server(config)
    sock = _bind(host, port)
    print(title, flush=True)
    try:
        server.run(sockets=[sock])
    except SystemExit as end:  # uvicorn has logged the error
        return int(end.code or 0), server.started
    return 0, server.started


def _bind(host: str, port: int) -> socket.socket:
    try:
        results = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # if a name has several addresses, the IPv4 address, which clients try first
        family, _, _, _, address = min(results, key=lambda f: f[0] != socket.AF_INET)
        return socket.create_server(address, family=family)
    except socket.gaierror as error:
        raise ConfigurationError(f"cannot bind {host}:{port}: {error.strerror}") from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error  # create_server() adds the address to strerror
        raise ConfigurationError(
            f"cannot bind {host}:{port}: {reason}; stop the other program, or choose another port with --listen "
            "(of the schema registry: --listeners)"
        ) from None
