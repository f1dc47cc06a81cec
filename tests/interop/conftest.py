"""Brokers and a ZooKeeper. Topics have six partitions by default, since kcat cannot create topics with a number."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scripts import apache_kafka
from tests.compatible import compatibility as compatibility
from tests.compatible import pytest_runtest_logreport as pytest_runtest_logreport
from tests.compatible import pytest_sessionfinish as pytest_sessionfinish
from tests.compatible import record_marked as record_marked
from tests.interop import kafka_jars

from ottla.broker.embedded import Broker
from ottla.net.ports import free_port
from ottla.zookeeper_server import ZooKeeperServer

PARTITIONS = 6


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": PARTITIONS}) as running:
        yield running


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """Start a ZooKeeper. Its jars come with PySpark: test modules that use it are skipped if PySpark is missing."""
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as started:
        yield started


@pytest.fixture(scope="session")
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture(scope="session", params=["ottla", "kafka-3.9.2", "kafka-4.3.1"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a broker of each kind that our clients support: a test that uses it runs with each of them."""
    if request.param == "ottla":
        yield request.getfixturevalue("bootstrap")
        return
    version = request.param.removeprefix("kafka-")
    reason = apache_kafka.missing(version)
    if reason:
        pytest.skip(reason)
    with kafka_jars.kafka(tmp_path_factory.mktemp("kafka"), free_port(in_a_row=2), version=version) as running:
        yield running
