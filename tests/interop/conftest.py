"""A broker for the interop tests, with six partitions by default as kcat cannot ask for a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from scripts import compatibility_page

from ottla.broker.embedded import Broker

PARTITIONS = 6


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": PARTITIONS}) as running:
        yield running


@pytest.fixture(scope="session")
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def compatibility(request: pytest.FixtureRequest) -> Callable[[str, str, str, list[str]], None]:
    """Note what a client has done here: (client, version, subject, what it checked)."""

    def note(client: str, version: str, subject: str, checked: list[str]) -> None:
        request.node.user_properties.append(("compatibility", (client, version, subject, checked)))

    return note


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect what the tests noted, in the process that sees all workers' reports."""
    if report.when == "call":
        for name, noted in report.user_properties:
            if name == "compatibility":
                _noted.append(list(noted))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep what was seen to work, for docs/compatibility.md."""
    if _noted and not hasattr(session.config, "workerinput"):
        compatibility_page.keep(_noted)


_noted: list[list[Any]] = []
