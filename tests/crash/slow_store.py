"""A web server in front of an object store: it is slow, sometimes returns an error for a request that it has carried
out, and can be set down.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

MAX_DELAY_SECONDS = 0.02
FAILURES = 0.1
"""The fraction of write requests that are carried out and get an error nevertheless."""
CHANGING = ("PUT", "POST", "DELETE")

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class SlowStore:
    """A store behind delays and errors. A WSGI application."""

    def __init__(self, app: App, seed: int) -> None:
        self._app = app
        self._random = random.Random(seed)
        self.requests = 0
        self.failures = 0
        self._is_down = False

    def set_down(self, is_down: bool) -> None:
        """Set whether all requests fail without being carried out."""
        self._is_down = is_down

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        self.requests += 1
        time.sleep(self._random.random() * MAX_DELAY_SECONDS)
        if not self._is_down:
            if environ["REQUEST_METHOD"] not in CHANGING or self._random.random() > FAILURES:
                return self._app(environ, start_response)
            list(self._app(environ, lambda *_: None))
        self.failures += 1
        start_response("503 Service Unavailable", [("Content-Length", "0")])
        return [b""]


@contextmanager
def served(app: App) -> Iterator[int]:
    """Serve a WSGI application, and yield its port."""
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        def handle_expect_100(self) -> bool:
            """Leave `100 Continue` to werkzeug: Azure's client takes a second one for the response."""
            return True

    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
