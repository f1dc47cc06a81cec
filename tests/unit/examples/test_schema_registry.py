"""The schema registry example, against a fake of the registry's REST API."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlparse

import pytest
from tests.unit.examples.running import load_example

from ottla import Broker, KafkaConsumer, KafkaProducer
from ottla.errors import SerializationError


class Registry(ThreadingHTTPServer):
    """Schemas by id, and the ids of subjects."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.schemas: list[str] = []
        self.subjects: dict[str, list[int]] = {}
        self.arguments: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def register(self, subject: str, schema: str) -> int:
        if schema not in self.schemas:
            self.schemas.append(schema)
        number = self.schemas.index(schema) + 1
        if number not in self.subjects.setdefault(subject, []):
            self.subjects[subject].append(number)
        return number


class Handler(BaseHTTPRequestHandler):
    """Serves POST subjects/S/versions (register), POST subjects/S (look up) and GET schemas/ids/N."""

    server: Registry
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["schema"]
        parts = self._parts()
        number = self.server.register(parts[1], schema)
        version = self.server.subjects[parts[1]].index(number) + 1
        self._respond({"id": number, "subject": parts[1], "version": version, "schema": schema})

    def do_GET(self) -> None:
        parts = self._parts()
        if parts[:2] == ["schemas", "ids"] and int(parts[2]) <= len(self.server.schemas):
            self._respond({"schema": self.server.schemas[int(parts[2]) - 1]})
        else:
            self._respond({"error_code": 40403, "message": "Schema not found"}, 404)

    def _parts(self) -> list[str]:
        path = urlparse(self.path).path.strip("/")
        self.server.arguments.append(f"{self.command} {path}")
        return path.split("/")

    def _respond(self, response: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(response).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as registry:
        thread = threading.Thread(target=registry.serve_forever, args=(0.01,))
        thread.start()
        yield registry
        registry.shutdown()
        thread.join()


def test_schema_registry_example_sends_and_reads_avro(registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("confluent_kafka.schema_registry.avro", exc_type=ImportError)
    example = load_example("schema_registry.py")
    with Broker() as broker:
        servers = broker.bootstrap_servers
        example.main(servers, registry.url, "visits")
        assert capsys.readouterr().out.splitlines() == [
            "{'page': '/index.html', 'millis': 1403061899859, 'agent': None}",
            "{'page': '/', 'millis': 1403061899860, 'agent': 'curl'}",
        ]
        assert registry.subjects == {"visits-value": [1]}
        assert registry.arguments.count("POST subjects/visits-value/versions") == 1
        options: dict[str, Any] = {
            "bootstrap_servers": servers,
            "auto_offset_reset": "earliest",
            "consumer_timeout_ms": 5000,
        }
        with KafkaConsumer("visits", **options) as consumer:
            assert next(consumer).value[:5] == b"\0\0\0\0\x01"
        avro = example.RegisteredAvro(example.SchemaRegistryClient({"url": registry.url}), example.VISIT)
        with KafkaProducer(bootstrap_servers=servers, value_serializer=avro) as producer:
            with pytest.raises(SerializationError, match="value_serializer RegisteredAvro"):
                producer.send("visits", {"page": 3, "millis": 1})
