"""The routes of the console, and the checks that are made before their handlers are called."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ottla.errors import KafkaError
from ottla_console.cluster.clients import READ_MS
from ottla_console.pages import (
    acls,
    brokers,
    groups,
    log_dirs,
    login,
    messages,
    overview,
    quotas,
    spark,
    tail,
    topic,
    topics,
    transactions,
    users,
)
from ottla_console.security.sessions import COOKIE, SESSION_SECONDS
from ottla_console.security.users import Role, User
from ottla_console.web.errors import ErrorPage, error_page
from ottla_console.web.page import BadInputError, Console, NoSuchPageError, Page, read_form

log = logging.getLogger("ottla.console")

PAGE_SECONDS: Final = 1.5
CHANGE_SECONDS: Final = 15.0
SESSION_ID: Final = re.compile(r"[A-Za-z0-9_-]{32}")
ANONYMOUS: Final = User("anonymous", Role.ADMIN)
"""The user of a console without a login, which listens on a loopback address."""
NOT_LOGGED_IN: Final = User("-", Role.VIEWER)

Handler = Callable[[Page], Awaitable[Response]]


class Route(NamedTuple):
    """A path and a method, GET or POST, with the handler and the role that is required."""

    path: str
    handler: Handler
    role: Role = Role.VIEWER
    method: str = "GET"
    is_open: bool = False
    """Whether the route requires no login, and is allowed in read-only mode."""


def change(path: str, handler: Handler, role: Role) -> Route:
    """Return a route for a change, which requires a role."""
    return Route(path, handler, role, "POST")


EDITOR, ADMIN = Role.EDITOR, Role.ADMIN

ROUTES: Final = (
    Route("/login", login.form, is_open=True),
    Route("/login", login.log_in, method="POST", is_open=True),
    Route("/logout", login.log_out, method="POST", is_open=True),
    Route("/", overview.overview),
    Route("/brokers", brokers.listing),
    Route("/brokers/{broker:int}", brokers.broker),
    change("/brokers/{broker:int}/configs", brokers.alter_config, ADMIN),
    Route("/topics", topics.listing),
    Route("/topics/create", topics.creation, EDITOR),
    change("/topics/create", topics.create, EDITOR),
    Route("/topics/{topic}", topic.topic),
    change("/topics/{topic}/configs", topic.alter_config, EDITOR),
    change("/topics/{topic}/partitions", topic.add_partitions, EDITOR),
    change("/topics/{topic}/purge", topic.purge, ADMIN),
    change("/topics/{topic}/delete", topic.delete, ADMIN),
    Route("/topics/{topic}/messages", messages.messages),
    change("/topics/{topic}/messages", messages.produce, EDITOR),
    Route("/topics/{topic}/tail", tail.page),
    Route("/topics/{topic}/tail/events", tail.events),
    Route("/groups", groups.listing),
    Route("/group", groups.group),
    Route("/group/reset", groups.preview, EDITOR),
    change("/group/reset", groups.reset, EDITOR),
    change("/group/delete", groups.delete, ADMIN),
    Route("/acls", acls.listing),
    change("/acls/create", acls.create, ADMIN),
    change("/acls/delete", acls.delete, ADMIN),
    Route("/users", users.listing),
    change("/users/set", users.upsert, ADMIN),
    change("/users/delete", users.delete, ADMIN),
    Route("/quotas", quotas.listing),
    change("/quotas/set", quotas.alter, ADMIN),
    Route("/transactions", transactions.listing),
    Route("/transaction", transactions.transaction),
    Route("/log-dirs", log_dirs.listing),
    Route("/spark", spark.listing),
    Route("/spark/query", spark.query),
    Route("/spark/pipeline", spark.pipeline),
)


def endpoint(console: Console, route: Route) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of a route. It checks login, CSRF token and role, applies the time limit, and returns errors
    as pages.
    """

    async def respond(request: Request) -> Response:
        cookie = request.cookies.get(COOKIE, "")
        session_id = cookie if SESSION_ID.fullmatch(cookie) else console.sessions.new_id()
        user = console.sessions.user(session_id) if console.settings.users else ANONYMOUS
        page = Page(request, console, user or NOT_LOGGED_IN, session_id)
        if user is None and not route.is_open:
            if route.method == "POST":
                return _failure(page, ErrorPage(401, "Login required", "Your session has ended."))
            target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"/login?next={quote(target)}", 303)
        response = await _guarded(page, route)
        if page.session_id != cookie:
            # SameSite=Strict: requests and links from other sites do not have the cookie
            response.set_cookie(
                COOKIE,
                page.session_id,
                max_age=SESSION_SECONDS,
                httponly=True,
                samesite="strict",
                secure=console.settings.has_tls,
            )
        return response

    return respond


async def _guarded(page: Page, route: Route) -> Response:
    try:
        if route.method == "POST":
            page.form = await read_form(page.request)
            if not page.console.sessions.is_csrf_token(page.session_id, page.form.get("csrf", "")):
                _rejected(page, "csrf")
                text = "The form does not belong to this session, or the console was restarted."
                return _failure(
                    page, ErrorPage(403, "The form is out of date", text, "Reload the page, and try again.")
                )
        denial = _denial(page, route)
        if denial is not None:
            return denial
        async with asyncio.timeout(PAGE_SECONDS if route.method == "GET" else CHANGE_SECONDS):
            if route.method == "POST" and not route.is_open:
                await page.admin.describe_cluster(timeout_ms=READ_MS)  # fails quickly if the cluster does not respond
            return await route.handler(page)
    except BadInputError as error:
        return _failure(page, ErrorPage(400, "Invalid input", str(error), "Go back and correct it."))
    except NoSuchPageError as error:
        return _failure(page, ErrorPage(404, "Page not found", str(error)))
    except (KafkaError, TimeoutError) as error:
        return _failure(page, error_page(error, page.console.collector.slow_reason))
    except Exception as error:
        log.exception(
            "Unexpected error; responding with status 500 to %s %s", page.request.method, page.request.url.path
        )
        return _failure(page, error_page(error))


def _denial(page: Page, route: Route) -> Response | None:
    """Return an error page if the user's role or read-only mode does not allow the route, otherwise None."""
    if route.is_open or route.role <= Role.VIEWER:
        return None
    if page.console.settings.read_only:
        _rejected(page, "read-only")
        return _failure(page, ErrorPage(403, "The console is read-only", "It was started with --read-only."))
    if page.user.role < route.role:
        _rejected(page, "role")
        text = f"This requires the role {route.role.name.lower()}; {page.user.name} is {page.user.role.name.lower()}."
        return _failure(page, ErrorPage(403, "Your role does not allow this", text))
    return None


def _rejected(page: Page, why: str) -> None:
    if page.request.method == "POST":
        page.audit(f"POST {page.request.url.path}", "-", f"rejected ({why})")


def _failure(page: Page, error: ErrorPage) -> Response:
    retries = error.status == 503 and page.request.method == "GET"
    return page.render("error.html", error.status, error=error, retries=retries)


def not_found(console: Console) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint for paths without a route."""

    async def handler(page: Page) -> Response:
        raise NoSuchPageError(page.request.url.path)

    return endpoint(console, Route("", handler))
