"""The HTTP listener of a broker: its pages, authentication, and limits on misbehaving clients."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, batch, with_broker
from tests.unit.broker.http.fetching import LISTENER, connect, exchange, get, url_of
from tests.unit.broker.monitoring.scraping import parsed
from tests.unit.broker.produce_and_fetch import create, produce
from tests.unit.net.certificates import authority, signed

from ottla.broker.http import http_server
from ottla.broker.http.http_server import MAX_BODY_BYTES, MAX_CONNECTIONS, MAX_HEAD_BYTES
from ottla.broker.monitoring.broker_state import BrokerState
from ottla.broker.monitoring.exposition import TextFormat
from ottla.broker.server.broker_node import BrokerNode
from ottla.config.broker.broker_config import BrokerConfig
from ottla.errors import ConfigurationError, StartupError
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.version import __version__


def test_metrics_are_served_in_both_formats(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t")
        await produce(client, batch(b"a"))
        page = await get(url_of(client.node), "/metrics")
        assert (page.status, page.headers["content-type"]) == (200, TextFormat.PROMETHEUS.value)
        assert parsed(page.text).value("kafka_server_brokertopicmetrics_messagesin_total", topic="t") == 1
        names = ("kafka_server_brokertopicmetrics_messagesin_total", "kafka_server_replicamanager_leadercount")
        page = await get(url_of(client.node), f"/metrics?name[]={names[0]}&name[]={names[1]}")
        assert {line.split()[2] for line in page.text.splitlines() if line.startswith("# TYPE")} == set(names)
        accept = "application/openmetrics-text;version=1.0.0"
        page = await get(url_of(client.node), "/metrics", accept=accept)
        assert page.headers["content-type"] == TextFormat.OPEN_METRICS.value
        assert page.text.endswith("# EOF\n")

    with_broker(test, tmp_path, **LISTENER)


def test_pages_report_health_readiness_and_version(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        url = url_of(client.node)
        assert (await get(url, "/healthz")).text == "ok\n"
        assert (await get(url, "/readyz")).text == "ready\n"
        assert (await get(url, "/readyz?isr=1")).status == 200
        facts = json.loads((await get(url, "/version")).body)
        assert (facts["version"], facts["broker_id"]) == (__version__, client.node.broker_id)
        assert "/metrics" in (await get(url, "/")).text

    with_broker(test, tmp_path, **LISTENER)


def test_broker_that_stops_or_has_an_offline_log_dir_is_not_ready(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        node = client.node
        node._state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        page = await get(url_of(node), "/readyz")
        assert (page.status, page.text) == (503, "the broker is stopping\n")
        node._state = BrokerState.RUNNING
        client.context.partitions.log_dirs[0].offline = "I/O error"
        page = await get(url_of(node), "/readyz")
        assert (page.status, page.text) == (503, f"the log directory {tmp_path} is offline: I/O error\n")
        client.context.partitions.log_dirs[0].offline = ""
        node._awaited_store = SimpleNamespace(waits_for="ZooKeeper at z:1 cannot be reached for 3 s")  # type: ignore[assignment]
        page = await get(url_of(node), "/readyz")
        assert (page.status, page.text) == (503, "ZooKeeper at z:1 cannot be reached for 3 s\n")
        node._awaited_store = None
        node._fail("log.dirs: the first data directory has failed")
        assert (await get(url_of(node), "/readyz")).status == 503
        page = await get(url_of(node), "/healthz")
        assert (page.status, page.text) == (503, "log.dirs: the first data directory has failed\n")

    with_broker(test, tmp_path, **LISTENER)


def test_directory_that_cannot_be_opened_is_named_by_readyz_metrics_and_describe_log_dirs(tmp_path: Path) -> None:
    missing = tmp_path / "b"
    missing.write_text("a file in the place of a mount")

    async def test(client: BrokerClient) -> None:
        url = url_of(client.node)
        page = await get(url, "/readyz")
        reason = f"log.dirs: {missing} is not a directory"
        assert (page.status, page.text) == (503, f"the log directory {missing} is offline: {reason}\n")
        page = await get(url, "/metrics?name[]=kafka_log_logmanager_logdirectoryoffline")
        assert f'kafka_log_logmanager_logdirectoryoffline{{logDirectory="{missing}"}} 1' in page.text
        page = await get(url, "/metrics?name[]=kafka_log_logmanager_offlinelogdirectorycount")
        assert page.text.splitlines()[2] == "kafka_log_logmanager_offlinelogdirectorycount 1"
        described = (await client.request(DescribeLogDirsRequest(topics=None), 4)).results
        assert [(r.log_dir, r.error_code) for r in described] == [(str(tmp_path / "a"), 0), (str(missing), 56)]

    with_broker(test, tmp_path, log_dirs=f"{tmp_path / 'a'},{missing}", **LISTENER)


def test_broker_with_unwritable_metadata_store_is_not_ready_and_sets_its_metric(tmp_path: Path) -> None:
    async def metric(url: str) -> str:
        page = await get(url, "/metrics?name[]=ottla_metadata_store_unavailable")
        return page.text.splitlines()[2]

    async def test(client: BrokerClient) -> None:
        url = url_of(client.node)
        assert await metric(url) == "ottla_metadata_store_unavailable 0"
        store: Any = client.node.monitored.store  # type: ignore[union-attr]
        store._outages.failed("written", OSError("database or disk is full"))
        assert await metric(url) == "ottla_metadata_store_unavailable 1"
        page = await get(url, "/readyz")
        assert page.status == 503
        assert "registry.sqlite cannot be written, for 0 s so far: database or disk is full" in page.text
        store._outages.worked("written")
        assert (await get(url, "/readyz")).status == 200

    with_broker(test, tmp_path, **LISTENER)


def test_health_is_served_before_the_broker_is_ready(tmp_path: Path) -> None:
    async def test() -> None:
        configs = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
        node = BrokerNode(BrokerConfig({**configs, "ottla.http.listener": "127.0.0.1:0"}))
        pages: list[tuple[int, int, int]] = []
        open_storage = node._open_storage

        async def slow(stack: Any) -> Any:
            url = url_of(node)
            pages.append(
                (
                    (await get(url, "/healthz")).status,
                    (await get(url, "/readyz")).status,
                    (await get(url, "/metrics")).status,
                )
            )
            return await open_storage(stack)

        node._open_storage = slow  # type: ignore[method-assign]
        async with node:
            assert pages == [(200, 503, 503)]
            assert (await get(url_of(node), "/readyz")).status == 200

    asyncio.run(test())


def test_unknown_page_and_other_methods_are_rejected(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        url = url_of(client.node)
        assert (await get(url, "/nothing")).status == 404
        page = await get(url, "/metrics", "POST")
        assert (page.status, page.headers["allow"]) == (405, "GET, HEAD")
        head = await get(url, "/version", "HEAD")
        assert (head.status, head.body) == (200, b"")
        assert int(head.headers["content-length"]) > 10

    with_broker(test, tmp_path, **LISTENER)


def test_connection_serves_several_requests(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        reader, writer = await connect(url_of(client.node))
        for _ in range(3):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: b\r\n\r\n")
            assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.close()

    with_broker(test, tmp_path, **LISTENER)


def test_password_is_required_except_for_probes(tmp_path: Path) -> None:
    def basic(credentials: str) -> str:
        return "Basic " + base64.b64encode(credentials.encode()).decode()

    async def test(client: BrokerClient) -> None:
        url = url_of(client.node)
        for path in ("/metrics", "/version", "/", "/nothing"):
            assert (await get(url, path)).status == 401, path
        assert (await get(url, "/healthz")).status == (await get(url, "/readyz")).status == 200
        for wrong in (basic("alice:wrong"), basic("bob:secret"), basic("alice"), basic("bob:"), "Basic ?", "Bearer x"):
            page = await get(url, "/version", authorization=wrong)
            assert (page.status, page.headers["www-authenticate"][:5]) == (401, "Basic"), wrong
        assert (await get(url, "/version", authorization=basic("alice:se:cret"))).status == 200

    with_broker(test, tmp_path, **LISTENER, ottla_http_passwords="alice:se:cret")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),  # without Host
        (b"GET / HTTP/1.1\r\nHost: b\r\nContent-Length: x\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: b\r\nX: " + b"y" * MAX_HEAD_BYTES, b"431"),
        (b"GET / HTTP/1.1\r\nHost: b\r\nContent-Length: 99999\r\n\r\n" + b"z" * (MAX_BODY_BYTES + 1), b"413"),
    ],
)
def test_malformed_request_is_answered_with_an_error_and_the_broker_continues(
    tmp_path: Path, request_bytes: bytes, status: bytes
) -> None:
    async def test(client: BrokerClient) -> None:
        received = await exchange(url_of(client.node), request_bytes)
        assert received.split(b" ")[1] == status, received
        assert (await get(url_of(client.node), "/healthz")).status == 200

    with_broker(test, tmp_path, **LISTENER)


def test_slow_client_is_disconnected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "REQUEST_SECONDS", 0.05)

    async def test(client: BrokerClient) -> None:
        assert await exchange(url_of(client.node), b"GET / HT") == b""
        assert (await get(url_of(client.node), "/healthz")).status == 200

    with_broker(test, tmp_path, **LISTENER)


def test_number_of_connections_is_limited(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        url = url_of(client.node)
        assert (await get(url, "/healthz")).status == 200
        opened = [await connect(url) for _ in range(MAX_CONNECTIONS)]
        for reader, writer in opened:
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: b\r\n\r\n")
            await reader.readuntil(b"ok\n")
        assert await exchange(url, b"GET /healthz HTTP/1.1\r\nHost: b\r\n\r\n") == b""
        opened[0][1].close()
        while not await _serves(url):
            await asyncio.sleep(0)
        for _, writer in opened:
            writer.close()

    async def _serves(url: str) -> bool:
        request = b"GET /healthz HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n"
        return b" 200 " in await exchange(url, request)

    with_broker(test, tmp_path, **LISTENER)


def test_port_in_use_is_logged_and_the_broker_serves_clients(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        async def test(client: BrokerClient) -> None:
            assert client.node.http_url is None
            await create(client, "t")

        with_broker(test, tmp_path, ottla_http_listener=f"127.0.0.1:{port}")
    (record,) = [r for r in caplog.records if r.name == "ottla.http"]
    assert record.levelno == logging.WARNING
    assert f"127.0.0.1:{port}" in record.getMessage()
    assert "ottla.http.listener" in record.getMessage()


def test_port_in_use_is_not_logged_if_the_broker_cannot_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.http")
    not_a_directory = tmp_path / "file"
    not_a_directory.touch()
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        configs = {"log.dirs": str(not_a_directory), "ottla.http.listener": address}
        with pytest.raises(StartupError, match="is not a directory"):
            asyncio.run(BrokerNode(BrokerConfig(configs)).start())
    assert [r for r in caplog.records if r.name == "ottla.http"] == []


def test_open_connections_do_not_keep_a_broker_from_stopping(tmp_path: Path) -> None:
    connections: list[Any] = []

    async def test(client: BrokerClient) -> None:
        connections.append(await connect(url_of(client.node)))
        await get(url_of(client.node), "/healthz")

    with_broker(test, tmp_path, **LISTENER)
    assert connections


@pytest.mark.parametrize("value", ["9644", "127.0.0.1", "127.0.0.1:70000", "ftp://127.0.0.1:1", "127.0.0.1:x"])
def test_malformed_address_is_rejected(value: str) -> None:
    with pytest.raises(ConfigurationError, match=r"ottla\.http\.listener"):
        BrokerConfig({"ottla.http.listener": value})


@pytest.mark.parametrize("host", ["0.0.0.0", "", "[::]", "10.0.0.1", "kafka-1.example.com"])
def test_listener_on_a_non_loopback_address_requires_tls_or_a_password(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"ottla\.http\.listener: other machines can reach"):
        BrokerConfig({"ottla.http.listener": f"{host}:9644"})
    BrokerConfig({"ottla.http.listener": f"{host}:9644", "ottla.http.passwords": "a:b"})
    BrokerConfig({"ottla.http.listener": f"https://{host}:9644"})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "[::1]"])
def test_loopback_listener_requires_no_password(host: str) -> None:
    endpoint = BrokerConfig({"ottla.http.listener": f"{host}:9644"}).ottla_http_listener
    assert endpoint is not None
    assert endpoint.port == 9644


def test_empty_address_disables_the_listener() -> None:
    assert BrokerConfig({"ottla.http.listener": ""}).ottla_http_listener is None


def test_passwords_are_not_shown() -> None:
    config = BrokerConfig({"ottla.http.passwords": "alice:secret"})
    assert "secret" not in repr(config)
    with pytest.raises(ConfigurationError) as caught:
        BrokerConfig({"ottla.http.passwords": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_https_without_a_key_store_is_a_config_error(tmp_path: Path) -> None:
    async def test() -> None:
        configs = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
        await BrokerNode(BrokerConfig({**configs, "ottla.http.listener": "https://127.0.0.1:0"})).start()

    with pytest.raises(ConfigurationError):
        asyncio.run(test())


def test_metrics_are_served_over_tls(tmp_path: Path) -> None:
    certified = authority()
    server = signed(certified, "localhost")
    stores: dict[str, Any] = {
        "listener_name_http_ssl_keystore_type": "PEM",
        "listener_name_http_ssl_keystore_key": server.key_pem(),
        "listener_name_http_ssl_keystore_certificate_chain": server.pem,
    }

    async def test(client: BrokerClient) -> None:
        url = url_of(client.node)
        assert url.startswith("https://")
        trusting = ssl.create_default_context(cadata=certified.pem)
        trusting.check_hostname = False
        assert (await get(url, "/metrics", tls=trusting)).status == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            await get(url, "/metrics", tls=ssl.create_default_context())
        assert await exchange(url, b"GET /metrics HTTP/1.1\r\nHost: b\r\n\r\n") == b""
        assert (await get(url, "/healthz", tls=trusting)).status == 200

    with_broker(test, tmp_path, ottla_http_listener="https://127.0.0.1:0", **stores)
