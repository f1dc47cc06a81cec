"""What a client was seen to do against our broker, noted for docs/compatibility.md. For the conftest of a folder."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Any

import pytest
from scripts import apache_kafka, compatibility_page, spark_jars


@pytest.fixture
def compatibility(request: pytest.FixtureRequest) -> Callable[[str, str, str, list[str]], None]:
    """Note what a client has done here: (client, version, subject, what it checked)."""

    def note(client: str, version: str, subject: str, checked: list[str]) -> None:
        request.node.user_properties.append(("compatibility", (client, version, subject, checked)))

    return note


VERSIONS: dict[str, Callable[[], str]] = {
    "Java": lambda: apache_kafka.VERSION,
    "aiokafka": lambda: metadata.version("aiokafka"),
    "confluent-kafka": lambda: metadata.version("confluent-kafka"),
    "Kafka's tools": lambda: apache_kafka.VERSION,
    "Spark's Kafka connector": lambda: spark_jars.CONNECTOR,
}


@pytest.fixture(autouse=True)
def note_marked(request: pytest.FixtureRequest) -> None:
    """`@pytest.mark.compatibility(client, subject, what)`: passing says that the client did `what`."""
    for mark in request.node.iter_markers("compatibility"):
        client, subject, what = mark.args
        request.node.user_properties.append(("compatibility", (client, VERSIONS[client](), subject, [what])))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect what the tests noted, in the process that sees all workers' reports."""
    if report.when == "call" and report.passed:
        noted: list[Any] = [reported for name, reported in report.user_properties if name == "compatibility"]
        if noted:
            _noted[report.nodeid] = noted


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep what was seen to work."""
    if _noted and not hasattr(session.config, "workerinput"):
        compatibility_page.save([reported for _, noted in sorted(_noted.items()) for reported in noted])


_noted: dict[str, list[list[Any]]] = {}
