"""The client of a schema registry, with registries that fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ottla.serdes import Schema, SchemaReference, SchemaRegistryClient, SchemaRegistryError
from ottla.serdes.registry_client import MAX_REFERENCES, RegisteredSchema

Serve = Callable[[bytes], str]


@contextmanager
def serving(response: bytes) -> Iterator[str]:
    """Serve one response to all requests; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.wfile.write(response)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.wfile.write(response)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda response: stack.enter_context(serving(response))


def http(status: str, body: bytes, length: int | None = None) -> bytes:
    return b"HTTP/1.0 %b\r\nContent-Length: %d\r\n\r\n%b" % (status.encode(), length or len(body), body)


UNUSABLE = {
    "no HTTP": b"hello\r\n\r\n",
    "incomplete": http("200 OK", b"{}", length=9),
    "incomplete error": http("503 Unavailable", b"{}", length=9),
    "no JSON": http("200 OK", b"<html>"),
    "no id": http("200 OK", b"{}"),
    "no object": http("200 OK", b"3"),
}


@pytest.mark.parametrize("response", UNUSABLE.values(), ids=UNUSABLE)
def test_unusable_response_raises_schema_registry_error_unless_another_url_responds(
    serve: Serve, response: bytes
) -> None:
    url = serve(response)
    client = SchemaRegistryClient(url)
    for request in (lambda: client.register("s", Schema("{}")), lambda: client.latest("s"), lambda: client.schema(1)):
        with pytest.raises(SchemaRegistryError, match=f"no schema registry responds to .*{url}"):
            request()
    other = serve(http("200 OK", b'{"id": 7}'))
    assert SchemaRegistryClient(f"{url},{other}").register("s", Schema("{}")) == 7


def test_server_errors_of_all_urls_raise_the_error_code_of_the_registry(serve: Serve) -> None:
    url = serve(http("500 Error", b'{"error_code": 50002, "message": "timeout"}'))
    with pytest.raises(SchemaRegistryError, match=r"timeout \(50002\)") as raised:
        SchemaRegistryClient(f"{url},http://127.0.0.1:1").subjects()
    assert raised.value.error_code == 50002
    with pytest.raises(SchemaRegistryError) as raised:
        SchemaRegistryClient(serve(http("503 Unavailable", b""))).subjects()
    assert raised.value.error_code == 503


@pytest.mark.parametrize("is_circle", [False, True])
def test_too_long_chain_of_references_is_rejected(monkeypatch: pytest.MonkeyPatch, is_circle: bool) -> None:
    client = SchemaRegistryClient("http://127.0.0.1:1")

    def version(_: SchemaRegistryClient, subject: str, number: int) -> RegisteredSchema:
        following = number if is_circle else number + 1
        references = (SchemaReference(f"s{following}", "s", following),) if number < length else ()
        return RegisteredSchema(subject, number, number, Schema("{}", references=references))

    monkeypatch.setattr(SchemaRegistryClient, "version", version)
    schema = Schema("{}", references=(SchemaReference("s1", "s", 1),))
    length = MAX_REFERENCES
    if not is_circle:
        assert list(client.references(schema)) == [f"s{number}" for number in range(MAX_REFERENCES, 0, -1)]
    length = 100_000
    with pytest.raises(SchemaRegistryError, match="more than 200 references"):
        client.references(schema)
