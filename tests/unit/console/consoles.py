"""Consoles for tests: the application in this process, and a client that acts as a browser without JavaScript."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from starlette.testclient import TestClient

from ottla_console.application import create_app
from ottla_console.security.users import Credential, Role, hash_password
from ottla_console.settings import ConsoleSettings

PASSWORD = "correct horse"
HASH = hash_password(PASSWORD)
USERS = {role.name.lower(): Credential(role, HASH) for role in Role}
SECONDS = 30.0
TOKEN = re.compile(r'name="csrf" value="([0-9a-f]+)"')


class ConsoleBrowser:
    """Opens pages and submits their forms, as a browser without JavaScript does."""

    def __init__(self, client: TestClient) -> None:
        self.client = client

    def text(self, path: str, status: int = 200) -> str:
        """Return the text of a page, and check its status."""
        response = self.client.get(path)
        assert response.status_code == status, response.text
        return str(response.text)

    def wait(self) -> None:
        """Wait until the console has the first lists of the cluster."""
        deadline = time.monotonic() + SECONDS
        while self.client.get("/").status_code == 503 and time.monotonic() < deadline:
            pass  # the request itself waits for the lists

    def token(self, path: str) -> str:
        """Return the CSRF token of a form on a page."""
        match = TOKEN.search(self.text(path))
        assert match is not None, f"{path} has no form"
        return match[1]

    def post(self, path: str, fields: Mapping[str, Any], *, form: str, status: int = 303) -> str:
        """Submit a form of the page `form`, and return the text of the page that it leads to."""
        response = self.client.post(path, data={**fields, "csrf": self.token(form)}, follow_redirects=False)
        assert response.status_code == status, response.text
        if status != 303:
            return str(response.text)
        location, _, fragment = response.headers["location"].partition("#")
        text = self.text(location)
        assert not fragment or f'id="{fragment}"' in text
        return text

    def log_in(self, name: str, password: str = PASSWORD, status: int = 303) -> str:
        return self.post("/login", {"name": name, "password": password}, form="/login", status=status)


@contextmanager
def open_console(servers: str, **settings: Any) -> Iterator[ConsoleBrowser]:
    """Start a console for these brokers."""
    options: dict[str, Any] = {"sample_seconds": 0.1, "background_share": 0.5, **settings}
    configs = {"bootstrap.servers": servers}
    with TestClient(create_app(ConsoleSettings(configs, **options)), base_url="http://127.0.0.1") as client:
        yield ConsoleBrowser(client)
