"""Apache Kafka 3.9 on a shared ZooKeeper."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from scripts import apache_kafka
from tests.interop.kafka_jars import node, server

from ottla.net.ports import free_port

WITH_ZOOKEEPER = "3.9.2"


@contextlib.contextmanager
def kafka_on_zookeeper(
    directory: Path, connect: str, configs: Mapping[str, object] = MappingProxyType({}), port: int = 0
) -> Iterator[str]:
    """Run a broker with additional configs, and yield its PLAINTEXT listener's address, by default with a free port."""
    port = port or free_port(in_a_row=2)
    settings = {
        "broker.id": 0,
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "zookeeper.connect": connect,
        "log.dirs": directory / "data",
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        **configs,
    }
    properties = directory / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = node(properties, WITH_ZOOKEEPER)
    with server(command, port, directory / "kafka.txt"):
        yield f"127.0.0.1:{port}"


def kafka_or_skip(version: str) -> None:
    reason = apache_kafka.missing(version)
    if reason:
        pytest.skip(f"Apache Kafka {version}: {reason}")
