"""Listeners with SASL: who is let in, what is answered before that, and for how long it holds."""

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
from ottla.config.broker import BrokerConfig
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
        self.channel = self.another()

    def another(self) -> Channel:
        endpoint = self.node.endpoints[0]
        return Channel(asyncio.get_running_loop(), endpoint.host, endpoint.port, client_id="test")

    async def ask(self, request: Any, version: int) -> Any:
        return await self.channel.send(request, version, SECONDS)

    async def says(self, message: bytes, version: int = 2) -> Any:
        return await self.ask(SaslAuthenticateRequest(auth_bytes=message), version)

    async def closed(self) -> None:
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
        assert (await client.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)).api_keys
        with pytest.raises(NetworkError):
            await client.ask(MetadataRequest(), 9)

    with_client(test, tmp_path)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_who_says_the_right_password_is_let_in(version: int, tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        shaken = await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert (shaken.error_code, shaken.mechanisms) == (0, ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
        assert (await client.says(b"\0alice\0secret", version)).error_code == 0
        assert (await client.ask(MetadataRequest(), 9)).brokers
        assert client.state[USER] == "alice"

    with_client(test, tmp_path)


def test_after_an_old_handshake_the_mechanism_speaks_without_headers(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        endpoint = client.node.endpoints[0]
        for password, right in ((b"secret", True), (b"wrong", False)):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            handshake = b"\0\x11\0\0\0\0\0\1\xff\xff\0\5PLAIN"
            writer.write(len(handshake).to_bytes(4, "big") + handshake)
            size = int.from_bytes(await reader.readexactly(4), "big")
            assert (await reader.readexactly(size))[:6] == b"\0\0\0\1\0\0"
            token = b"\0alice\0" + password
            writer.write(len(token).to_bytes(4, "big") + token)
            assert await reader.read(4) == (bytes(4) if right else b"")
            writer.close()

    with_client(test, tmp_path)


def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        shaken = await client.ask(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        assert shaken.error_code == UnsupportedSaslMechanismError.code
        assert "PLAIN" in shaken.mechanisms
        await client.closed()

    with_client(test, tmp_path)


@pytest.mark.parametrize(
    ("login", "reported"),
    [
        (Login("PLAIN", "alice", "wrong"), "Authentication failed: Invalid username or password"),
        (Login("PLAIN", "unknown", "secret"), "Authentication failed: Invalid username or password"),
        (
            Login("SCRAM-SHA-256", "alice", "secret"),
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256",
        ),
    ],
)
def test_wrong_password_is_answered_after_a_delay_and_disconnects(login: Login, reported: str, tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        began = time.monotonic()
        with pytest.raises(
            SaslAuthenticationFailedError, match=rf": {reported} \(sasl\.mechanism=\S+ user={login.user}\)$"
        ):
            await log_in(client.channel, login, SECONDS)
        assert time.monotonic() - began >= 0.3
        await client.closed()

    with_client(test, tmp_path, connection_failed_authentication_delay_ms="300")


@pytest.mark.parametrize("early", [True, False])
def test_steps_out_of_turn_end_the_connection(early: bool, tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        if not early:
            await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        with pytest.raises(NetworkError):
            await (client.says(b"\0alice\0secret") if early else client.ask(MetadataRequest(), 9))

    with_client(test, tmp_path)


def test_requests_are_small_until_it_is_known_whose_they_are(tmp_path: Path) -> None:
    large = MetadataRequest(topics=[MetadataRequestTopic(name=f"{n:0200}") for n in range(5000)])

    async def test(client: Client) -> None:
        await log_in(client.channel, ALICE, SECONDS)
        assert (await client.ask(large, 1)).brokers
        stranger = client.another()
        await stranger.connect()
        with pytest.raises(NetworkError):
            await stranger.send(large, 1, SECONDS)

    with_client(test, tmp_path, auto_create_topics_enable="false")


# Saying it again (KIP-368)


def test_who_does_not_say_it_again_in_time_is_cut_off(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        assert await log_in(client.channel, ALICE, SECONDS) == 200
        assert (await client.ask(MetadataRequest(), 9)).brokers
        await asyncio.sleep(0.25)
        with pytest.raises(NetworkError):
            await client.ask(MetadataRequest(), 9)

    with_client(test, tmp_path, connections_max_reauth_ms="200")


def test_who_says_it_again_in_time_stays(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        await log_in(client.channel, ALICE, SECONDS)
        session: Any = client.state[SESSION]
        session.expires -= 29.9  # a second is left of the thirty
        first = session.expires
        assert await log_in(client.channel, ALICE, SECONDS) == 30_000
        assert session.expires > first + 20
        assert (await client.ask(MetadataRequest(), 9)).brokers
        # not more than once a second: then it is a request like others, which comes at the wrong time
        with pytest.raises(IllegalSaslStateError):
            await log_in(client.channel, ALICE, SECONDS)

    with_client(test, tmp_path, connections_max_reauth_ms="30000")


@pytest.mark.parametrize("login", [Login("PLAIN", "bob", "b"), Login("SCRAM-SHA-256", "alice", "secret")])
def test_principal_does_not_change_on_a_connection(login: Login, tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        await log_in(client.channel, ALICE, SECONDS)
        with pytest.raises(KafkaError):
            await log_in(client.channel, login, SECONDS)
        await client.closed()

    with_client(test, tmp_path, connections_max_reauth_ms="30000")


def test_without_an_end_saying_it_again_is_out_of_turn(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        assert await log_in(client.channel, ALICE, SECONDS) == 0
        with pytest.raises(IllegalSaslStateError):
            await log_in(client.channel, ALICE, SECONDS)
        assert (await client.ask(MetadataRequest(), 9)).brokers

    with_client(test, tmp_path)


# Clients


def test_scram_answers_for_unknown_user_with_a_salt_that_stays(tmp_path: Path) -> None:
    salts = []

    async def test(client: Client) -> None:
        await client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        reported = await client.says(ScramClient("SCRAM-SHA-256", "unknown", "x").first())
        assert reported.error_code == 0
        salts.append(bytes(reported.auth_bytes).split(b",")[1:])

    for _ in range(2):
        with_client(test, tmp_path)  # the same data: a restart
    assert salts[0] == salts[1]


@pytest.mark.parametrize("number", [ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512])
def test_credentials_of_scram_hold_from_when_they_are_set_until_they_are_removed(number: ScramMechanism) -> None:
    with Broker(SASL) as broker:
        assert broker._node is not None
        sasl, plain = (f"localhost:{endpoint.port}" for endpoint in broker._node.endpoints)
        name = number.name.replace("_", "-")
        options: dict[str, Any] = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": name,
            "sasl_plain_username": "eve",
        }

        def comes_in(password: str) -> bool:
            try:
                with KafkaAdminClient(bootstrap_servers=sasl, **options, sasl_plain_password=password) as client:
                    client.list_topics()
            except SaslAuthenticationFailedError:
                return False
            return True

        with KafkaAdminClient(bootstrap_servers=plain) as admin:
            assert not comes_in("first")
            for password in ("first", "second"):
                admin.alter_user_scram_credentials([UserScramCredentialUpsertion("eve", number, password)])
                assert comes_in(password)
            assert not comes_in("first")
            admin.alter_user_scram_credentials([UserScramCredentialDeletion("eve", number)])
            assert not comes_in("second")


def test_clients_that_are_known_for_a_time_only_go_on_without_an_error() -> None:
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
