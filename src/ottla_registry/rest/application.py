"""The ASGI application of the REST API."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ottla_console.security.users import Credential, Role
from ottla_registry.errors import RestError, store_failed
from ottla_registry.registry import SchemaRegistry
from ottla_registry.rest import schemas, server, settings, subjects
from ottla_registry.rest.authentication import Authenticator
from ottla_registry.rest.exchange import Call, Handler, respond, respond_error

log = logging.getLogger("ottla.schema_registry")


Endpoint = Callable[[Request], Awaitable[Response]]


class Row(NamedTuple):
    """A route of the REST API, and the role that it requires if there are users."""

    method: str
    path: str
    handler: Handler
    role: Role


ROUTES: Final = tuple(
    Row(*row)
    for row in (
        ("GET", "/", server.get_root, Role.VIEWER),
        ("POST", "/", server.get_root, Role.VIEWER),
        ("GET", "/v1/metadata/id", server.get_cluster_id, Role.VIEWER),
        ("GET", "/v1/metadata/version", server.get_version, Role.VIEWER),
        ("GET", "/subjects", subjects.list_subjects, Role.VIEWER),
        ("POST", "/subjects/{subject}", subjects.look_up, Role.VIEWER),
        ("DELETE", "/subjects/{subject}", subjects.delete_subject, Role.ADMIN),
        ("GET", "/subjects/{subject}/metadata", subjects.get_latest_with_metadata, Role.VIEWER),
        ("GET", "/subjects/{subject}/versions", subjects.list_versions, Role.VIEWER),
        ("POST", "/subjects/{subject}/versions", subjects.register, Role.EDITOR),
        ("GET", "/subjects/{subject}/versions/{version}", subjects.get_version, Role.VIEWER),
        ("DELETE", "/subjects/{subject}/versions/{version}", subjects.delete_version, Role.ADMIN),
        ("GET", "/subjects/{subject}/versions/{version}/schema", subjects.get_version_text, Role.VIEWER),
        ("GET", "/subjects/{subject}/versions/{version}/referencedby", subjects.referenced_by, Role.VIEWER),
        ("GET", "/schemas", schemas.list_schemas, Role.VIEWER),
        ("GET", "/schemas/types", schemas.list_types, Role.VIEWER),
        ("GET", "/schemas/ids/{id}", schemas.get_schema, Role.VIEWER),
        ("GET", "/schemas/ids/{id}/schema", schemas.get_schema_text, Role.VIEWER),
        ("GET", "/schemas/ids/{id}/subjects", schemas.list_subjects, Role.VIEWER),
        ("GET", "/schemas/ids/{id}/versions", schemas.list_versions, Role.VIEWER),
        ("GET", "/schemas/guids/{guid}", schemas.get_schema_by_guid, Role.VIEWER),
        ("GET", "/schemas/guids/{guid}/ids", schemas.list_ids_of_guid, Role.VIEWER),
        ("GET", "/contexts", schemas.list_contexts, Role.VIEWER),
        ("GET", "/config", settings.get_config, Role.VIEWER),
        ("PUT", "/config", settings.put_config, Role.ADMIN),
        ("DELETE", "/config", settings.delete_config, Role.ADMIN),
        ("GET", "/config/{subject}", settings.get_config, Role.VIEWER),
        ("PUT", "/config/{subject}", settings.put_config, Role.ADMIN),
        ("DELETE", "/config/{subject}", settings.delete_config, Role.ADMIN),
        ("GET", "/mode", settings.get_mode, Role.VIEWER),
        ("PUT", "/mode", settings.put_mode, Role.ADMIN),
        ("DELETE", "/mode", settings.delete_mode, Role.ADMIN),
        ("GET", "/mode/{subject}", settings.get_mode, Role.VIEWER),
        ("PUT", "/mode/{subject}", settings.put_mode, Role.ADMIN),
        ("DELETE", "/mode/{subject}", settings.delete_mode, Role.ADMIN),
        ("POST", "/compatibility/subjects/{subject}/versions", settings.check_versions, Role.VIEWER),
        ("POST", "/compatibility/subjects/{subject}/versions/{version}", settings.check_version, Role.VIEWER),
    )
)


def create_app(registry: SchemaRegistry, users: Mapping[str, Credential] | None = None) -> Starlette:
    """Create the application. It starts and stops the registry. Without users, every client may do everything."""
    authenticator = Authenticator(users or {})

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await registry.start()
        try:
            yield
        finally:
            await registry.stop()

    routes = [Route(row.path, _endpoint(registry, row, authenticator), methods=[row.method]) for row in ROUTES]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: _http_error, 405: _http_error})
    app.add_middleware(RawPath)
    return app


class RawPath:
    """Makes routes match the encoded path, because a subject may contain a slash. `Call` decodes the subject."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path") or quote(scope["path"]).encode()
            scope = {**scope, "path": raw.partition(b"?")[0].decode("ascii", "replace")}
        await self._app(scope, receive, send)


def _endpoint(registry: SchemaRegistry, row: Row, authenticator: Authenticator) -> Endpoint:
    async def respond_to(request: Request) -> Response:
        try:
            await authenticator.check(request, row.role)
            return respond(request, await row.handler(Call(registry, request)))
        except RestError as error:
            return respond_error(request, error)
        except asyncio.CancelledError:
            raise
        except Exception:  # a defect: the client gets an error, the log the traceback
            log.exception(
                "Unexpected error in %s %s; the client receives error 50001", request.method, request.url.path
            )
            return respond_error(request, store_failed("internal error"))

    return respond_to


async def _http_error(request: Request, error: Any) -> Response:
    return respond_error(request, RestError(error.status_code, f"HTTP {error.status_code} {error.detail}"))
