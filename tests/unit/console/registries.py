"""A schema registry for tests: it serves schemas by id and by subject, and counts the requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FakeRegistry:
    """Responses by path; a path without one is answered with 404."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.responses: dict[str, dict[str, Any]] = {}
        self.requests: list[str] = []
        self.credentials: set[str | None] = set()


@contextmanager
def schema_registry() -> Iterator[FakeRegistry]:
    """Serve a registry."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.requests.append(self.path)
            registry.credentials.add(self.headers["Authorization"])
            response = registry.responses.get(self.path)
            body = json.dumps(response or {"error_code": 40403, "message": "Schema not found"}).encode()
            self.send_response(200 if response else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry = FakeRegistry(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
