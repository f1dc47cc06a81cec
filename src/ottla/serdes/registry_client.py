"""A client of a schema registry: Ottla's, Confluent's, or another one with the same REST API."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

from ottla.errors import ConfigurationError
from ottla.serdes.registry_errors import SchemaRegistryError

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
MAX_RESPONSE: Final = 16 * 1024 * 1024
MAX_CACHED: Final = 1_000
MAX_REFERENCES: Final = 200

Value = TypeVar("Value")


class SchemaReference(NamedTuple):
    """A reference to another schema: the name by which the referring schema uses it, its subject and its version."""

    name: str
    subject: str
    version: int


class Schema(NamedTuple):
    """The text of a schema, its type (AVRO, JSON or PROTOBUF), and references to the schemas that it uses."""

    text: str
    schema_type: str = "AVRO"
    references: tuple[SchemaReference, ...] = ()


class RegisteredSchema(NamedTuple):
    """A version of a subject: its schema, and the schema's id."""

    subject: str
    version: int
    schema_id: int
    schema: Schema


class SchemaRegistryClient:
    """A client that caches schemas and ids. Thread-safe. Methods raise SchemaRegistryError if a request fails.

    Args:
        url: the URL of the registry; several, separated by commas, are tried in order.
        basic_auth: `user:password`, if the registry requires it.
        ssl_context: for https; by default the certificates of the system are trusted.
        timeout_ms: the timeout in milliseconds of connecting to one URL, and of each wait for its response.
    """

    def __init__(
        self,
        url: str,
        *,
        basic_auth: str = "",
        ssl_context: ssl.SSLContext | None = None,
        timeout_ms: float = 10_000,
    ) -> None:
        self._urls = [part.strip().rstrip("/") for part in url.split(",")]
        for part in self._urls:
            parts = urlsplit(part)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ConfigurationError(
                    f"the URL of the schema registry {part!r} is invalid: expected http://HOST:PORT"
                )
        self._headers = {"Accept": f"{CONTENT_TYPE}, application/json", "Content-Type": CONTENT_TYPE}
        if basic_auth:
            self._headers["Authorization"] = "Basic " + base64.b64encode(basic_auth.encode()).decode()
        self._ssl = ssl_context
        self._timeout = timeout_ms / 1000
        self._cache: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._lock = threading.RLock()

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        """Register a schema under a subject, unless the subject already has the schema, and return its id."""
        path = f"/subjects/{_quoted(subject)}/versions?normalize={str(normalize).lower()}"
        key = ("register", subject, schema, normalize)
        return self._cached(key, lambda: self._send("POST", path, _id, _body(schema)))

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """Return the version of a subject that has this schema."""
        path = f"/subjects/{_quoted(subject)}?normalize={str(normalize).lower()}"
        key = ("lookup", subject, schema, normalize)
        return self._cached(key, lambda: self._send("POST", path, _registered, _body(schema)))

    def schema(self, schema_id: int, subject: str = "") -> Schema:
        """Return the schema with an id. `subject` names the context (a namespace of ids) in which to look it up."""
        query = f"?subject={_quoted(subject)}" if subject else ""
        key = ("schema", schema_id, subject)
        return self._cached(key, lambda: self._send("GET", f"/schemas/ids/{schema_id}{query}", _schema))

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """Return the version of a subject with this number."""
        path = f"/subjects/{_quoted(subject)}/versions/{version}"
        return self._cached(("version", subject, version), lambda: self._send("GET", path, _registered))

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the latest version of a subject. It is not cached."""
        return self._send("GET", f"/subjects/{_quoted(subject)}/versions/latest", _registered)

    def subjects(self) -> list[str]:
        """Return the names of all subjects."""
        return self._send("GET", "/subjects", _subjects)

    def references(self, schema: Schema) -> dict[str, Schema]:
        """Return the schemas that a schema uses, directly or through others, by name. Each comes after those that it
        uses itself. Raises SchemaRegistryError if there are too many, or one cannot be fetched.
        """
        loaded: dict[str, Schema] = {}

        def load(parent: Schema, depth: int) -> None:
            for reference in parent.references:
                if reference.name in loaded:
                    continue
                if len(loaded) + depth >= MAX_REFERENCES:  # `depth` of them are being loaded, or form a circle
                    raise SchemaRegistryError(f"a schema has more than {MAX_REFERENCES} references")
                child = self.version(reference.subject, reference.version).schema
                load(child, depth + 1)
                loaded[reference.name] = child

        load(schema, 0)
        return loaded

    def _cached(self, key: tuple[Any, ...], fetch: Callable[[], Value]) -> Value:
        with self._lock:  # held while fetching, so that threads do not register or fetch the same schema
            if key not in self._cache:
                self._cache[key] = fetch()
                while len(self._cache) > MAX_CACHED:
                    self._cache.popitem(last=False)
            value: Value = self._cache[key]
            return value

    def _send(self, method: str, path: str, parse: Callable[[Any], Value], body: Any = None) -> Value:
        """Return what `parse` makes of the JSON of a response. If a registry cannot be reached, has a server error
        (HTTP 5xx) or does not respond with the expected JSON, the next URL is tried.
        """
        data = None if body is None else json.dumps(body).encode()
        failures: list[str] = []
        error_code = -1
        for url in self._urls:
            request = urllib.request.Request(url + path, data, self._headers, method=method)
            try:
                with urllib.request.urlopen(request, timeout=self._timeout, context=self._ssl) as response:
                    return parse(json.loads(response.read(MAX_RESPONSE)))
            except urllib.error.HTTPError as error:
                with error:
                    failure = _error(error)
                if error.code < 500:
                    raise failure from None
                failures.append(f"{url}: {failure}")
                error_code = failure.error_code
            except (OSError, http.client.HTTPException, ValueError) as error:
                failures.append(f"{url}: {error}")
            except (AttributeError, KeyError, TypeError) as error:  # JSON of another shape
                failures.append(f"{url}: unexpected response: {error!r}")
        message = f"no schema registry responds to {method} {path}: {'; '.join(failures)}"
        raise SchemaRegistryError(message, error_code)


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def _body(schema: Schema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.schema_type != "AVRO":
        body["schemaType"] = schema.schema_type
    if schema.references:
        body["references"] = [reference._asdict() for reference in schema.references]
    return body


def _id(document: Mapping[str, Any]) -> int:
    return int(document["id"])


def _subjects(document: Iterable[Any]) -> list[str]:
    return [str(subject) for subject in document]


def _schema(document: Mapping[str, Any]) -> Schema:
    references: Iterable[Mapping[str, Any]] = document.get("references") or ()
    return Schema(
        str(document["schema"]),
        str(document.get("schemaType") or "AVRO"),
        tuple(SchemaReference(str(r["name"]), str(r["subject"]), int(r["version"])) for r in references),
    )


def _registered(document: Mapping[str, Any]) -> RegisteredSchema:
    return RegisteredSchema(str(document["subject"]), int(document["version"]), int(document["id"]), _schema(document))


def _error(error: urllib.error.HTTPError) -> SchemaRegistryError:
    try:
        document = json.loads(error.read(MAX_RESPONSE))
        return SchemaRegistryError(f"{document['message']} ({document['error_code']})", int(document["error_code"]))
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return SchemaRegistryError(f"HTTP {error.code} {error.reason}", error.code)
