from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.unit.net.channel_peers import echo, heartbeat_response, receive

from ottla.errors import BrokerConnectionError
from ottla.net.client.channel import Channel
from ottla.net.client.connect import SocketOptions
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl, which makes the certificate, is missing"
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject]
    subprocess.run([*command, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    return cert, key


async def with_tls(
    certificate: tuple[Path, Path],
    peer: Callable[..., Awaitable[None]],
    test: Callable[[Channel], Awaitable[None]],
    *,
    host: str = "localhost",
    trusted: bool = True,
) -> None:
    server_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_context.load_cert_chain(*certificate)
    server = await asyncio.start_server(peer, "127.0.0.1", 0, ssl=server_context)
    context = ssl.create_default_context(cafile=str(certificate[0]) if trusted else None)
    options = SocketOptions(ssl_context=context)
    port = server.sockets[0].getsockname()[1]
    channel = Channel(asyncio.get_running_loop(), host, port, client_id="test", options=options)
    try:
        await test(channel)
    finally:
        channel.close()
        server.close()


def test_requests_and_responses_are_exchanged_over_tls(certificate: tuple[Path, Path]) -> None:
    async def test(channel: Channel) -> None:
        await channel.connect()
        requested = [channel.send(HeartbeatRequest(), 1, 5) for _ in range(50)]
        assert len({response.error_code for response in await asyncio.gather(*requested)}) == 50

    asyncio.run(with_tls(certificate, echo, test))


def test_large_request_arrives_whole_over_tls(certificate: tuple[Path, Path]) -> None:
    size = 3_000_000
    seen: list[int] = []

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(len(await receive(reader)))
        await receive(reader)
        writer.write(heartbeat_response(2))
        await writer.drain()
        await reader.read()
        writer.close()

    async def test(channel: Channel) -> None:
        await channel.connect()
        part = PartitionProduceData(records=bytes(size))
        await channel.send_without_response(ProduceRequest(topic_data=[TopicProduceData(partition_data=[part])]), 3)
        assert (await channel.send(HeartbeatRequest(), 1, 5)).error_code == 0

    asyncio.run(with_tls(certificate, peer, test))
    assert seen[0] > size


@pytest.mark.parametrize(("host", "trusted"), [("127.0.0.1", True), ("localhost", False)])
def test_certificate_for_another_host_or_from_an_unknown_ca_is_rejected(
    certificate: tuple[Path, Path], host: str, trusted: bool
) -> None:
    async def test(channel: Channel) -> None:
        with pytest.raises(BrokerConnectionError, match=host):
            await channel.connect()

    asyncio.run(with_tls(certificate, echo, test, host=host, trusted=trusted))
