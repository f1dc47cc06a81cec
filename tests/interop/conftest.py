"""A broker for the interop tests, with six partitions by default as kcat cannot ask for a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

import pytest
from scripts import apache_kafka, compatibility_page, ports
from tests.interop import kafka_jars

from ottla.broker.embedded import Broker

PARTITIONS = 6


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": PARTITIONS}) as running:
        yield running


@pytest.fixture(scope="session")
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture(scope="session", params=["ottla", "kafka-3.9.2", "kafka-4.3.1"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of each kind that our clients have to work with: every test that asks for it runs with all of them."""
    if request.param == "ottla":
        yield request.getfixturevalue("bootstrap")
        return
    version = request.param.removeprefix("kafka-")
    reason = apache_kafka.missing(version)
    if reason:
        pytest.skip(reason)
    with kafka_jars.kafka(tmp_path_factory.mktemp("kafka"), ports.free_ports(), version=version) as running:
        yield running


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
}


@pytest.fixture(autouse=True)
def _note_marked(request: pytest.FixtureRequest) -> None:
    """`@pytest.mark.compatibility(client, subject, what)`: passing says that the client did `what`."""
    for mark in request.node.iter_markers("compatibility"):
        client, subject, what = mark.args
        request.node.user_properties.append(("compatibility", (client, VERSIONS[client](), subject, [what])))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect what the tests noted, in the process that sees all workers' reports."""
    if report.when == "call" and report.passed:
        for name, noted in report.user_properties:
            if name == "compatibility":
                _noted.append((report.nodeid, list(noted)))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Keep what was seen to work, for docs/compatibility.md."""
    if _noted and not hasattr(session.config, "workerinput"):
        compatibility_page.keep([noted for _, noted in sorted(_noted)])


_noted: list[tuple[str, list[Any]]] = []
