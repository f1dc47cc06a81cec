"""IP addresses in Java's form, and their use in ACLs, connection limits, quotas and group descriptions."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from ottla import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    Broker,
    ClientQuotaAlteration,
    ClientQuotaFilter,
    ClientQuotaFilterComponent,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    ResourcePattern,
    ResourceType,
    addresses,
    errors,
)
from ottla.config.broker.broker_config import BrokerConfig
from ottla.errors import ConfigurationError
from ottla.net.ports import free_port
from ottla.security.authorizer import AuthorizableClient


@pytest.mark.parametrize(
    ("spelling", "java"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("::ffff:a01:203", "10.1.2.3"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("[::1]", "0:0:0:0:0:0:0:1"),
        ("0:0:0:0:0:0:0:1", "0:0:0:0:0:0:0:1"),
        ("2001:DB8::00ff", "2001:db8:0:0:0:0:0:ff"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("::", "0:0:0:0:0:0:0:0"),
        ("*", None),
        ("localhost", None),
        ("1.2.3", None),
        ("", None),
        (":::", None),
    ],
)
def test_address_is_formatted_as_by_java(spelling: str, java: str | None) -> None:
    assert addresses.canonical(spelling) == java
    assert addresses.canonical_or_same(spelling) == (java or spelling)


def test_peer_with_a_link_local_address_has_its_scope() -> None:
    assert addresses.of_peer(("fe80::1%eth0", 9, 0, 2)) == "fe80:0:0:0:0:0:0:1%2"
    assert addresses.of_peer(("::ffff:10.0.0.1", 9, 0, 0)) == "10.0.0.1"
    assert addresses.of_peer(("10.0.0.1", 9)) == "10.0.0.1"


def test_connection_limits_accept_host_names_and_any_spelling() -> None:
    option = "max.connections.per.ip.overrides"
    options = {"listeners": "PLAINTEXT://:0", option: "::1:3,[::ffff:10.0.0.1]:4,localhost:5"}
    limits = BrokerConfig(options).max_connections_per_ip_overrides
    assert limits["10.0.0.1"] == 4
    assert set(limits) <= {"0:0:0:0:0:0:0:1", "127.0.0.1", "10.0.0.1"}
    with pytest.raises(ConfigurationError, match=option):
        BrokerConfig({**options, option: "no.such.host.invalid:1"})


def dual_stack(**options: Any) -> Broker:
    return Broker({"listeners": "PLAINTEXT://[::]:0", **options})


def address_on(host: str, broker: Broker) -> str:
    return f"{host}:{broker.bootstrap_servers.rpartition(':')[2]}"


LOOPBACKS = pytest.mark.parametrize(
    ("host", "spelled", "canonical"), [("127.0.0.1", "127.0.0.1", "127.0.0.1"), ("[::1]", "::1", "0:0:0:0:0:0:0:1")]
)


@LOOPBACKS
def test_acl_that_denies_a_host_applies_on_a_dual_stack_listener(host: str, spelled: str, canonical: str) -> None:
    options = {"authorizer.class.name": "AclAuthorizer", "super.users": "User:ANONYMOUS"}
    with dual_stack(**options) as broker:
        with KafkaAdminClient(bootstrap_servers=address_on(host, broker)) as admin:
            for acl_host, permission in (("*", ACLPermissionType.ALLOW), (spelled, ACLPermissionType.DENY)):
                pattern = ResourcePattern(ResourceType.TOPIC, "t")
                admin.create_acls([ACL("User:*", acl_host, ACLOperation.ALL, permission, pattern)])
            (actual,) = [
                acl for acl in admin.describe_acls(ACLFilter()) if acl.permission_type is ACLPermissionType.DENY
            ]
            assert actual.host == spelled
        node: Any = broker
        authorizer = node._node._context.authorizer
        assert not authorizer.allows(
            AuthorizableClient("User:bob", canonical), ACLOperation.READ, ResourceType.TOPIC, "t"
        )
        assert authorizer.allows(AuthorizableClient("User:bob", "10.9.9.9"), ACLOperation.READ, ResourceType.TOPIC, "t")


@LOOPBACKS
def test_connection_limit_applies_on_a_dual_stack_listener(host: str, spelled: str, canonical: str) -> None:
    with dual_stack(**{"max.connections.per.ip.overrides": f"{spelled}:1"}) as broker:
        address, _, port = address_on(host, broker).rpartition(":")
        target = (address.strip("[]"), int(port))
        with socket.create_connection(target, 5) as first, socket.create_connection(target, 5) as second:
            second.settimeout(10)
            assert second.recv(1) == b""  # the broker closes the second connection
            first.settimeout(0.05)
            with pytest.raises(TimeoutError):
                first.recv(1)


@LOOPBACKS
def test_group_member_is_described_with_its_address_in_javas_form(host: str, spelled: str, canonical: str) -> None:
    port = free_port()
    at = f"{host}:{port}"
    options = {"listeners": f"PLAINTEXT://[::]:{port}", "advertised.listeners": f"PLAINTEXT://{at}"}
    with Broker({**options, "group.initial.rebalance.delay.ms": 0}):
        with KafkaProducer(bootstrap_servers=at) as producer:
            producer.send("t", b"x").get(10)
        with KafkaConsumer("t", bootstrap_servers=at, group_id="g", auto_offset_reset="earliest") as consumer:
            next(consumer)
            with KafkaAdminClient(bootstrap_servers=at) as admin:
                (member,) = admin.describe_consumer_groups(["g"])["g"].members
                assert member.client_host == f"/{canonical}"


def test_ip_quota_accepts_any_spelling_and_rejects_host_names() -> None:
    with Broker() as broker, KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_client_quotas([ClientQuotaAlteration({"ip": "::1"}, {"connection_creation_rate": 7})])
        quota_filter = ClientQuotaFilter((ClientQuotaFilterComponent("ip", "0:0:0:0:0:0:0:1"),), strict=True)
        assert list(admin.describe_client_quotas(quota_filter).values()) == [{"connection_creation_rate": 7.0}]
        node: Any = broker
        assert node._node._listeners.quotas.limits.rate_per_ip == {"0:0:0:0:0:0:0:1": 7.0}
        with pytest.raises(errors.InvalidRequestError, match="is not an IP address"):
            admin.alter_client_quotas([ClientQuotaAlteration({"ip": "localhost"}, {"connection_creation_rate": 7})])
