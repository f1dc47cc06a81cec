"""Fixtures of the console's tests."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from tests.unit.console.consoles import ConsoleBrowser, open_console

from ottla.broker.embedded import Broker


@pytest.fixture(scope="session")
def console(ottla_broker: Broker) -> Iterator[ConsoleBrowser]:
    """Start a console without a login, whose user is an admin."""
    with open_console(ottla_broker.bootstrap_servers) as browser:
        browser.wait()
        yield browser


@pytest.fixture
def unused_address() -> Iterator[str]:
    """Return an address at which connections are refused: its port is bound, and not listened on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{sock.getsockname()[1]}"
