"""Produce requests to a disk that does not keep up: producers wait for space in its queue, other clients do not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.unit.broker.broker_client import BrokerClient, batch, with_broker
from tests.unit.broker.produce_and_fetch import create, fetch_request, produce, produce_request, values

from ottla.model import TopicPartition
from ottla.storage.append_writer import MAX_QUEUED_BYTES, AppendWriter

REQUEST_TIMED_OUT = 7


def writer_of(client: BrokerClient) -> AppendWriter:
    partition = client.context.partitions.get(TopicPartition("t", 0))
    assert partition is not None
    pending = partition.log._pending_writes
    assert pending is not None
    return pending.writer


@contextmanager
def full_queue(writer: AppendWriter) -> Iterator[None]:
    writer.queued_bytes += MAX_QUEUED_BYTES
    try:
        yield
    finally:
        writer.queued_bytes -= MAX_QUEUED_BYTES


def test_produce_to_a_slow_disk_is_written_by_the_writer_thread(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        writer_of(client)._slow_until = float("inf")
        for number in range(3):
            assert (await produce(client, batch(b"%d" % number))).base_offset == number
        assert values(await client.request(fetch_request(), 12)) == [b"0", b"1", b"2"]

    with_broker(test, tmp_path)


def test_produce_waits_for_space_in_the_queue_without_delaying_others(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        writer = writer_of(client)
        with full_queue(writer):
            waiting = asyncio.ensure_future(client.request(produce_request(batch(b"a")), 9))
            assert values(await client.request(fetch_request(), 12)) == []
            assert not waiting.done()
        writer._slow_until = float("inf")
        partition = client.context.partitions.get(TopicPartition("t", 0))
        assert partition is not None
        partition.append(memoryview(batch(b"b")))  # when it is written, there is space
        assert (await waiting).responses[0].partition_responses[0].base_offset == 1
        assert values(await client.request(fetch_request(), 12)) == [b"b", b"a"]

    with_broker(test, tmp_path)


def test_produce_that_waits_for_longer_than_its_timeout_is_rejected(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        request = produce_request(batch(b"a"))
        request.timeout_ms = 10
        with full_queue(writer_of(client)):
            response = (await client.request(request, 9)).responses[0].partition_responses[0]
        assert response.error_code == REQUEST_TIMED_OUT
        assert "timeout.ms=10" in (response.error_message or "")
        assert values(await client.request(fetch_request(), 12)) == []

    with_broker(test, tmp_path)
