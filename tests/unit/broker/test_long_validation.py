"""Validation of large batches by workers, and the config ottla.validate.records."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, batch, with_broker
from tests.unit.broker.produce_and_fetch import create, fetch_request, produce, produce_request, values

from ottla.model import TopicPartition
from ottla.records import compression
from ottla.records.batch import CODEC_MASK, HEADER_BYTES, read_header, write_header
from ottla.records.builder import BatchBuilder
from ottla.storage import validation

SECONDS = 20
INVALID_RECORD, CORRUPT_MESSAGE, NOT_LEADER, INVALID_TIMESTAMP = 87, 2, 6, 32
VALUES = [b"%05d" % i + bytes(1000) for i in range(1000)]


class StoppedWorkers(Executor):
    """Workers that run once the test sets `released`."""

    def __init__(self) -> None:
        self._workers = ThreadPoolExecutor(1)
        self.released = threading.Event()
        self.calls = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls += 1

        def run() -> Any:
            assert self.released.wait(SECONDS)
            return fn(*args, **kwargs)

        return self._workers.submit(run)


def compressed_batch(codec: int = compression.ZSTD, records: list[bytes] = VALUES, timestamp: int = -1) -> bytearray:
    builder = BatchBuilder(bytearray(2_000_000), codec)
    for value in records:
        assert builder.append(timestamp, b"key", value)
    return bytearray(builder.close())


def stop_workers(client: BrokerClient) -> StoppedWorkers:
    partition = client.context.partitions.get(TopicPartition("t", 0))
    assert partition is not None
    workers = partition._workers = StoppedWorkers()
    return workers


async def produce_beside_another(client: BrokerClient, data: bytearray) -> Any:
    """Produce a batch that a worker validates; another client's request is answered meanwhile."""
    workers = stop_workers(client)
    waiting = asyncio.ensure_future(client.request(produce_request(data), 9))
    async with asyncio.timeout(SECONDS):
        while not workers.calls:
            await asyncio.sleep(0.001)
    assert (await produce(client, batch(b"x"), "other")).error_code == 0
    assert not waiting.done()
    workers.released.set()
    return (await waiting).responses[0].partition_responses[0]


@pytest.mark.parametrize("codec", [compression.GZIP, compression.LZ4, compression.ZSTD])
def test_large_compressed_batch_is_validated_without_delaying_others(tmp_path: Path, codec: int) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        await create(client, "other")
        response = await produce_beside_another(client, compressed_batch(codec))
        assert (response.error_code, response.base_offset) == (0, 0)
        assert values(await client.request(fetch_request(partition_max=1 << 24), 12)) == VALUES
        assert (await produce(client, batch(b"next"))).base_offset == len(VALUES)

    with_broker(test, tmp_path)


def test_batch_is_recompressed_without_delaying_others(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, compression_type="zstd")
        await create(client, "other")
        response = await produce_beside_another(client, batch(*VALUES[:100]))
        assert (response.error_code, response.base_offset) == (0, 0)
        fetched = await client.request(fetch_request(), 12)
        records = fetched.responses[0].partitions[0].records
        assert records is not None
        header = read_header(records)
        assert header.attributes & CODEC_MASK == compression.ZSTD
        assert values(fetched) == VALUES[:100]

    with_broker(test, tmp_path)


def test_validation_error_of_a_worker_is_returned(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, message_timestamp_after_max_ms="1000")
        await create(client, "other")
        response = await produce_beside_another(client, compressed_batch(timestamp=1 << 50))
        assert response.error_code == INVALID_TIMESTAMP
        assert response.record_errors[0].batch_index == 0
        assert values(await client.request(fetch_request(), 12)) == []

    with_broker(test, tmp_path)


def test_batch_is_rejected_if_the_leader_resigns_during_its_validation(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        workers = stop_workers(client)
        waiting = asyncio.ensure_future(client.request(produce_request(compressed_batch()), 9))
        async with asyncio.timeout(SECONDS):
            while not workers.calls:
                await asyncio.sleep(0.001)
        partition = client.context.partitions.get(TopicPartition("t", 0))
        assert partition is not None
        partition.leads = False
        workers.released.set()
        assert (await waiting).responses[0].partition_responses[0].error_code == NOT_LEADER
        partition.leads = True

    with_broker(test, tmp_path)


def test_small_batch_is_validated_without_a_worker(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        workers = stop_workers(client)
        assert (await produce(client, compressed_batch(records=VALUES[:100]))).error_code == 0
        assert not workers.calls

    with_broker(test, tmp_path)


def malformed() -> bytearray:
    """Return a batch with a valid CRC whose only record has a wrong length."""
    data = batch(b"value")
    header = read_header(data)
    data[HEADER_BYTES] ^= 2
    write_header(data, 0, header)
    return data


@pytest.mark.parametrize(("validated", "code"), [("all", INVALID_RECORD), ("crc", 0)])
def test_records_are_validated_unless_crc_is_configured(tmp_path: Path, validated: str, code: int) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        assert (await produce(client, malformed())).error_code == code
        damaged = batch(b"value")
        damaged[-1] ^= 1
        assert (await produce(client, damaged)).error_code == CORRUPT_MESSAGE

    with_broker(test, tmp_path, ottla_validate_records=validated)


def test_recompressed_batch_is_validated_even_if_crc_is_configured(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, compression_type="lz4")
        assert (await produce(client, malformed())).error_code == INVALID_RECORD

    with_broker(test, tmp_path, ottla_validate_records="crc")


def test_crc_validation_does_not_decompress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        monkeypatch.setattr(validation, "open_batch", None)
        assert (await produce(client, compressed_batch())).error_code == 0

    with_broker(test, tmp_path, ottla_validate_records="crc")
