"""Requests for data on a disk that hangs: they wait, and other requests are answered."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker import filled_requests
from tests.unit.broker.broker_client import BrokerClient, batch, with_broker
from tests.unit.broker.produce_and_fetch import create, fetch_request, produce, values
from tests.unit.broker.share_group_requests import prepare
from tests.unit.slow_disk import SlowDisk

from ottla.model import TopicPartition
from ottla.protocol.header import decode_response_header
from ottla.protocol.message import Request, decode
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest

VALUE = b"v" * 3000
RECORDS = 40
SEGMENT_BYTES = "20000"
LOAD_IN_PROGRESS = 14


async def request_over_socket(client: BrokerClient, request: Request[Any], version: int) -> Any:
    """Send a request over a connection of its own, and return the response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", client.node.endpoints[0].port)
    frame = bytes(client.frame(request, version))
    writer.write(struct.pack(">i", len(frame)) + frame)
    body = memoryview(await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0]))
    writer.close()
    _, position = decode_response_header(body, request.API_KEY, version)
    return decode(type(request).RESPONSE, body, version, position)


async def fill(client: BrokerClient, **configs: Any) -> None:
    await create(client, segment_bytes=SEGMENT_BYTES, **configs)
    await create(client, "other")
    for i in range(RECORDS):
        assert (await produce(client, batch(b"%d-" % i + VALUE, timestamp=1_700_000_000_000 + i))).error_code == 0
    partition = client.context.partitions.get(TopicPartition("t", 0))
    assert partition is not None
    partition.log.close_idle()
    partition.log.close_idle()  # indexes and files are opened again, as after an hour


def with_cold_files(test: Callable[[BrokerClient], Coroutine[Any, Any, None]], data: Path, disk: SlowDisk) -> None:
    """Run a test against a broker; it stops with its files in the page cache."""

    async def run(client: BrokerClient) -> None:
        await test(client)
        disk.warm_up()

    with_broker(run, data)


async def request_while_disk_hangs(
    client: BrokerClient, disk: SlowDisk, data: Path, request: Request[Any], version: int
) -> Any:
    """Return the response to a request that needs the disk; other requests are answered while the disk hangs."""
    disk.evict(data)
    with disk.stopped():
        waiting = asyncio.create_task(request_over_socket(client, request, version))
        await disk.until_waited_for()
        assert (await produce(client, batch(b"hot"), "other")).error_code == 0
        assert values(await request_over_socket(client, fetch_request(topic="other"), 12)) == [b"hot"]
        assert not waiting.done()
    return await waiting


def test_fetch_of_uncached_records_does_not_delay_other_requests(tmp_path: Path, slow_disk: SlowDisk) -> None:
    async def test(client: BrokerClient) -> None:
        await fill(client)
        response = await request_while_disk_hangs(client, slow_disk, tmp_path, fetch_request(3), 12)
        assert values(response)[0] == b"3-" + VALUE
        offset = 3 + len(values(response))
        while offset < RECORDS:
            response = await request_over_socket(client, fetch_request(offset), 12)
            assert values(response)[0] == b"%d-" % offset + VALUE
            offset += len(values(response))

    with_cold_files(test, tmp_path, slow_disk)


@pytest.mark.parametrize("version", [2, 3])
def test_down_conversion_of_uncached_records_does_not_delay_other_requests(
    tmp_path: Path, slow_disk: SlowDisk, version: int
) -> None:
    async def test(client: BrokerClient) -> None:
        await fill(client, message_format_version="2.0", message_downconversion_enable="true")
        response = await request_while_disk_hangs(
            client, slow_disk, tmp_path, fetch_request(3, partition_max=8000), version
        )
        assert bytes(response.responses[0].partitions[0].records).count(VALUE) >= 1

    with_cold_files(test, tmp_path, slow_disk)


def test_fetch_of_several_uncached_partitions_returns_them_in_order(tmp_path: Path, slow_disk: SlowDisk) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, partitions=3, segment_bytes=SEGMENT_BYTES)
        await create(client, "other")
        for partition in range(3):
            for i in range(9):
                await produce(client, batch(b"%d-%d" % (partition, i) + VALUE), partition=partition)
        client.context.partitions.get(TopicPartition("t", 0)).log.close_idle()  # type: ignore[union-attr]
        request = fetch_request(0)
        request.topics[0].partitions = [
            type(request.topics[0].partitions[0])(partition=p, fetch_offset=1, partition_max_bytes=4000)
            for p in range(3)
        ]
        response = await request_while_disk_hangs(client, slow_disk, tmp_path, request, 12)
        (topic,) = response.responses
        assert [p.partition_index for p in topic.partitions] == [0, 1, 2]
        assert [value.split(b"v")[0] for value in values(response) if value] == [b"0-1", b"1-1", b"2-1"]

    with_cold_files(test, tmp_path, slow_disk)


@pytest.mark.parametrize(("timestamp", "offset"), [(1_700_000_000_007, 7), (-3, RECORDS - 1)])
def test_offset_lookup_by_timestamp_does_not_delay_other_requests(
    tmp_path: Path, slow_disk: SlowDisk, timestamp: int, offset: int
) -> None:
    async def test(client: BrokerClient) -> None:
        await fill(client)
        partition = client.context.partitions.get(TopicPartition("t", 0))
        assert partition is not None
        for segment in partition.log.segments:
            segment.max_timestamp = -1  # as after a start
        partitions = [ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=partitions)])
        response = await request_while_disk_hangs(client, slow_disk, tmp_path, request, 7)
        assert response.topics[0].partitions[0].offset == offset

    with_cold_files(test, tmp_path, slow_disk)


def test_share_fetch_of_uncached_records_does_not_delay_other_requests(tmp_path: Path, slow_disk: SlowDisk) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client, 5)
        await create(client, "other")
        topic = FetchTopic(topic_id=client.context.image.topics["t"].id, partitions=[FetchPartition(partition_index=0)])
        request = ShareFetchRequest(
            group_id="g", member_id="m", share_session_epoch=0, max_wait_ms=5000, max_records=10, topics=[topic]
        )
        await request_over_socket(
            client, ShareFetchRequest(group_id="g", member_id="x", share_session_epoch=0, topics=[]), 1
        )
        response = await request_while_disk_hangs(client, slow_disk, tmp_path, request, 1)
        (data,) = response.responses[0].partitions
        assert [(r.first_offset, r.last_offset) for r in data.acquired_records] == [(0, 4)]

    with_cold_files(test, tmp_path, slow_disk)


def test_load_of_a_coordinator_does_not_delay_other_requests(tmp_path: Path, slow_disk: SlowDisk) -> None:
    async def test(client: BrokerClient) -> None:
        await filled_requests.prepare(client)
        await create(client, "other")
        shards = client.context.groups._log.shards
        (index,) = (i for i in shards.indexes if shards.partition(i).log.log_end_offset)
        partition = shards.partition(index)
        request = OffsetFetchRequest(group_id=filled_requests.EXISTING, topics=None)
        slow_disk.evict(tmp_path)
        with slow_disk.stopped():
            shards.on_resigned(partition.topic_partition)
            shards.on_leader(partition)
            await slow_disk.until_waited_for()
            assert (await request_over_socket(client, request, 5)).error_code == LOAD_IN_PROGRESS
            assert (await produce(client, batch(b"hot"), "other")).error_code == 0
        await shards.all_loaded()
        response = await request_over_socket(client, request, 5)
        assert response.topics[0].partitions[0].committed_offset == 1

    with_cold_files(test, tmp_path, slow_disk)
