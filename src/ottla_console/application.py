"""The ASGI application: routes, static files, security headers, and start and stop of the clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla_console.cluster import byte_rates, disk_space, flush_times, quota_usage
from ottla_console.cluster.clients import ClusterClients
from ottla_console.cluster.collector import Collector
from ottla_console.cluster.metric_pages import UNDER_MIN_ISR, MetricPages
from ottla_console.cluster.rebalances import REBALANCES
from ottla_console.cluster.schema_registry import SchemaRegistry
from ottla_console.routes import ROUTES, endpoint, not_found
from ottla_console.security.sessions import Sessions
from ottla_console.settings import ConsoleSettings
from ottla_console.web.page import Console
from ottla_console.web.templating import environment

STATIC: Final = Path(__file__).parent / "static"
HEADERS: Final = {
    # nothing inline, nothing from other hosts, and not in a frame
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
STATIC_CACHE: Final = "max-age=3600"
CLIENT_ID: Final = "ottla-console"
"""The client id of the console's clients, unless their configs set another one."""
BROKER_METRICS: Final = (
    *byte_rates.COUNTERS,
    REBALANCES,
    UNDER_MIN_ISR,
    *disk_space.NAMES,
    *quota_usage.NAMES,
    *flush_times.NAMES,
)


class SecurityHeaders:
    """Middleware that adds security headers. In a console without users, it also rejects requests with a host name that
    is not allowed, which may be DNS rebinding.
    """

    def __init__(self, app: ASGIApp, settings: ConsoleSettings) -> None:
        self._app = app
        # with a login no check is needed: a browser sends the session cookie only to the host name that has set it
        self._hosts = None if settings.users else settings.hosts
        self._has_tls = settings.has_tls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers["Cache-Control"] = STATIC_CACHE if scope["path"].startswith("/static/") else "no-store"
                if self._has_tls:
                    headers["Strict-Transport-Security"] = "max-age=31536000"
            await send(message)

        host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
        if self._hosts is not None and _name(host) not in self._hosts:
            text = "This console is served on loopback names only; --allowed-host NAME allows another one.\n"
            await PlainTextResponse(text, 421)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


def create_app(settings: ConsoleSettings) -> Starlette:
    """Return the ASGI application. Raises ConfigurationError if the settings are unsafe or invalid."""
    settings.check()
    pages = None
    if settings.broker_metrics:
        pages = MetricPages(settings.broker_metrics, BROKER_METRICS, settings.broker_metrics_auth)
    configs = {"client.id": CLIENT_ID, **settings.client_configs}
    collector = Collector(configs, settings.sample_seconds, settings.background_share, pages)
    registry = settings.schema_registry
    schemas = SchemaRegistry(registry, settings.schema_registry_auth) if registry else None
    clients = ClusterClients(configs)
    console = Console(settings, collector, clients, Sessions(), environment(), schemas)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        collector.start()
        await console.clients.start()
        try:
            yield
        finally:
            await console.clients.stop()
            collector.stop()

    routes = [Route(route.path, endpoint(console, route), methods=[route.method]) for route in ROUTES]
    app = Starlette(
        routes=[*routes, Mount("/static", StaticFiles(directory=STATIC)), Route("/{path:path}", not_found(console))],
        lifespan=lifespan,
    )
    app.add_middleware(SecurityHeaders, settings=settings)
    return app


def _name(host: str) -> str:
    """Return the host name in a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
