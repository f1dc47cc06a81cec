"""Serving of an ASGI application by a command, until a signal ends it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp


def serve(
    app: ASGIApp, host: str, port: int, certificate: Path | str | None, key: Path | str | None
) -> tuple[int, bool]:
    """Serve until SIGINT or SIGTERM. Return the exit code, and whether the application has started. `certificate` and
    `key` are PEM files for TLS. Needs the package uvicorn.
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
    try:
        server.run()
    except SystemExit as end:  # uvicorn has logged the error, such as a port that is in use
        return int(end.code or 0), server.started
    return 0, server.started
