"""An S3 server in this process. It is slow, and sometimes returns an error for a request that it has carried out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.crash.slow_store import SlowStore, served

BUCKET = "tier"
REGION = "us-east-1"


@contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch, seed: int = 0) -> Iterator[SlowStore]:
    """Serve a bucket with moto, and set the environment variables that clients use."""
    pytest.importorskip("moto")
    pytest.importorskip("flask_cors")
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    app = SlowStore(DomainDispatcherApplication(create_backend_app), seed)
    with served(app) as port:
        monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_REGION", REGION)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        _create_bucket(port)
        yield app


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
