"""Pages for login and logout."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.responses import RedirectResponse, Response

from ottla_console.security.users import Role, User, authenticate
from ottla_console.web.page import Page, is_local_path

MAX_NAME: Final = 100
_hashing = asyncio.Semaphore(2)
"""Limits the number of concurrent password checks, because each one takes 16 MB and 50 ms (scrypt)."""


async def form(page: Page) -> Response:
    """Return the login form."""
    return page.render("login.html", failure=None, name="", next=_target(page))


async def log_in(page: Page) -> Response:
    """Log in and redirect, or return the login form with an error. A console without users only redirects."""
    name, password = page.text("name", "")[:MAX_NAME], page.text("password", "", strip=False)
    sessions = page.console.sessions
    if not page.console.settings.users:
        return RedirectResponse("/", 303)
    user = None
    async with _hashing:
        may_try = sessions.may_try(name)  # here: attempts at the same time wait for each other
        if may_try:
            user = await asyncio.to_thread(authenticate, page.console.settings.users, name, password)
            if user is None:
                sessions.record_failure(name)
    if not may_try:
        text = "Too many attempts for this user; try again in a minute."
        return page.render("login.html", 429, failure=text, name=name, next=_target(page))
    if user is None:
        page.user = User(name, Role.VIEWER)
        page.audit("login", "console", "rejected (wrong name or password)")
        return page.render("login.html", 401, failure="Name or password is wrong.", name=name, next=_target(page))
    page.user, page.session_id = user, sessions.log_in(user)
    page.audit("login", "console", "done")
    return RedirectResponse(_target(page), 303)


async def log_out(page: Page) -> Response:
    """Log out, and redirect to the login form."""
    page.console.sessions.log_out(page.session_id)
    page.session_id = page.console.sessions.new_id()
    return RedirectResponse("/login", 303)


def _target(page: Page) -> str:
    target = page.text("next", "/")
    return target if is_local_path(target) else "/"
