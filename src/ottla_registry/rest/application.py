"""The ASGI application of the REST API."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ottla_registry.errors import RestError, store_failed
from ottla_registry.registry import SchemaRegistry
from ottla_registry.rest import schemas, settings, subjects
from ottla_registry.rest.exchange import Call, Handler, respond, respond_error

log = logging.getLogger("ottla.schema_registry")


class Row(NamedTuple):
    """A route of the REST API."""

    method: str
    path: str
    handler: Handler


async def _root(call: Call) -> Any:
    return {}


ROUTES: Final = tuple(
    Row(*row)
    for row in (
        ("GET", "/", _root),
        ("GET", "/subjects", subjects.list_subjects),
        ("POST", "/subjects/{subject}", subjects.look_up),
        ("DELETE", "/subjects/{subject}", subjects.delete_subject),
        ("GET", "/subjects/{subject}/versions", subjects.list_versions),
        ("POST", "/subjects/{subject}/versions", subjects.register),
        ("GET", "/subjects/{subject}/versions/{version}", subjects.get_version),
        ("DELETE", "/subjects/{subject}/versions/{version}", subjects.delete_version),
        ("GET", "/subjects/{subject}/versions/{version}/schema", subjects.get_version_text),
        ("GET", "/subjects/{subject}/versions/{version}/referencedby", subjects.referenced_by),
        ("GET", "/schemas", schemas.list_schemas),
        ("GET", "/schemas/types", schemas.list_types),
        ("GET", "/schemas/ids/{id}", schemas.get_schema),
        ("GET", "/schemas/ids/{id}/schema", schemas.get_schema_text),
        ("GET", "/schemas/ids/{id}/subjects", schemas.list_subjects),
        ("GET", "/schemas/ids/{id}/versions", schemas.list_versions),
        ("GET", "/contexts", schemas.list_contexts),
        ("GET", "/config", settings.get_config),
        ("PUT", "/config", settings.put_config),
        ("DELETE", "/config", settings.delete_config),
        ("GET", "/config/{subject}", settings.get_config),
        ("PUT", "/config/{subject}", settings.put_config),
        ("DELETE", "/config/{subject}", settings.delete_config),
        ("GET", "/mode", settings.get_mode),
        ("PUT", "/mode", settings.put_mode),
        ("DELETE", "/mode", settings.delete_mode),
        ("GET", "/mode/{subject}", settings.get_mode),
        ("PUT", "/mode/{subject}", settings.put_mode),
        ("DELETE", "/mode/{subject}", settings.delete_mode),
        ("POST", "/compatibility/subjects/{subject}/versions", settings.check_versions),
        ("POST", "/compatibility/subjects/{subject}/versions/{version}", settings.check_version),
    )
)


def create_app(registry: SchemaRegistry) -> Starlette:
    """Create the application. It starts and stops the registry."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await registry.start()
        try:
            yield
        finally:
            await registry.stop()

    routes = [Route(row.path, _endpoint(registry, row.handler), methods=[row.method]) for row in ROUTES]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: _http_error, 405: _http_error})
    app.add_middleware(RawPath)
    return app


class RawPath:
    """Matches routes with the encoded path, because names of subjects may contain `%2F`. `Call` decodes the parts."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path") or quote(scope["path"]).encode()
            scope = {**scope, "path": raw.partition(b"?")[0].decode("ascii", "replace")}
        await self._app(scope, receive, send)


def _endpoint(registry: SchemaRegistry, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def respond_to(request: Request) -> Response:
        try:
            return respond(await handler(Call(registry, request)))
        except RestError as error:
            return respond_error(error)
        except asyncio.CancelledError:
            raise
        except Exception:  # a defect: the client gets an error, the log the traceback
            log.exception("Cannot respond to %s %s", request.method, request.url.path)
            return respond_error(store_failed("internal error"))

    return respond_to


async def _http_error(request: Request, error: Any) -> Response:
    return respond_error(RestError(error.status_code, f"HTTP {error.status_code} {error.detail}"))
