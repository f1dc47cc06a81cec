"""The server.properties of Kafka 4, with configs that only Kafka uses."""

from __future__ import annotations

import pytest

from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.broker.listener_config import Endpoint
from ottla.errors import ConfigurationError

SHIPPED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "log.dirs": "/tmp/kraft-combined-logs",
}


def test_kafkas_server_properties_are_accepted_and_ignored_configs_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = BrokerConfig.from_kafka(SHIPPED)
    assert config.id == 1
    assert config.listeners == (Endpoint("PLAINTEXT", "", 9092),)
    assert config.advertised_listeners == (Endpoint("PLAINTEXT", "localhost", 9092),)
    (line,) = caplog.messages
    for name in ("process.roles", "controller.quorum.bootstrap.servers", "controller.listener.names"):
        assert name in line
    assert "num.network.threads (an event loop serves all connections" in line


def test_process_roles_without_broker_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="process.roles: 'controller' is not allowed"):
        BrokerConfig.from_kafka({**SHIPPED, "process.roles": "controller"})


@pytest.mark.parametrize("name", ["controller.quorum.voters", "controller.quorum.bootstrap.servers"])
def test_controller_quorum_of_several_nodes_requires_zookeeper(name: str) -> None:
    quorum = {**SHIPPED, name: "1@a:9093,2@b:9093"}
    with pytest.raises(ConfigurationError, match=f"{name}: .* set zookeeper.connect"):
        BrokerConfig.from_kafka(quorum)
    assert BrokerConfig.from_kafka({**quorum, "zookeeper.connect": "a:2181"}).zookeeper_connect == "a:2181"
