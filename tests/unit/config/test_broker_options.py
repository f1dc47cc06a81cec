"""The broker's options where they depend on each other."""

from __future__ import annotations

import pytest

from ottla.config.broker import BrokerConfig, Endpoint
from ottla.errors import ConfigurationError


def test_the_default_is_one_node_on_loopback() -> None:
    config = BrokerConfig.from_kafka({})
    assert config.listeners == (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    assert config.data_dirs == ("./ottla-data",)
    assert config.id == -1


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("PLAINTEXT://:9092", Endpoint("PLAINTEXT", "", 9092)),
        ("plaintext://localhost:0", Endpoint("PLAINTEXT", "localhost", 0)),
        ("PLAINTEXT://[::1]:9092", Endpoint("PLAINTEXT", "::1", 9092)),
    ],
)
def test_listeners_are_read_as_kafka_reads_them(text: str, endpoint: Endpoint) -> None:
    assert BrokerConfig.from_kafka({"listeners": text}).listeners == (endpoint,)


@pytest.mark.parametrize("text", ["localhost:9092", "PLAINTEXT://host", "PLAINTEXT://h:99999", "A://h:1,A://h:2"])
def test_a_wrong_listener_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ConfigurationError, match="listeners"):
        BrokerConfig.from_kafka({"listeners": text})


def test_a_protocol_that_is_not_served_is_named() -> None:
    with pytest.raises(ConfigurationError, match="speaks SSL"):
        BrokerConfig.from_kafka({"listeners": "SSL://localhost:9093"})


def test_an_advertised_listener_must_be_a_listener_that_can_be_reached() -> None:
    with pytest.raises(ConfigurationError, match="OUTSIDE is not among listeners"):
        BrokerConfig.from_kafka(
            {
                "advertised.listeners": "OUTSIDE://h:1",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
            }
        )
    with pytest.raises(ConfigurationError, match="cannot connect to 0.0.0.0"):
        BrokerConfig.from_kafka({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"})


def test_node_id_and_log_dirs_win_over_their_older_names() -> None:
    config = BrokerConfig.from_kafka({"broker.id": 1, "node.id": 2, "log.dir": "/a", "log.dirs": "/b,/c"})
    assert config.id == 2
    assert config.data_dirs == ("/b", "/c")


def test_acls_need_a_zookeeper_that_knows_the_broker() -> None:
    with pytest.raises(ConfigurationError, match=r"zookeeper\.set\.acl.*zookeeper\.ssl\.keystore\.location"):
        BrokerConfig({"zookeeper.set.acl": "true"})
    secured = {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.keystore.location": "broker.pem"}
    assert BrokerConfig({"zookeeper.set.acl": "true", **secured}).zookeeper_set_acl
