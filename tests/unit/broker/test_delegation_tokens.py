"""Delegation tokens: creation, description, renewal, expiry, and authentication with them."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, with_broker

from ottla import Broker, KafkaAdminClient, KafkaConsumer, KafkaProducer
from ottla.aio import KafkaAdminClient as AsyncKafkaAdminClient
from ottla.broker.server.broker_node import BrokerNode
from ottla.client.admin.security.delegation_tokens import DelegationToken
from ottla.config.broker.broker_config import BrokerConfig
from ottla.errors import (
    DelegationTokenAuthDisabledError,
    DelegationTokenAuthorizationFailedError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    DelegationTokenRequestNotAllowedError,
    InvalidPrincipalTypeError,
    SaslAuthenticationFailedError,
)
from ottla.model import ACLOperation
from ottla.net.server.connection import BY_TOKEN, USER
from ottla.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.security.acl import ACL, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = ("admin", "alice", "bob", "carol")
TOKENS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{MODULE} required username="admin" password="admin" '
        + " ".join(f'user_{user}="{user}"' for user in USERS)
        + ";"
    ),
    "authorizer.class.name": "AclAuthorizer",
    "super.users": "User:admin",
    "delegation.token.secret.key": "master",
    "connection.failed.authentication.delay.ms": 10,
}
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(TOKENS) as running:
        yield running


def login(broker: Broker, user: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": user,
    }


def token_login(broker: Broker, token: DelegationToken, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
    return login(broker, token.token_id) | {
        "sasl_mechanism": mechanism,
        "sasl_plain_password": b64encode(token.hmac).decode(),
        "sasl_tokenauth": True,
    }


@pytest.fixture
def alice(broker: Broker) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(**login(broker, "alice")) as admin:
        yield admin


@pytest.fixture
def bob(broker: Broker) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(**login(broker, "bob")) as admin:
        yield admin


def allow(broker: Broker, user: str, operation: ACLOperation, kind: ResourceType, name: str) -> None:
    pattern = ResourcePattern(kind, name, ACLResourcePatternType.LITERAL)
    with KafkaAdminClient(**login(broker, "admin")) as admin:
        admin.create_acls([ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, pattern)])


@pytest.mark.parametrize("mechanism", SCRAM)
def test_client_with_a_token_is_authorized_as_its_owner(
    mechanism: str, broker: Broker, alice: KafkaAdminClient
) -> None:
    topic = f"of-alice-{mechanism}"
    for operation in (ACLOperation.CREATE, ACLOperation.READ, ACLOperation.WRITE):
        allow(broker, "alice", operation, ResourceType.TOPIC, topic)
    token = alice.create_delegation_token()
    assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:alice", ())
    configs = token_login(broker, token, mechanism)
    with KafkaProducer(**configs) as producer:
        producer.send(topic, b"v").get(10)
    jaas = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{token.token_id}" password="{b64encode(token.hmac).decode()}" tokenauth="true";'
    )
    for key in ("sasl_plain_username", "sasl_plain_password", "sasl_tokenauth"):
        del configs[key]
    reading: dict[str, Any] = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 10_000, "sasl_jaas_config": jaas}
    with KafkaConsumer(topic, **configs, **reading) as consumer:
        assert next(consumer).value == b"v"


def test_client_with_a_token_may_not_request_tokens(broker: Broker, alice: KafkaAdminClient) -> None:
    token = alice.create_delegation_token()
    with KafkaAdminClient(**token_login(broker, token)) as by_token:
        for call in (
            by_token.create_delegation_token,
            by_token.describe_delegation_token,
            lambda: by_token.renew_delegation_token(token.hmac),
            lambda: by_token.expire_delegation_token(token.hmac),
        ):
            with pytest.raises(DelegationTokenRequestNotAllowedError):
                call()


@pytest.mark.parametrize(
    "change",
    [
        {"sasl_plain_password": "wrong"},
        {"sasl_plain_username": "unknown"},
        {"sasl_tokenauth": False},
    ],
)
def test_client_without_the_secret_of_a_token_is_rejected(
    change: dict[str, Any], broker: Broker, alice: KafkaAdminClient
) -> None:
    token = alice.create_delegation_token()
    with pytest.raises(SaslAuthenticationFailedError, match="invalid credentials"):
        KafkaAdminClient(**token_login(broker, token) | change).describe_cluster()


def test_session_lifetime_is_limited_by_the_token(broker: Broker, alice: KafkaAdminClient) -> None:
    token = alice.create_delegation_token(max_lifetime_ms=60_000)
    assert token.max_timestamp == token.expiry_timestamp == token.issue_timestamp + 60_000
    node = broker._nodes[0]
    with KafkaAdminClient(**token_login(broker, token)) as by_token:
        by_token.describe_cluster()
        sessions = [c.state["sasl"] for listener in node._listeners for c in listener.connections if c.state[BY_TOKEN]]
        assert all(0 < session.lifetime_ms <= 60_000 for session in sessions)  # type: ignore[attr-defined]
        assert sessions


def test_owner_and_renewers_describe_renew_and_expire_a_token(
    broker: Broker, alice: KafkaAdminClient, bob: KafkaAdminClient
) -> None:
    token = alice.create_delegation_token(["User:bob", "User:x"])
    assert token in alice.describe_delegation_token()
    assert token in bob.describe_delegation_token(["User:alice"])
    assert token in bob.describe_delegation_token(["User:x"])
    assert token not in bob.describe_delegation_token(["User:carol"])
    assert bob.describe_delegation_token([]) == []
    assert bob.renew_delegation_token(token.hmac, 1000) < token.expiry_timestamp
    assert alice.renew_delegation_token(token.hmac) >= token.expiry_timestamp
    with KafkaAdminClient(**login(broker, "carol")) as carol:
        assert carol.describe_delegation_token(["User:alice"]) == []
        for call in (carol.renew_delegation_token, carol.expire_delegation_token):
            with pytest.raises(DelegationTokenOwnerMismatchError):
                call(token.hmac)
        allow(broker, "carol", ACLOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        assert [t.token_id for t in carol.describe_delegation_token()] == [token.token_id]
    assert bob.expire_delegation_token(token.hmac, 5000) > token.issue_timestamp
    bob.expire_delegation_token(token.hmac)
    for call in (alice.renew_delegation_token, alice.expire_delegation_token):
        with pytest.raises(DelegationTokenNotFoundError):
            call(token.hmac)


def test_token_for_another_owner_requires_create_tokens(
    broker: Broker, alice: KafkaAdminClient, bob: KafkaAdminClient
) -> None:
    with pytest.raises(DelegationTokenAuthorizationFailedError):
        alice.create_delegation_token(owner="User:carol")
    allow(broker, "alice", ACLOperation.CREATE_TOKENS, ResourceType.USER, "User:carol")
    token = alice.create_delegation_token(owner="User:carol")
    assert (token.owner, token.requester) == ("User:carol", "User:alice")
    assert token not in alice.describe_delegation_token()
    assert token not in bob.describe_delegation_token()
    allow(broker, "bob", ACLOperation.DESCRIBE_TOKENS, ResourceType.USER, "User:carol")
    assert bob.describe_delegation_token() == [token]


@pytest.mark.parametrize("principals", [{"renewers": ["Group:x"]}, {"owner": "Group:alice"}])
def test_token_principals_of_another_type_than_user_are_rejected(principals: dict[str, Any], broker: Broker) -> None:
    with KafkaAdminClient(**login(broker, "admin")) as admin, pytest.raises(InvalidPrincipalTypeError):
        admin.create_delegation_token(**principals)


async def test_async_admin_client_manages_tokens(broker: Broker) -> None:
    async with AsyncKafkaAdminClient(**login(broker, "bob")) as admin:
        token = await admin.create_delegation_token()
        assert token in await admin.describe_delegation_token()
        await admin.renew_delegation_token(token.hmac)
        await admin.expire_delegation_token(token.hmac)
        assert token.token_id not in {t.token_id for t in await admin.describe_delegation_token()}


REQUESTS: tuple[tuple[Any, int], ...] = (
    (CreateDelegationTokenRequest(), 3),
    (CreateDelegationTokenRequest(), 0),
    (RenewDelegationTokenRequest(hmac=b"x"), 2),
    (ExpireDelegationTokenRequest(hmac=b"x"), 2),
    (DescribeDelegationTokenRequest(owners=None), 3),
)


def test_token_requests_to_a_broker_without_secret_key_are_rejected(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        client.connection.listener.name = "SASL_PLAINTEXT"
        client.connection.state[USER] = "alice"
        for request, version in REQUESTS:
            response: Any = await client.request(request, version)
            assert response.error_code == DelegationTokenAuthDisabledError.code, request
        created = await client.request(CreateDelegationTokenRequest(), 3)
        assert (created.principal_name, created.token_requester_principal_name) == ("alice", "alice")
        assert (created.issue_timestamp_ms, created.expiry_timestamp_ms, created.max_timestamp_ms) == (-1, -1, -1)

    with_broker(test, tmp_path)


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SSL"])
def test_token_requests_without_authentication_are_rejected(listener: str, tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        client.connection.listener.name = listener
        for request, version in REQUESTS:
            response: Any = await client.request(request, version)
            assert response.error_code == DelegationTokenRequestNotAllowedError.code, request

    with_broker(test, tmp_path, delegation_token_secret_key="master")


def test_client_with_a_certificate_creates_tokens_in_every_version(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        client.connection.listener.name = "SSL"
        client.connection.state[USER] = "CN=alice,O=x"
        renewer = CreatableRenewers(principal_type="User", principal_name="bob")
        for version in range(4):
            created = await client.request(
                CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=-1), version
            )
            assert (created.error_code, created.principal_name) == (0, "CN=alice,O=x")
            owner = DescribeDelegationTokenOwner(principal_type="User", principal_name="CN=alice,O=x")
            described = await client.request(DescribeDelegationTokenRequest(owners=[owner]), version)
            assert created.token_id in {token.token_id for token in described.tokens}
        assert len(described.tokens) == 4

    with_broker(test, tmp_path, delegation_token_master_key="master")


def test_controller_removes_expired_tokens(tmp_path: Path) -> None:
    configs = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(tmp_path),
        "delegation.token.secret.key": "master",
        "delegation.token.expiry.time.ms": 1,
        "delegation.token.expiry.check.interval.ms": 1,
    }

    async def run() -> None:
        async with BrokerNode(BrokerConfig(configs)) as node, asyncio.timeout(10):
            assert node._context is not None
            tokens = node._context.delegation_tokens
            assert tokens is not None
            await tokens.create("User:alice", "User:alice", [], -1)
            while tokens.tokens():
                await asyncio.sleep(0.001)
        async with BrokerNode(BrokerConfig(configs)) as node:
            assert node._context is not None
            assert node._context.delegation_tokens is not None
            assert node._context.delegation_tokens.tokens() == []

    asyncio.run(run())


def test_secret_key_is_not_shown() -> None:
    for name in ("delegation.token.secret.key", "delegation.token.master.key"):
        config = BrokerConfig({name: "hush"})
        assert config.delegation_token_key == b"hush"
        assert "hush" not in repr(config) + " ".join(config.differences())
    both = BrokerConfig({"delegation.token.secret.key": "new", "delegation.token.master.key": "old"})
    assert both.delegation_token_key == b"new"
    assert BrokerConfig({}).delegation_token_key == b""
