"""Authentication on listeners with SASL: accepted and rejected clients, and the lifetime of a session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer
from ottla.broker.embedded import OPTIONS, Broker
from ottla.broker.security.sasl_authenticator import SESSION
from ottla.broker.server.broker_node import BrokerNode
from ottla.client.admin.security.scram import ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion
from ottla.config.broker.broker_config import BrokerConfig
from ottla.errors import (
    IllegalSaslStateError,
    KafkaError,
    NetworkError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from ottla.net.client.channel import Channel
from ottla.net.client.sasl_login import Login, log_in
from ottla.net.server.connection import USER
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.security.sasl.scram import ScramClient

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SASL = {
    **OPTIONS,
    "listeners": "SASL_PLAINTEXT://localhost:0,PLAINTEXT://localhost:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} required user_alice="secret" user_bob="b";',
    "connection.failed.authentication.delay.ms": "50",
}
ALICE = Login("PLAIN", "alice", "secret")
SECONDS = 20.0


class Client:
    """One connection to the listener, request by request."""

    def __init__(self, node: BrokerNode) -> None:
        self.node = node
        self.channel = self.new_channel()

    def new_channel(self) -> Channel:
        endpoint = self.node.endpoints[0]
        return Channel(asyncio.get_running_loop(), endpoint.host, endpoint.port, client_id="test")

    async def request(self, request: Any, version: int) -> Any:
        return await self.channel.send(request, version, SECONDS)

    async def authenticate(self, message: bytes, version: int = 2) -> Any:
        return await self.request(SaslAuthenticateRequest(auth_bytes=message), version)

    async def wait_closed(self) -> None:
        while self.channel.is_open:
            await asyncio.sleep(0.001)

    @property
    def state(self) -> dict[str, object]:
        (connection,) = self.node._listeners[0].connections
        return connection.state


def with_client(test: Callable[[Client], Awaitable[None]], data: Path, **options: Any) -> None:
    configs = {**SASL, "log.dirs": str(data), **{name.replace("_", "."): value for name, value in options.items()}}

    async def run() -> None:
        async with BrokerNode(BrokerConfig(configs)) as node:
            client = Client(node)
            await client.channel.connect()
            try:
                await asyncio.wait_for(test(client), SECONDS)
            finally:
                client.channel.close()

    asyncio.run(run())


def test_unauthenticated_client_gets_only_api_versions(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        assert (
            await client.request(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
        ).api_keys
        with pytest.raises(NetworkError):
            await client.request(MetadataRequest(), 9)

    with_client(test, tmp_path)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_client_with_correct_password_is_authenticated(version: int, tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        response = await client.request(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert (response.error_code, response.mechanisms) == (0, ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
        assert (await client.authenticate(b"\0alice\0secret", version)).error_code == 0
        assert (await client.request(MetadataRequest(), 9)).brokers
        assert client.state[USER] == "alice"

    with_client(test, tmp_path)


def test_handshake_version_0_is_followed_by_raw_sasl_tokens(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        endpoint = client.node.endpoints[0]
        for password, right in ((b"secret", True), (b"wrong", False)):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            handshake = b"\0\x11\0\0\0\0\0\1\xff\xff\0\5PLAIN"
            writer.write(len(handshake).to_bytes(4, "big") + handshake)
            size = int.from_bytes(await reader.readexactly(4), "big")
            assert (await reader.readexactly(size))[:6] == b"\0\0\0\1\0\0"
            sasl_token = b"\0alice\0" + password
            writer.write(len(sasl_token).to_bytes(4, "big") + sasl_token)
            assert await reader.read(4) == (bytes(4) if right else b"")
            writer.close()

    with_client(test, tmp_path)


def test_unsupported_mechanism_is_answered_with_the_enabled_ones(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        response = await client.request(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        assert response.error_code == UnsupportedSaslMechanismError.code
        assert "PLAIN" in response.mechanisms
        await client.wait_closed()

    with_client(test, tmp_path)


@pytest.mark.parametrize(
    ("login", "message"),
    [
        (Login("PLAIN", "alice", "wrong"), "Authentication failed: Invalid username or password"),
        (Login("PLAIN", "unknown", "secret"), "Authentication failed: Invalid username or password"),
        (
            Login("SCRAM-SHA-256", "alice", "secret"),
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256",
        ),
    ],
)
def test_wrong_password_is_answered_after_a_delay_and_disconnects(login: Login, message: str, tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        began = time.monotonic()
        with pytest.raises(
            SaslAuthenticationFailedError, match=rf": {message} \(sasl\.mechanism=\S+ user={login.user}\)$"
        ):
            await log_in(client.channel, login, SECONDS)
        assert time.monotonic() - began >= 0.3
        await client.wait_closed()

    with_client(test, tmp_path, connection_failed_authentication_delay_ms="300")


@pytest.mark.parametrize("early", [True, False])
def test_request_in_the_wrong_sasl_state_closes_the_connection(early: bool, tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        if not early:
            await client.request(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        with pytest.raises(NetworkError):
            await (client.authenticate(b"\0alice\0secret") if early else client.request(MetadataRequest(), 9))

    with_client(test, tmp_path)


def test_large_request_before_authentication_closes_the_connection(tmp_path: Path) -> None:
    large = MetadataRequest(topics=[MetadataRequestTopic(name=f"{n:0200}") for n in range(5000)])

    async def test(client: Client) -> None:
        await log_in(client.channel, ALICE, SECONDS)
        assert (await client.request(large, 1)).brokers
        unauthenticated = client.new_channel()
        await unauthenticated.connect()
        with pytest.raises(NetworkError):
            await unauthenticated.send(large, 1, SECONDS)

    with_client(test, tmp_path, auto_create_topics_enable="false")


# Re-authentication (KIP-368)


def test_connection_without_reauthentication_in_time_is_closed(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        assert await log_in(client.channel, ALICE, SECONDS) == 200
        assert (await client.request(MetadataRequest(), 9)).brokers
        await asyncio.sleep(0.25)
        with pytest.raises(NetworkError):
            await client.request(MetadataRequest(), 9)

    with_client(test, tmp_path, connections_max_reauth_ms="200")


def test_reauthentication_in_time_extends_the_session(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        await log_in(client.channel, ALICE, SECONDS)
        session: Any = client.state[SESSION]
        session.expires -= 29.9  # as if the session began almost thirty seconds ago
        first = session.expires
        assert await log_in(client.channel, ALICE, SECONDS) == 30_000
        assert session.expires > first + 20
        assert (await client.request(MetadataRequest(), 9)).brokers
        # within a second after the last one, it is a request in the wrong state
        with pytest.raises(IllegalSaslStateError):
            await log_in(client.channel, ALICE, SECONDS)

    with_client(test, tmp_path, connections_max_reauth_ms="30000")


@pytest.mark.parametrize("login", [Login("PLAIN", "bob", "b"), Login("SCRAM-SHA-256", "alice", "secret")])
def test_principal_does_not_change_on_a_connection(login: Login, tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        await log_in(client.channel, ALICE, SECONDS)
        with pytest.raises(KafkaError):
            await log_in(client.channel, login, SECONDS)
        await client.wait_closed()

    with_client(test, tmp_path, connections_max_reauth_ms="30000")


def test_reauthentication_of_a_session_without_lifetime_is_rejected(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        assert await log_in(client.channel, ALICE, SECONDS) == 0
        with pytest.raises(IllegalSaslStateError):
            await log_in(client.channel, ALICE, SECONDS)
        assert (await client.request(MetadataRequest(), 9)).brokers

    with_client(test, tmp_path)


# Clients


def test_scram_challenge_for_an_unknown_user_has_the_same_salt_after_a_restart(tmp_path: Path) -> None:
    salts = []

    async def test(client: Client) -> None:
        await client.request(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        response = await client.authenticate(ScramClient("SCRAM-SHA-256", "unknown", "x").first())
        assert response.error_code == 0
        salts.append(bytes(response.auth_bytes).split(b",")[1:])

    for _ in range(2):
        with_client(test, tmp_path)  # the same data: a restart
    assert salts[0] == salts[1]


@pytest.mark.parametrize("number", [ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512])
def test_scram_credentials_are_valid_until_they_are_replaced_or_deleted(number: ScramMechanism) -> None:
    with Broker(SASL) as broker:
        assert broker._node is not None
        sasl, plain = (f"localhost:{endpoint.port}" for endpoint in broker._node.endpoints)
        name = number.name.replace("_", "-")
        options: dict[str, Any] = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": name,
            "sasl_plain_username": "eve",
        }

        def authenticates(password: str) -> bool:
            try:
                with KafkaAdminClient(bootstrap_servers=sasl, **options, sasl_plain_password=password) as client:
                    client.list_topics()
            except SaslAuthenticationFailedError:
                return False
            return True

        with KafkaAdminClient(bootstrap_servers=plain) as admin:
            assert not authenticates("first")
            for password in ("first", "second"):
                admin.alter_user_scram_credentials([UserScramCredentialUpsertion("eve", number, password)])
                assert authenticates(password)
            assert not authenticates("first")
            admin.alter_user_scram_credentials([UserScramCredentialDeletion("eve", number)])
            assert not authenticates("second")


def test_clients_reauthenticate_without_errors_when_sessions_expire() -> None:
    options: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "secret",
        "retries": 0,
    }
    with Broker({**SASL, "connections.max.reauth.ms": "2000"}) as broker:
        address = broker.bootstrap_servers
        with KafkaProducer(bootstrap_servers=address, **options, enable_idempotence=False, linger_ms=0) as producer:
            end, sent = time.monotonic() + 30, 0
            while producer.metrics()["producer-metrics"]["connection-creation-total"] < 3:
                producer.send("t", b"%d" % sent, partition=0).get(20)
                sent += 1
                assert time.monotonic() < end
        del options["retries"]
        reading: dict[str, Any] = {
            "auto_offset_reset": "earliest",
            "consumer_timeout_ms": 20_000,
            "max_poll_records": 100,
        }
        with KafkaConsumer("t", bootstrap_servers=address, **options, **reading) as consumer:
            assert [next(consumer).value for _ in range(sent)] == [b"%d" % number for number in range(sent)]


def test_long_texts_of_unauthenticated_clients_are_cut_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(client: Client) -> None:
        endpoint = client.node.endpoints[0]
        for mechanism, token in (("x" * 5000, b""), ("PLAIN", b"\0" + b"u" * 5000 + b"\0wrong")):
            channel = Channel(asyncio.get_running_loop(), endpoint.host, endpoint.port, client_id="c" * 5000)
            await channel.connect()
            handshake = await channel.send(SaslHandshakeRequest(mechanism=mechanism), 1, SECONDS)
            if handshake.error_code == 0:
                await channel.send(SaslAuthenticateRequest(auth_bytes=token), 2, SECONDS)
            channel.close()

    with_client(test, tmp_path)
    lines = [record.getMessage() for record in caplog.records if "Authentication of" in record.getMessage()]
    assert len(lines) == 2
    for line in lines:
        assert "(5000 characters)" in line
        assert len(line) < 1000
