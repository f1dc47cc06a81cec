"""Broker configs that depend on each other: listeners, inter-broker connections, ZooKeeper and authorization."""

from __future__ import annotations

import pytest

from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.broker.listener_config import Endpoint
from ottla.errors import ConfigurationError


def test_default_broker_config_is_one_node_on_loopback() -> None:
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
def test_listeners_are_parsed_as_by_kafka(text: str, endpoint: Endpoint) -> None:
    assert BrokerConfig.from_kafka({"listeners": text}).listeners == (endpoint,)


@pytest.mark.parametrize("text", ["localhost:9092", "PLAINTEXT://host", "PLAINTEXT://h:99999", "A://h:1,A://h:2"])
def test_malformed_listener_is_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError, match="listeners"):
        BrokerConfig.from_kafka({"listeners": text})


def test_unknown_security_protocol_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"listener\.security\.protocol\.map.*TLS is none of"):
        BrokerConfig.from_kafka({"listener.security.protocol.map": "A:TLS"})


def test_listener_configs_override_broker_configs() -> None:
    config = BrokerConfig.from_kafka(
        {
            "listeners": "SSL://h:1,INSIDE://h:2",
            "listener.security.protocol.map": "SSL:ssl,inside:SSL",
            "ssl.keystore.location": "all.pem",
            "ssl.keystore.type": "PEM",
            "ssl.client.auth": "requested",
            "listener.name.inside.ssl.keystore.location": "inside.pem",
            "listener.name.inside.ssl.client.auth": "required",
        }
    )
    assert [config.tls_of(name).ssl_keystore_location for name in ("SSL", "INSIDE")] == ["all.pem", "inside.pem"]
    assert config.tls_of("INSIDE").ssl_keystore_type == "PEM"
    assert [config.client_auth(name) for name in ("SSL", "INSIDE")] == ["requested", "required"]
    with pytest.raises(ConfigurationError, match=r"ssl\.client\.auth: 'maybe'"):
        config.replace({"listener.name.ssl.ssl.client.auth": "maybe"}).client_auth("SSL")


@pytest.mark.parametrize(
    ("options", "name", "protocol"),
    [
        ({}, "PLAINTEXT", "PLAINTEXT"),
        ({"security.inter.broker.protocol": "SSL"}, "SSL", "SSL"),
        ({"security.inter.broker.protocol": "SASL_PLAINTEXT"}, None, "SASL_PLAINTEXT"),
        ({"inter.broker.listener.name": "inside"}, "INSIDE", "SSL"),
    ],
)
def test_inter_broker_listener_is_chosen_by_name_or_protocol(
    options: dict[str, str], name: str | None, protocol: str
) -> None:
    listeners = "INSIDE://h:1,SSL://h:2,PLAINTEXT://h:3"
    protocols = "INSIDE:SSL,SSL:SSL,PLAINTEXT:PLAINTEXT"
    config = BrokerConfig({"listeners": listeners, "listener.security.protocol.map": protocols, **options})
    actual = config.inter_broker_listener
    assert (None if actual is None else actual.name, config.inter_broker_protocol) == (name, protocol)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            r"inter\.broker\.listener\.name: security\.inter\.broker\.protocol is set, too",
        ),
        (
            {"inter.broker.listener.name": "X"},
            r"inter\.broker\.listener\.name: X is none of .* PLAINTEXT \(PLAINTEXT\)",
        ),
        (
            {"listeners": "SSL://h:1", "zookeeper.connect": "zk:2181"},
            r"security\.inter\.broker\.protocol: PLAINTEXT is none of .* SSL \(SSL\)",
        ),
    ],
)
def test_missing_inter_broker_listener_is_rejected(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        BrokerConfig(options)


def test_advertised_listener_must_be_a_listener_and_reachable() -> None:
    with pytest.raises(ConfigurationError, match="OUTSIDE is not among listeners"):
        BrokerConfig.from_kafka(
            {
                "advertised.listeners": "OUTSIDE://h:1",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
            }
        )
    with pytest.raises(ConfigurationError, match="cannot connect to 0.0.0.0"):
        BrokerConfig.from_kafka({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"})


def test_node_id_and_log_dirs_override_broker_id_and_log_dir() -> None:
    config = BrokerConfig.from_kafka({"broker.id": 1, "node.id": 2, "log.dir": "/a", "log.dirs": "/b,/c"})
    assert config.id == 2
    assert config.data_dirs == ("/b", "/c")


def test_zookeeper_set_acl_requires_a_client_certificate() -> None:
    with pytest.raises(ConfigurationError, match=r"zookeeper\.set\.acl.*zookeeper\.ssl\.keystore\.location"):
        BrokerConfig({"zookeeper.set.acl": "true"})
    secured = {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.keystore.location": "broker.pem"}
    assert BrokerConfig({"zookeeper.set.acl": "true", **secured}).zookeeper_set_acl


@pytest.mark.parametrize("value", ["", "/kafka", "localhost:abc", "a:1:2", "a b:1", "::1:2181"])
def test_invalid_zookeeper_address_is_reported(value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"zookeeper\.connect.*host:port"):
        BrokerConfig({"zookeeper.connect": value})


@pytest.mark.parametrize(
    ("value", "connect_string"),
    [("h:2181,", "h:2181"), ("a:1, b:2/kafka/prod", "a:1,b:2/kafka/prod"), ("[::1]:2181", "[::1]:2181")],
)
def test_zookeeper_connect_is_normalized(value: str, connect_string: str) -> None:
    assert BrokerConfig({"zookeeper.connect": value}).zookeeper_connect == connect_string


@pytest.mark.parametrize(
    "name",
    [
        "AclAuthorizer",
        "kafka.security.auth.SimpleAclAuthorizer",
        "kafka.security.authorizer.AclAuthorizer",
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    ],
)
def test_authorizer_classes_of_kafka_are_accepted(name: str) -> None:
    assert BrokerConfig({"authorizer.class.name": name}).authorizer_class_name == "AclAuthorizer"


def test_unknown_authorizer_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"'org\.example\.MyAuthorizer' .*: expected one of AclAuthorizer"):
        BrokerConfig({"authorizer.class.name": "org.example.MyAuthorizer"})
    assert not BrokerConfig({"authorizer.class.name": ""}).authorizer_class_name


def test_super_users_are_separated_by_semicolons() -> None:
    config = BrokerConfig({"super.users": "User:CN=admin,O=x; User:bob;"})
    assert config.super_users == ("User:CN=admin,O=x", "User:bob")
    for value in ("admin", "User:", ":admin", "User:admin,User:bob", "user:admin"):
        with pytest.raises(ConfigurationError, match=rf"super\.users: '{value}'"):
            BrokerConfig({"super.users": value})


@pytest.mark.parametrize(
    "name",
    [
        *("share.delivery.count.limit", "share.partition.max.record.locks", "share.record.lock.duration.ms"),
        *("share.session.timeout.ms", "share.heartbeat.interval.ms", "share.assignment.interval.ms"),
        *("streams.session.timeout.ms", "streams.heartbeat.interval.ms", "streams.assignment.interval.ms"),
    ],
)
def test_default_of_a_group_config_outside_its_bounds_is_rejected(name: str) -> None:
    kind, _, rest = name.partition(".")
    most = BrokerConfig.options[f"group.{kind}.max.{rest}"].default
    with pytest.raises(ConfigurationError, match=rf"group\.{name}: it must be between \d+ and {most - 1}"):
        BrokerConfig({f"group.{name}": most, f"group.{kind}.max.{rest}": most - 1})


def test_default_of_standby_replicas_above_its_maximum_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"num\.standby\.replicas: it must not be greater than .* \(2\)"):
        BrokerConfig({"group.streams.num.standby.replicas": 3})


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_default_session_timeout_of_a_group_not_above_its_heartbeat_interval_is_rejected(kind: str) -> None:
    configs = {f"group.{kind}.{bound}session.timeout.ms": 5000 for bound in ("", "min.", "max.")}
    with pytest.raises(ConfigurationError, match=rf"group\.{kind}\.heartbeat\.interval\.ms: it must be less than"):
        BrokerConfig(configs)
