"""A web server in front of an emulator of an object store, as a process: `python -m tests.crash.store_front gcs 1234 7`
forwards to the port 1234 with the seed 7, and prints its own port.

It is not a thread of the test process because Arrow holds the GIL while it opens an object in Google Cloud Storage.
"""

from __future__ import annotations

import html
import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.crash.slow_store import SlowStore, served

CONTROL = "/_front"
UNFORWARDED = ("connection", "content-length", "transfer-encoding", "keep-alive")


class StoreFront:
    """The server process, controlled by a test."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._control = Forward(port)

    @property
    def failures(self) -> int:
        """The number of requests that failed."""
        return int(self._control.request("GET", CONTROL)[3])

    def set_down(self, is_down: bool) -> None:
        """Set whether all requests fail without being carried out."""
        self._control.request("PUT", CONTROL, json.dumps(is_down).encode())


@contextmanager
def store_front(kind: str, port: int, seed: int) -> Iterator[StoreFront]:
    """Run the process in front of an emulator."""
    command = [sys.executable, "-m", __name__, kind, str(port), str(seed)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            yield StoreFront(int(process.stdout.readline()))
        finally:
            process.kill()


class Controlled:
    """A slow store that also serves the control requests of the test. A WSGI application."""

    def __init__(self, store: SlowStore) -> None:
        self._store = store

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["RAW_URI"] != CONTROL:
            return self._store(environ, start_response)
        if environ["REQUEST_METHOD"] == "PUT":
            self._store.set_down(json.loads(body_of(environ)))
        start_response("200 OK", [])
        return [str(self._store.failures).encode()]


class Forward:
    """Forwards requests to a server on this machine. A WSGI application."""

    def __init__(self, port: int) -> None:
        self._port = port

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        status, reason, fields, body = self.response(environ)
        forwarded = [(name, value) for name, value in fields if name.lower() not in UNFORWARDED]
        length = {name.lower(): value for name, value in fields}.get("content-length", str(len(body)))
        start_response(f"{status} {reason}", [*forwarded, ("Content-Length", length)])
        return [body]

    def response(self, environ: dict[str, Any]) -> tuple[int, str, list[tuple[str, str]], bytes]:
        """Forward a request, and return status, reason, header fields and body of the response."""
        names = [name for name in environ if name.startswith("HTTP_")]
        headers = {name[5:].replace("_", "-").lower(): environ[name] for name in names}
        if environ.get("CONTENT_TYPE"):
            headers["content-type"] = environ["CONTENT_TYPE"]
        return self.request(environ["REQUEST_METHOD"], environ["RAW_URI"], body_of(environ), headers)

    def request(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, str, list[tuple[str, str]], bytes]:
        """Send a request, and return status, reason, header fields and body of the response."""
        fields = {name: value for name, value in (headers or {}).items() if name not in UNFORWARDED}
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request(method, path, body, fields)
            response = connection.getresponse()
            return response.status, response.reason, response.getheaders(), response.read()
        finally:
            connection.close()


class Lists:
    """Lists of objects after a name or from a name on, which both emulators lack and delta-rs depends on. Other
    requests are forwarded. A WSGI application.
    """

    def __init__(self, forward: Forward, element: str, name: str, parameter: str) -> None:
        self._forward = forward
        self._elements = re.compile(f"<{element}>.*?<{name}>(.*?)</{name}>.*?</{element}>", re.DOTALL)
        self._parameter = parameter

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        start = parse_qs(urlsplit(environ["RAW_URI"]).query).get(self._parameter)
        if start is None:
            return self._forward(environ, start_response)
        status, reason, fields, body = self._forward.response(environ)
        # Clients skip the first name themselves.
        text = self._elements.sub(lambda m: m[0] if html.unescape(m[1]) >= start[0] else "", body.decode())
        forwarded = [(name, value) for name, value in fields if name.lower() not in UNFORWARDED]
        start_response(f"{status} {reason}", [*forwarded, ("Content-Length", str(len(text.encode())))])
        return [text.encode()]


class XmlApi:
    """Adds parts of Google's XML API to fake-gcs-server: single and multipart uploads become uploads of the JSON
    API. Other requests are forwarded. A WSGI application.
    """

    def __init__(self, forward: Forward) -> None:
        self._forward = forward
        self._lists = Lists(forward, "Contents", "Key", "start-after")
        self._parts: dict[str, dict[int, bytes]] = {}

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        url, method = urlsplit(environ["RAW_URI"]), environ["REQUEST_METHOD"]
        query = parse_qs(url.query, keep_blank_values=True)
        is_upload = method in ("PUT", "POST") and not query.keys() - {"uploads", "uploadId", "partNumber"}
        if url.path.startswith(("/storage/v1/", "/upload/")) or not (is_upload or "uploadId" in query):
            return self._lists(environ, start_response)
        upload = query.get("uploadId", [""])[0]
        headers, content = [], b""
        if method == "DELETE":
            self._parts.pop(upload, None)
        elif "uploads" in query:
            upload = f"upload-{len(self._parts)}-{url.path}"
            self._parts[upload] = {}
            content = _xml("InitiateMultipartUploadResult", "UploadId", upload)
        elif upload and upload not in self._parts:
            start_response("404 Not Found", [("Content-Length", "0")])
            return [b""]
        elif "partNumber" in query:
            self._parts[upload][int(query["partNumber"][0])] = body_of(environ)
            headers = [("ETag", f'"{query["partNumber"][0]}"')]
        else:
            parts = self._parts.pop(upload) if upload else {1: body_of(environ)}
            status, etag = self._insert(url.path, b"".join(parts[number] for number in sorted(parts)), environ)
            headers = [("ETag", f'"{etag}"')]
            if status != 200:
                start_response(f"{status} Failed", [("Content-Length", "0")])
                return [b""]
            content = _xml("CompleteMultipartUploadResult", "ETag", etag) if upload else b""
        start_response("200 OK", [*headers, ("Content-Length", str(len(content)))])
        return [content]

    def _insert(self, path: str, body: bytes, environ: dict[str, Any]) -> tuple[int, str]:
        _, bucket, name = path.split("/", 2)
        generation = environ.get("HTTP_X_GOOG_IF_GENERATION_MATCH")
        condition = f"&ifGenerationMatch={generation}" if generation else ""
        target = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(unquote(name), safe='')}{condition}"
        status, _, _, content = self._forward.request("POST", target, body)
        return status, json.loads(content)["etag"] if status == 200 else ""


def _xml(root: str, element: str, text: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?><{root}><{element}>{text}</{element}></{root}>'.encode()


def body_of(environ: dict[str, Any]) -> bytes:
    """Return the body of a request."""
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    return body


def main(kind: str, port: str, seed: str) -> None:
    """Serve until the test's process closes our stdin."""
    forward = Forward(int(port))
    app = XmlApi(forward) if kind == "gcs" else Lists(forward, "Blob", "Name", "startFrom")
    with served(Controlled(SlowStore(app, int(seed)))) as own:
        print(own, flush=True)
        sys.stdin.read()
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
