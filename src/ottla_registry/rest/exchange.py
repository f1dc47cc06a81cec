"""Common parts of the REST API's handlers: parameters of paths and queries, bodies and responses."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple
from urllib.parse import unquote
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from ottla_registry import errors, strict_json
from ottla_registry.errors import RestError
from ottla_registry.registry import MAX_ID, MAX_SCHEMA_BYTES, SchemaRegistry
from ottla_registry.store.records import StoredSchema
from ottla_registry.subjects import qualified

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
CONTENT_TYPES: Final = (CONTENT_TYPE, "application/vnd.schemaregistry+json", "application/json")
"""The content types of responses, the default first. They are names of the same format."""
MAX_BODY: Final = 4 * MAX_SCHEMA_BYTES


class Call(NamedTuple):
    """A request, and the registry that responds to it."""

    registry: SchemaRegistry
    request: Request

    @property
    def subject(self) -> str:
        """The subject in the path, or if that is an alias, the subject that it stands for."""
        return self.registry.state.resolved(self._subject_in_path)

    @property
    def _subject_in_path(self) -> str:
        return qualified(unquote(self.request.path_params["subject"]))

    @property
    def configured_subject(self) -> str | None:
        """The subject in the path of a config or mode, even if it is an alias; None for the global config or mode,
        whose path may also contain `:.:`.
        """
        return (self._subject_in_path or None) if "subject" in self.request.path_params else None

    @property
    def queried_subject(self) -> str:
        """The query parameter `subject`, or if that is an alias, the subject that it stands for; empty without it."""
        return self.registry.state.resolved(qualified(self.query("subject")))

    @property
    def guid(self) -> str:
        """The GUID of a schema in the path. Raises RestError if it is not a UUID."""
        try:
            return str(UUID(self.request.path_params["guid"]))
        except ValueError:
            raise errors.schema_not_found(self.request.path_params["guid"][:100]) from None

    @property
    def version(self) -> int:
        """The version in the path; -1 for `latest`. Raises RestError if it is invalid."""
        text = self.request.path_params["version"]
        if text in ("latest", "-1"):
            return -1
        if not (text.isascii() and text.isdecimal()) or not 0 < int(text[:11]) <= MAX_ID:
            raise errors.invalid_version(text[:100])
        return int(text)

    @property
    def schema_id(self) -> int:
        """The schema id in the path. Raises RestError (404) if it is not a valid number."""
        text = self.request.path_params["id"]
        if not (text.isascii() and text.isdecimal()) or int(text[:11]) > MAX_ID:
            raise RestError(404, "HTTP 404 Not Found")
        return int(text)

    def query(self, name: str, default: str = "") -> str:
        """Return a parameter of the query, or the default if it is missing."""
        return str(self.request.query_params.get(name, default))

    def flag(self, name: str) -> bool:
        """Return whether a parameter of the query is `true`, in upper or lower case."""
        return self.query(name).lower() == "true"

    def page(self, values: list[Any]) -> list[Any]:
        """Return the part of a list that the query parameters `offset` and `limit` select. A limit of 0 or less means
        no limit. Raises RestError if they are not integers.
        """
        try:
            offset, limit = int(self.query("offset", "0")), int(self.query("limit", "-1"))
        except ValueError:
            raise RestError(422, "offset and limit must be integers") from None
        offset = max(offset, 0)
        return values[offset : offset + limit] if limit > 0 else values[offset:]

    def with_guid(self, document: dict[str, Any], schema: StoredSchema) -> dict[str, Any]:
        """Return the JSON of a schema, with its GUID if the client accepts unknown properties."""
        is_accepted = self.request.headers.get("Confluent-Accept-Unknown-Properties", "").lower() == "true"
        return {**document, "guid": schema.guid} if is_accepted else document

    async def body(self) -> Any:
        """Return the JSON of the body. Raises RestError if it is malformed or too large."""
        data = bytearray()
        async for chunk in self.request.stream():
            data += chunk
            if len(data) > MAX_BODY:
                raise RestError(413, "Request Entity Too Large")
        try:
            document = strict_json.loads(data)
            if b"\\u" in data:  # half of a surrogate pair cannot be stored
                json.dumps(document, ensure_ascii=False).encode()
            return document
        except (ValueError, RecursionError):
            raise RestError(400, "Unable to process JSON") from None


Handler = Callable[[Call], Awaitable[Any]]


class Text(str):
    """A response that consists of the text of a schema, instead of a JSON document."""


def respond(request: Request, document: Any, status: int = 200) -> Response:
    """Return a response with the document as JSON, or with a Text unchanged. Its content type is the
    one of `CONTENT_TYPES` that the request prefers, or the default if the request accepts none of them.
    """
    media_type = _accepted(request.headers.get("Accept", "*/*"))
    if isinstance(document, Text):
        return Response(str(document), status, media_type=media_type)
    return Response(json.dumps(document, separators=(",", ":")), status, media_type=media_type)


def _accepted(accept: str) -> str:
    qualities: dict[str, float] = {}
    for part in accept.split(","):
        name, *parameters = (item.strip().lower() for item in part.split(";"))
        quality = next((text.removeprefix("q=") for text in parameters if text.startswith("q=")), "1")
        with suppress(ValueError):
            qualities[name] = float(quality)
    everything = max(qualities.get("*/*", 0), qualities.get("application/*", 0))
    best = max(CONTENT_TYPES, key=lambda name: qualities.get(name, everything))  # the first of equal ones
    return best if qualities.get(best, everything) > 0 else CONTENT_TYPE


def respond_error(request: Request, error: RestError) -> Response:
    """Return the response of a request that has failed: a JSON object with the error code and the message."""
    response = respond(request, {"error_code": error.code, "message": str(error)}, error.status)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = 'Basic realm="schema-registry"'
    return response
