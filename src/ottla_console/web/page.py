"""A request with its user, parameters and form, and helpers for responses."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ottla.aio import KafkaAdminClient
from ottla.errors import KafkaError
from ottla_console.cluster.clients import ClusterClients
from ottla_console.cluster.collector import Collector
from ottla_console.cluster.schema_registry import SchemaRegistry
from ottla_console.security import audit
from ottla_console.security.sessions import Notice, Sessions
from ottla_console.security.users import Role, User
from ottla_console.settings import ConsoleSettings

T = TypeVar("T")

MAX_FORM_BYTES: Final = 1_200_000
"""The size in bytes, before percent-encoding, up to which a form is never too large: a record of Kafka's default
maximum size, and the other fields.
"""
MAX_FIELDS: Final = 2_000
MAX_TEXT: Final = 1_048_576


class BadInputError(Exception):
    """Raised for invalid input. The user gets an error page with this message."""


class NoSuchPageError(Exception):
    """Raised if the requested page does not exist. The user gets an error page with status 404."""


@dataclass(frozen=True)
class Console:
    """The parts of a console that pages use."""

    settings: ConsoleSettings
    collector: Collector
    clients: ClusterClients
    sessions: Sessions
    templates: Environment
    schemas: SchemaRegistry | None = None


@dataclass
class Page:
    """A request with its user, session and form."""

    request: Request
    console: Console
    user: User
    session_id: str
    form: Mapping[str, str] = field(default_factory=dict)

    @property
    def admin(self) -> KafkaAdminClient:
        """The admin client of the console."""
        return self.console.clients.admin

    @property
    def path(self) -> Mapping[str, Any]:
        """The parameters in the path of the URL."""
        return self.request.path_params

    @property
    def inputs(self) -> Mapping[str, str]:
        """The fields of the form for POST, otherwise the query parameters."""
        return self.form if self.request.method == "POST" else self.request.query_params

    def text(self, name: str, default: str | None = None, *, strip: bool = True) -> str:
        """Return an input, or the default if it is missing or empty. Raises BadInputError if the input is too long, or
        if it is missing or empty and there is no default.
        """
        value = self.inputs.get(name, "")
        value = value.strip() if strip else value
        if len(value) > MAX_TEXT:
            raise BadInputError(f"{name}: at most {MAX_TEXT:,} characters")
        if value or default is not None:
            return value or default or ""
        raise BadInputError(f"{name}: a value is required")

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """Return an input, or the default if it is missing or empty, as an integer. Raises BadInputError if that is not
        an integer from `low` to `high`.
        """
        text = self.text(name, "" if default is None else str(default))
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise BadInputError(f"{name}: {text[:40]!r} is invalid: expected a number from {low:,} to {high:,}")
        return value

    def choice(self, name: str, options: Mapping[str, T], default: str | None = None) -> T:
        """Return the value of the option with the name in the input, or with the name `default` if the input is missing
        or empty. Raises BadInputError if there is no such option, or if there is neither an input nor a default.
        """
        text = self.text(name, default)
        if text not in options:
            raise BadInputError(f"{name}: {text[:40]!r} is invalid: expected one of {', '.join(options)}")
        return options[text]

    def may(self, role: str) -> bool:
        """Return whether the user has this role or a higher one, and the console is not read-only."""
        return not self.console.settings.read_only and self.user.role >= Role[role.upper()]

    def query(self, **changes: object) -> str:
        """Return the query string of this page with changed parameters, for links. None removes a parameter."""
        parameters = {**self.request.query_params, **changes}
        return "?" + urlencode({name: value for name, value in parameters.items() if value is not None})

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        """Return the HTML page of a template. It shows the notice of the session, if there is one, and removes
        it from the session.
        """
        collector = self.console.collector
        text = self.console.templates.get_template(template).render(
            page=self,
            user=self.user,
            settings=self.console.settings,
            csrf=self.console.sessions.csrf_token(self.session_id),
            notice=self.console.sessions.take_notice(self.session_id),
            section=self.request.url.path.split("/")[1],
            stale=collector.error if collector.loaded_at else None,
            loaded_at=collector.loaded_at,
            now=time.time(),
            **values,
        )
        return HTMLResponse(text, status)

    def done(self, path: str, text: str) -> Response:
        """Store `text` for the next page after a change, mark the snapshots of the cluster as outdated, and return a
        redirect to `path`.
        """
        self.console.collector.invalidate()
        self.console.sessions.notify(self.session_id, Notice(text))
        return RedirectResponse(path, 303)

    @contextmanager
    def audited(self, action: str, resource: str) -> Iterator[None]:
        """Context manager: write the change that is made in the block to the audit log, with its outcome."""
        try:
            yield
        except KafkaError as error:
            self.audit(action, resource, type(error).__name__)
            raise
        except BaseException as error:
            self.audit(action, resource, f"unknown ({type(error).__name__})")
            raise
        self.audit(action, resource, "done")

    def audit(self, action: str, resource: str, outcome: str) -> None:
        """Write a line about a change, a login or a rejected request to the audit log."""
        client = self.request.client
        audit.record(self.user, action, resource, outcome, client.host if client else "-")


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a URL-encoded form. Raises BadInputError for another content type, or if the form is too
    large or malformed.

    Starlette's form parser is not used, because it requires a package for multipart forms.
    """
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise BadInputError("the form must be application/x-www-form-urlencoded")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > 3 * MAX_FORM_BYTES:  # percent-encoding takes three bytes
            raise BadInputError(f"the form is too large: at most {MAX_FORM_BYTES:,} bytes")
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"))
    except ValueError as error:
        raise BadInputError(f"the form cannot be read: {error}") from None


def is_local_path(path: str) -> bool:
    """Return whether a redirect to this path surely stays on this console. `//host` and `/\\host` are other hosts."""
    return path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and "\\" not in path
