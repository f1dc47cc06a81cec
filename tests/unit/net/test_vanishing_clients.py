"""A client that disconnects while its request waits: its descriptor is closed at once, and the wait ends."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker import share_group_requests as share_groups
from tests.unit.broker.broker_client import BrokerClient, batch, with_broker
from tests.unit.broker.produce_and_fetch import create, fetch_request

from ottla.model import TopicPartition
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest

TP = TopicPartition("t", 0)


def connected(client: BrokerClient) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", client.node.endpoints[0].port))
    sock.setblocking(False)
    return sock


def framed(client: BrokerClient, request: Any, version: int) -> bytes:
    frame = bytes(client.frame(request, version))
    return struct.pack(">i", len(frame)) + frame


async def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)


def with_topic_on_broker(test: Callable[[BrokerClient], Awaitable[None]], data: Path) -> None:
    async def with_topic(client: BrokerClient) -> None:
        await create(client)
        await test(client)

    with_broker(with_topic, data)


def waiters(client: BrokerClient) -> int:
    partition = client.context.partitions.get(TP)
    assert partition is not None
    return len(partition._waiters)


def connections(client: BrokerClient) -> int:
    return sum(len(listener.connections) for listener in client.node._listeners)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_waiting_fetch_of_a_disconnected_client_ends_at_once(tmp_path: Path, how: str) -> None:
    async def test(client: BrokerClient) -> None:
        sock = connected(client)
        sock.send(framed(client, fetch_request(wait=600_000), 11))
        await until(lambda: waiters(client) == 1)
        assert connections(client) == 1
        if how == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
        await until(lambda: not waiters(client) and not connections(client))

    with_topic_on_broker(test, tmp_path)


def test_produce_behind_the_fetch_of_a_disconnected_client_is_appended(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        sock = connected(client)
        records = PartitionProduceData(index=0, records=memoryview(batch(b"a")))
        topics = [TopicProduceData(name="t", partition_data=[records])]
        sock.send(
            framed(client, fetch_request(wait=600_000), 11)
            + framed(client, ProduceRequest(acks=0, timeout_ms=1000, topic_data=topics), 9)
        )
        await until(lambda: waiters(client) == 1)
        sock.close()
        partition = client.context.partitions.get(TP)
        assert partition is not None
        await until(lambda: partition.log.log_end_offset == 1)
        await until(lambda: not waiters(client) and not connections(client))

    with_topic_on_broker(test, tmp_path)


def test_requests_sent_while_a_fetch_waits_are_answered_in_order(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        loop = asyncio.get_running_loop()
        sock = connected(client)
        sock.send(framed(client, fetch_request(wait=300), 11))
        await until(lambda: waiters(client) == 1)
        sock.send(framed(client, fetch_request(), 11))
        responses = b""
        async with asyncio.timeout(10):
            while len(responses) < 2 or len(responses) < 2 * (4 + struct.unpack_from(">i", responses)[0]):
                responses += await loop.sock_recv(sock, 65536)
        sock.close()

    with_topic_on_broker(test, tmp_path)


def test_share_fetch_of_a_disconnected_client_ends_and_acquires_nothing(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await share_groups.prepare(client, values=1)
        assert share_groups.acquired(await share_groups.fetch(client, 0, member="other")) == [(0, 0, 1)]
        topic_id = client.context.image.topics["t"].id
        sock = connected(client)
        request = ShareFetchRequest(
            group_id="g",
            member_id="m",
            share_session_epoch=0,
            max_wait_ms=600_000,
            max_records=100,
            topics=[FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition_index=0)])],
        )
        sock.send(framed(client, request, 2))
        await until(lambda: waiters(client) == 1)
        tasks = asyncio.all_tasks()
        sock.close()
        await until(lambda: not waiters(client) and not connections(client))
        await until(lambda: len(asyncio.all_tasks()) < len(tasks))
        await share_groups.produce(client, 1)
        assert share_groups.acquired(await share_groups.fetch(client, 1, member="other")) == [(1, 1, 1)]

    with_broker(test, tmp_path)
