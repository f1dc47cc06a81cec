"""A schema registry in this process, and a client of its REST API, for tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import uvicorn
from starlette.applications import Starlette
from starlette.testclient import TestClient

from ottla_console.security.users import Credential
from ottla_registry.registry import SchemaRegistry
from ottla_registry.rest.application import create_app
from ottla_registry.store.state import RegistryState
from ottla_registry.store.topic import SchemasTopic


class RestClient:
    """Sends requests, and checks the status of responses."""

    def __init__(self, client: TestClient) -> None:
        self.client = client

    def send(self, method: str, path: str, body: Any = None, error: int = 0) -> Any:
        """Return the JSON of a response, or the message if an error with this code is expected."""
        response = self.client.request(method, path, content=None if body is None else json.dumps(body))
        document = response.json()
        assert response.headers["content-type"] == "application/vnd.schemaregistry.v1+json"
        if not error:
            assert response.status_code == 200, response.text
            return document
        assert document["error_code"] == error, document
        assert response.status_code == (error if error < 1000 else error // 100)
        return document["message"]

    def get(self, path: str, error: int = 0) -> Any:
        return self.send("GET", path, error=error)

    def post(self, path: str, body: Any, error: int = 0) -> Any:
        return self.send("POST", path, body, error)

    def put(self, path: str, body: Any, error: int = 0) -> Any:
        return self.send("PUT", path, body, error)

    def delete(self, path: str, error: int = 0) -> Any:
        return self.send("DELETE", path, error=error)

    def register(self, subject: str, schema: Any, error: int = 0, **more: Any) -> Any:
        """Register a schema, and return its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        response = self.post(f"/subjects/{quote(subject, safe='')}/versions", {"schema": text, **more}, error)
        return response if error else response["id"]


@contextmanager
def open_registry(
    servers: str, topic: str = "_schemas", users: Mapping[str, Credential] | None = None
) -> Iterator[RestClient]:
    """Start a registry over a topic of these brokers."""
    with TestClient(application(servers, topic, users), base_url="http://127.0.0.1") as client:
        yield RestClient(client)


def application(servers: str, topic: str = "_schemas", users: Mapping[str, Credential] | None = None) -> Starlette:
    """Return a registry over a topic of these brokers."""
    state = RegistryState()
    return create_app(SchemaRegistry(state, SchemasTopic(state, {"bootstrap.servers": servers}, topic)), users)


@contextmanager
def serve_registry(servers: str, topic: str = "_schemas") -> Iterator[str]:
    """Serve a registry by HTTP on a free port, and yield its URL."""
    started = threading.Event()
    config = uvicorn.Config(application(servers, topic), port=0, log_config=None, timeout_graceful_shutdown=1)
    server = NotifyingServer(config, started)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert started.wait(30)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


class NotifyingServer(uvicorn.Server):
    """Sets an event when the server listens."""

    def __init__(self, config: uvicorn.Config, event: threading.Event) -> None:
        super().__init__(config)
        self._event = event

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self._event.set()
