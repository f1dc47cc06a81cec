"""Connections of the clients: versions, SASL, backoff, idle connections and error messages."""

from __future__ import annotations

import asyncio
import gc
import re
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.unit.client.scripted import DROP, SILENCE, ScriptedBroker

from ottla.client.core.connections import Connections
from ottla.config.client import ClientConfig
from ottla.errors import (
    BrokerConnectionError,
    IllegalStateError,
    NetworkError,
    SaslAuthenticationFailedError,
    UnsupportedVersionError,
)
from ottla.metrics.metrics import Metrics
from ottla.model import Node
from ottla.net.client.channel_metrics import ChannelMetrics
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def create_connections(broker: ScriptedBroker, **options: Any) -> Connections:
    config = ClientConfig.from_keywords(bootstrap_servers=broker.address, reconnect_backoff_ms=10, **options)
    return Connections(config, "me", lambda: {7: Node(7, broker.host, broker.port)}, ChannelMetrics(Metrics(), "test"))


def run(connections: Connections, test: Callable[[], Awaitable[None]]) -> None:
    async def run_and_close() -> None:
        try:
            await test()
        finally:
            await connections.close()

    asyncio.run(run_and_close())


def test_request_uses_the_newest_common_version() -> None:
    with ScriptedBroker(max_versions={"Heartbeat": 2}) as broker:
        connections = create_connections(broker)

        async def test() -> None:
            await connections.send(7, HeartbeatRequest())
            await connections.send(7, FetchRequest(), at_most=9)

        run(connections, test)
        versions = {r.NAME: h.api_version for r, h in zip(broker.requests, broker.headers, strict=True)}
        assert (versions["Heartbeat"], versions["Fetch"]) == (2, 9)
        assert {h.client_id for h in broker.headers} == {"me"}


def test_request_without_a_common_version_raises_unsupported_version() -> None:
    with ScriptedBroker(max_versions={"Heartbeat": -1}) as broker:
        connections = create_connections(broker)

        async def test() -> None:
            with pytest.raises(UnsupportedVersionError, match=r"Heartbeat, this client 0 to 4"):
                await connections.send(7, HeartbeatRequest())

        run(connections, test)


def test_rejected_api_versions_request_is_retried_in_the_brokers_version(broker: ScriptedBroker) -> None:
    from ottla.protocol.messages.api_versions import ApiVersion

    first = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, max_version=2)])
    broker.on(ApiVersionsRequest, lambda _: _in_version_0(broker, first))
    connections = create_connections(broker)

    async def test() -> None:
        await connections.send(7, HeartbeatRequest())

    run(connections, test)
    requests = [h.api_version for r, h in zip(broker.requests, broker.headers, strict=True) if r.NAME == "ApiVersions"]
    assert requests == [4, 2]


def _in_version_0(broker: ScriptedBroker, response: ApiVersionsResponse) -> ApiVersionsResponse:
    broker.response_version = 0
    return response


def test_concurrent_requests_share_one_connection(broker: ScriptedBroker) -> None:
    connections = create_connections(broker)

    async def test() -> None:
        await asyncio.gather(*(connections.send(7, HeartbeatRequest()) for _ in range(20)))

    run(connections, test)
    assert broker.connections == 1


@pytest.mark.option("bootstrap.servers")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("a", (("a", 9092),)),
        ("a:1, b", (("a", 1), ("b", 9092))),
        (["[::1]:7", "[::1]"], (("::1", 7), ("::1", 9092))),
    ],
)
def test_address_without_a_port_has_port_9092(arguments: object, expected: object) -> None:
    assert ClientConfig.from_keywords(bootstrap_servers=arguments).bootstrap_servers == expected


def test_none_is_accepted_for_options_with_default_none_in_kafka_python() -> None:
    none = dict.fromkeys(("client_id", "receive_buffer_bytes", "send_buffer_bytes", "sasl_mechanism"))
    config = ClientConfig.from_keywords(bootstrap_servers="a", bootstrap_timeout_ms=5000, **none)
    assert (config.client_id, config.receive_buffer_bytes, config.send_buffer_bytes) == ("", -1, -1)


@pytest.mark.option("bootstrap.servers")
def test_send_any_uses_a_reachable_broker(broker: ScriptedBroker) -> None:
    config = ClientConfig.from_keywords(bootstrap_servers=f"127.0.0.1:1,{broker.address}", reconnect_backoff_ms=10)
    connections = Connections(config, "me", dict, ChannelMetrics(Metrics(), "test"))

    async def test() -> None:
        for _ in range(5):
            assert (await connections.send_any(MetadataRequest(topics=None))).cluster_id == "scripted"

    run(connections, test)


def test_unreachable_broker_is_reported_with_its_address() -> None:
    config = ClientConfig.from_keywords(bootstrap_servers="127.0.0.1:1")
    connections = Connections(config, "me", dict, ChannelMetrics(Metrics(), "test"))

    async def test() -> None:
        with pytest.raises(BrokerConnectionError, match=r"127\.0\.0\.1:1"):
            await connections.send_any(MetadataRequest())
        with pytest.raises(BrokerConnectionError, match="broker 9") as unknown:
            await connections.send(9, MetadataRequest())
        assert unknown.value.retriable

    run(connections, test)


def test_connection_without_waiting_caller_fails_silently() -> None:
    contexts: list[dict[str, Any]] = []

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
        with socket.create_server(("127.0.0.1", 0)) as silent:  # like a paused broker: accepts, and sends nothing
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            config = ClientConfig.from_keywords(bootstrap_servers=address, request_timeout_ms=100)
            connections = Connections(config, "me", dict, ChannelMetrics(Metrics(), "test"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(connections.send_any(MetadataRequest()), 0.02)
            (connecting,) = connections._connecting.values()
            await asyncio.wait([connecting])
            assert not connections._connecting
            assert not connecting.cancelled()
            del connecting
            await connections.close()

    asyncio.run(test())
    gc.collect()
    assert contexts == []


@pytest.mark.option("connections.max.idle.ms")
def test_idle_connections_are_closed(broker: ScriptedBroker) -> None:
    connections = create_connections(broker, connections_max_idle_ms=50)

    async def test() -> None:
        await connections.send(7, HeartbeatRequest())
        for _ in range(200):
            if connections.ready(7) is None:
                break
            await asyncio.sleep(0.01)
        assert connections.ready(7) is None
        await connections.send(7, HeartbeatRequest())

    run(connections, test)
    assert broker.connections == 2


@pytest.mark.option("connections.max.idle.ms")
def test_idle_time_of_zero_checks_connections_at_intervals(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.on(HeartbeatRequest, lambda _: SILENCE)
    connections = create_connections(broker, connections_max_idle_ms=0)
    checks: list[None] = []
    close_idle = connections._close_idle

    def check() -> None:
        checks.append(None)
        close_idle()

    monkeypatch.setattr(connections, "_close_idle", check)

    async def test() -> None:
        pending = asyncio.create_task(connections.send(7, HeartbeatRequest()))
        await asyncio.sleep(0.35)
        assert not pending.done(), "the connection was closed before the response"
        pending.cancel()

    run(connections, test)
    assert 1 <= len(checks) <= 4


def test_connection_replaced_before_its_session_expires_is_closed_with_the_client(broker: ScriptedBroker) -> None:
    broker.on(SaslHandshakeRequest, lambda _: SaslHandshakeResponse(mechanisms=["PLAIN"]))
    broker.on(SaslAuthenticateRequest, lambda _: SaslAuthenticateResponse(session_lifetime_ms=300))
    connections = create_connections(
        broker,
        security_protocol="SASL_PLAINTEXT",
        sasl_plain_username="ann",
        sasl_plain_password="secret",
        connections_max_idle_ms=-1,
    )

    async def test() -> None:
        await connections.send(7, HeartbeatRequest())
        connection = connections.ready(7)
        assert connection is not None
        while connections.ready(7) is not None:
            await asyncio.sleep(0.001)
        assert connection.channel.is_open
        broker.on(HeartbeatRequest, lambda _: SILENCE)
        pending = connection.channel.send(HeartbeatRequest(), 0, 5)
        assert connections.requests_in_flight == 1
        await connections.close()
        with pytest.raises(IllegalStateError):
            await pending
        assert not connection.channel.is_open

    run(connections, test)


def test_closed_client_opens_no_connection(broker: ScriptedBroker) -> None:
    connections = create_connections(broker)

    async def test() -> None:
        await connections.close()
        with pytest.raises(IllegalStateError, match="closed"):
            await connections.send(7, ListGroupsRequest())

    run(connections, test)


@pytest.mark.parametrize(
    ("host", "port", "why"),
    [
        ("kafka..example", 9092, "the host name is malformed; is the host name right?"),
        ("k" * 64 + ".example", 9092, "the host name is malformed; is the host name right?"),
        ("127.0.0.1", 70_000, "70000 is not a port number"),
    ],
)
def test_malformed_address_is_reported_as_unreachable(host: str, port: int, why: str) -> None:
    config = ClientConfig.from_keywords(reconnect_backoff_ms=10)
    connections = Connections(config, "me", lambda: {7: Node(7, host, port)}, ChannelMetrics(Metrics(), "test"))

    async def test() -> None:
        with pytest.raises(BrokerConnectionError, match=re.escape(f"{host}:{port}: {why}")):
            await connections.send(7, MetadataRequest())

    run(connections, test)


@pytest.mark.option("security.protocol", "sasl.mechanism", "sasl.plain.username", "sasl.plain.password")
def test_sasl_plain_sends_user_and_password_first(broker: ScriptedBroker) -> None:
    broker.on(SaslHandshakeRequest, lambda _: SaslHandshakeResponse(mechanisms=["PLAIN"]))
    broker.on(SaslAuthenticateRequest, lambda _: SaslAuthenticateResponse())
    broker.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    connections = create_connections(
        broker, security_protocol="SASL_PLAINTEXT", sasl_plain_username="ann", sasl_plain_password="secret"
    )

    async def test() -> None:
        await connections.send(7, ListGroupsRequest())

    run(connections, test)
    assert [r.NAME for r in broker.requests] == ["ApiVersions", "SaslHandshake", "SaslAuthenticate", "ListGroups"]
    assert broker.requests_of(SaslAuthenticateRequest)[0].auth_bytes == b"\0ann\0secret"


def test_rejected_password_is_reported_with_the_brokers_message(broker: ScriptedBroker) -> None:
    rejected = SaslAuthenticateResponse(error_code=58, error_message="wrong password")
    broker.on(SaslHandshakeRequest, lambda _: SaslHandshakeResponse(mechanisms=["PLAIN"]))
    broker.on(SaslAuthenticateRequest, lambda _: rejected)
    connections = create_connections(broker, security_protocol="SASL_PLAINTEXT")

    async def test() -> None:
        with pytest.raises(SaslAuthenticationFailedError, match="wrong password"):
            await connections.send_any(MetadataRequest())

    run(connections, test)


def test_reconnect_backoff_doubles_up_to_the_maximum() -> None:
    config = ClientConfig.from_keywords(
        bootstrap_servers="h:1", reconnect_backoff_ms=100, reconnect_backoff_max_ms=1000
    )
    backoff = Connections(config, "me", dict, ChannelMetrics(Metrics(), "test"))._backoff
    for failures, expected in enumerate([0.1, 0.2, 0.4, 0.8, 1.0, 1.0]):
        assert expected * 0.8 <= backoff.backoff(failures) <= min(expected * 1.2, 1.0)


def test_outage_and_its_end_are_logged_once_with_address_and_cause(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ottla.client")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        host, port = listener.getsockname()
        config = ClientConfig.from_keywords(
            bootstrap_servers=f"{host}:{port}", reconnect_backoff_ms=1, reconnect_backoff_max_ms=1
        )
        connections = Connections(config, "me", dict, ChannelMetrics(Metrics(), "test"))

        async def test() -> None:
            for _ in range(2):
                for _ in range(3):
                    with pytest.raises(BrokerConnectionError):
                        await connections.send_any(MetadataRequest())
                with ScriptedBroker() as broker:
                    connections._nodes = lambda: {7: Node(7, broker.host, broker.port)}
                    await connections.send_any(MetadataRequest())
                    await connections.send_any(MetadataRequest())
                    connections._nodes = dict
                    connections.disconnect(7, "data")

        run(connections, test)
    outage = f"No broker is reachable; calls are retried until they time out: {host}:{port}: connection refused; is a"
    logged = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in logged] == ["WARNING", "INFO"] * 2
    assert logged[0][1].startswith(outage)
    assert "client.id=me" in logged[0][1]
    assert "reachable again" in logged[1][1]


def test_connection_closed_without_a_response_names_security_protocol_as_cause() -> None:
    with ScriptedBroker() as broker:
        broker.on(ApiVersionsRequest, lambda _: DROP)
        connections = create_connections(broker)

        async def test() -> None:
            with pytest.raises(NetworkError, match=r"without a response; does security\.protocol match"):
                await connections.send(7, MetadataRequest())

        run(connections, test)
