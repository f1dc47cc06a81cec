from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.unit.net.channel_peers import echo, heartbeat_response, receive

from ottla.errors import BrokerConnectionError, MalformedMessageError, NetworkError, RequestTimedOutError
from ottla.net.client.channel import Channel
from ottla.net.client.connect import SocketOptions
from ottla.protocol.framing import FrameReader
from ottla.protocol.header import decode_request_header
from ottla.protocol.message import encode
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def connected(peer: Peer) -> AsyncIterator[Channel]:
    server = await asyncio.start_server(peer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    channel = Channel(asyncio.get_running_loop(), host, port, client_id="test")
    await channel.connect()
    try:
        yield channel
    finally:
        channel.close()
        server.close()
        await server.wait_closed()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


def test_responses_are_matched_to_requests_in_order() -> None:
    async def test() -> None:
        async with connected(echo) as channel:
            requested = [channel.send(HeartbeatRequest(), 1, 5) for _ in range(100)]
            codes = [response.error_code for response in await asyncio.gather(*requested)]
            assert codes == sorted(codes)
            assert len(set(codes)) == 100

    run(test)


def test_large_request_arrives_whole() -> None:
    size = 5_000_000
    seen: list[int] = []

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            frame = await receive(reader)
            seen.append(len(frame))
            writer.write(heartbeat_response(decode_request_header(frame)[0].correlation_id))
        writer.close()

    async def test() -> None:
        async with connected(peer) as channel:
            part = PartitionProduceData(records=[bytes(size), bytes(size)])
            channel.send_without_response(ProduceRequest(topic_data=[TopicProduceData(partition_data=[part])]), 3)
            second = channel.send(HeartbeatRequest(), 1, 5)
            with contextlib.suppress(MalformedMessageError, NetworkError):
                await second
            assert seen[0] > 2 * size

    run(test)


def test_large_response_between_small_ones_is_read_in_few_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[int] = []

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            header, _pos = decode_request_header(await receive(reader))
            if header.api_key != FetchRequest.API_KEY:
                writer.write(heartbeat_response(header.correlation_id))
                continue
            part = PartitionData(records=memoryview(bytes(900_000)))
            topic = FetchableTopicResponse(topic="t", partitions=[part])
            body = header.correlation_id.to_bytes(4, "big") + encode(FetchResponse(responses=[topic]), 4)
            frame = len(body).to_bytes(4, "big") + body
            for start in range(0, len(frame), 30_000):
                writer.write(frame[start : start + 30_000])
                await writer.drain()
                await asyncio.sleep(0)
        header, _pos = decode_request_header(await receive(reader))
        writer.write((900_000).to_bytes(4, "big") + bytes(100_000))
        writer.close()

    async def test() -> None:
        async with connected(peer) as channel:
            received = FrameReader.received
            monkeypatch.setattr(FrameReader, "received", lambda self, n: reads.append(n) or received(self, n))  # type: ignore[func-returns-value]
            assert (await channel.send(HeartbeatRequest(), 1, 5)).error_code == 0
            response = await channel.send(FetchRequest(), 4, 5)
            assert response.responses[0].partitions[0].records.nbytes == 900_000  # type: ignore[union-attr]
            assert (await channel.send(HeartbeatRequest(), 1, 5)).error_code == 0
            assert sys.platform != "linux" or len(reads) < 25, reads
            with pytest.raises(NetworkError, match="the peer closed the connection"):
                await channel.send(FetchRequest(), 4, 5)

    run(test)


def test_response_timeout_closes_the_connection() -> None:
    async def test() -> None:
        async with connected(silent) as channel:
            later = channel.send(HeartbeatRequest(), 1, 60)
            with pytest.raises(RequestTimedOutError, match="Heartbeat"):
                await channel.send(HeartbeatRequest(), 1, 0.02)
            with pytest.raises(RequestTimedOutError):
                await later
            assert not channel.is_open
            with pytest.raises(RequestTimedOutError):
                await channel.send(HeartbeatRequest(), 1, 1)

    run(test)


def test_disconnecting_peer_fails_pending_requests() -> None:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receive(reader)
        writer.close()

    async def test() -> None:
        async with connected(peer) as channel:
            with pytest.raises(NetworkError, match="closed the connection"):
                await channel.send(HeartbeatRequest(), 1, 5)

    run(test)


def test_wrong_correlation_id_closes_the_connection() -> None:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receive(reader)
        writer.write(heartbeat_response(4711))
        await reader.read()
        writer.close()

    async def test() -> None:
        async with connected(peer) as channel:
            with pytest.raises(MalformedMessageError, match="4711"):
                await channel.send(HeartbeatRequest(), 1, 5)
            assert not channel.is_open

    run(test)


def test_unsupported_api_versions_response_in_version_0_is_decoded() -> None:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        header, _ = decode_request_header(await receive(reader))
        body = header.correlation_id.to_bytes(4, "big") + encode(ApiVersionsResponse(error_code=35), 0)
        writer.write(len(body).to_bytes(4, "big") + body)
        await reader.read()
        writer.close()

    async def test() -> None:
        async with connected(peer) as channel:
            assert (await channel.send(ApiVersionsRequest(), 4, 5)).error_code == 35

    run(test)


def test_refused_connection_names_the_address() -> None:
    async def test() -> None:
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        _, port = server.sockets[0].getsockname()
        server.close()
        await server.wait_closed()
        channel = Channel(asyncio.get_running_loop(), "127.0.0.1", port, client_id="test")
        with pytest.raises(BrokerConnectionError, match=f"127.0.0.1:{port}"):
            await channel.connect()

    run(test)


def test_unresolvable_host_is_named() -> None:
    async def test() -> None:
        channel = Channel(asyncio.get_running_loop(), "host.invalid", 9092, client_id="test")
        with pytest.raises(BrokerConnectionError, match=r"host\.invalid"):
            await channel.connect()

    run(test)


def test_connect_times_out() -> None:
    async def test() -> None:
        options = SocketOptions(connect_timeout=0.05)
        # An address for documentation (RFC 5737): no host answers, or the network reports an error at once.
        channel = Channel(asyncio.get_running_loop(), "192.0.2.1", 9092, client_id="test", options=options)
        with pytest.raises(BrokerConnectionError, match=r"192\.0\.2\.1"):
            await channel.connect()

    run(test)
