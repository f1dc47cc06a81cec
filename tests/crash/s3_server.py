"""An S3 server in this process. It is slow, and at times reports an error for a request that it has carried out."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

BUCKET = "tier"
REGION = "us-east-1"
MAX_DELAY_SECONDS = 0.02
FAILURES = 0.1
"""The fraction of requests that change something and get an error nevertheless."""


class SlowS3:
    """moto's server behind delays and errors. A WSGI application."""

    def __init__(self, app: Callable[..., Iterable[bytes]], seed: int) -> None:
        self._app = app
        self._random = random.Random(seed)
        self.requests = 0
        self.failures = 0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        self.requests += 1
        time.sleep(self._random.random() * MAX_DELAY_SECONDS)
        if environ["REQUEST_METHOD"] not in ("PUT", "POST") or self._random.random() > FAILURES:
            return self._app(environ, start_response)
        self.failures += 1
        list(self._app(environ, lambda *_: None))
        start_response("503 Service Unavailable", [("Content-Length", "0")])
        return [b""]


@contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch, seed: int = 0) -> Iterator[SlowS3]:
    """Serve a bucket, and set the variables with which clients find it."""
    pytest.importorskip("moto")
    pytest.importorskip("flask_cors")
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    app = SlowS3(DomainDispatcherApplication(create_backend_app), seed)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_REGION", REGION)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        _create_bucket(server.server_port)
        yield app
    finally:
        server.shutdown()


def _create_bucket(port: int) -> None:
    from http.client import HTTPConnection

    while True:
        connection = HTTPConnection("127.0.0.1", port)
        headers = {
            "Host": f"s3.{REGION}.amazonaws.com",
            "Authorization": f"AWS4-HMAC-SHA256 Credential=k/20260101/{REGION}/s3/aws4_request",
        }
        connection.request("PUT", f"/{BUCKET}", headers=headers)
        status = connection.getresponse().status
        connection.close()
        if status in (200, 409):
            return
