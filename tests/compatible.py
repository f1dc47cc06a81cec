"""Records for docs/compatibility.md what clients did with our broker. Imported by the conftest modules of folders."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Any

import pytest
from scripts import apache_kafka, compatibility_page, spark_jars


@pytest.fixture
def compatibility(request: pytest.FixtureRequest) -> Callable[[str, str, str, list[str]], None]:
    """Return a function that records what a client did: (client, version, subject, what it checked)."""

    def record(client: str, version: str, subject: str, checked: list[str]) -> None:
        request.node.user_properties.append(("compatibility", (client, version, subject, checked)))

    return record


VERSIONS: dict[str, Callable[[], str]] = {
    "Java": lambda: apache_kafka.VERSION,
    "aiokafka": lambda: metadata.version("aiokafka"),
    "confluent-kafka": lambda: metadata.version("confluent-kafka"),
    "Kafka's tools": lambda: apache_kafka.VERSION,
    "Spark's Kafka connector": lambda: spark_jars.CONNECTOR,
}


@pytest.fixture(autouse=True)
def record_marked(request: pytest.FixtureRequest) -> None:
    """`@pytest.mark.compatibility(client, subject, what)`: if the test passes, the client did `what`."""
    for mark in request.node.iter_markers("compatibility"):
        client, subject, what = mark.args
        request.node.user_properties.append(("compatibility", (client, VERSIONS[client](), subject, [what])))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect the records of the tests, in the process that gets the reports of all workers."""
    if report.when == "call" and report.passed:
        records: list[Any] = [reported for name, reported in report.user_properties if name == "compatibility"]
        if records:
            _records[report.nodeid] = records


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the records to docs/compatibility.md."""
    if _records and not hasattr(session.config, "workerinput"):
        compatibility_page.save([reported for _, records in sorted(_records.items()) for reported in records])


_records: dict[str, list[list[Any]]] = {}
