"""Batches that take long to validate are left to workers, and ottla.validate.records says how much is validated."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.asking import Asker, batch, with_broker
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
    """Workers that begin when the test lets them."""

    def __init__(self) -> None:
        self._workers = ThreadPoolExecutor(1)
        self.go_on = threading.Event()
        self.calls = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls += 1

        def run() -> Any:
            assert self.go_on.wait(SECONDS)
            return fn(*args, **kwargs)

        return self._workers.submit(run)


def zipped(codec: int = compression.ZSTD, records: list[bytes] = VALUES, timestamp: int = -1) -> bytearray:
    builder = BatchBuilder(bytearray(2_000_000), codec)
    for value in records:
        assert builder.append(timestamp, b"key", value)
    return bytearray(builder.close())


def stopped(client: Asker) -> StoppedWorkers:
    partition = client.context.partitions.get(TopicPartition("t", 0))
    assert partition is not None
    workers = partition._workers = StoppedWorkers()
    return workers


async def produced_beside(client: Asker, data: bytearray) -> Any:
    """Produce a batch that a worker validates; another client's request is answered meanwhile."""
    workers = stopped(client)
    waiting = asyncio.ensure_future(client.ask(produce_request(data), 9))
    async with asyncio.timeout(SECONDS):
        while not workers.calls:
            await asyncio.sleep(0.001)
    assert (await produce(client, batch(b"x"), "other")).error_code == 0
    assert not waiting.done()
    workers.go_on.set()
    return (await waiting).responses[0].partition_responses[0]


@pytest.mark.parametrize("codec", [compression.GZIP, compression.LZ4, compression.ZSTD])
def test_batch_that_decompresses_to_much_is_validated_beside_others(tmp_path: Path, codec: int) -> None:
    async def test(client: Asker) -> None:
        await create(client)
        await create(client, "other")
        response = await produced_beside(client, zipped(codec))
        assert (response.error_code, response.base_offset) == (0, 0)
        assert values(await client.ask(fetch_request(partition_max=1 << 24), 12)) == VALUES
        assert (await produce(client, batch(b"next"))).base_offset == len(VALUES)

    with_broker(test, tmp_path)


def test_batch_is_compressed_again_beside_others(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client, compression_type="zstd")
        await create(client, "other")
        response = await produced_beside(client, batch(*VALUES[:100]))
        assert (response.error_code, response.base_offset) == (0, 0)
        answer = await client.ask(fetch_request(), 12)
        records = answer.responses[0].partitions[0].records
        assert records is not None
        header = read_header(records)
        assert header.attributes & CODEC_MASK == compression.ZSTD
        assert values(answer) == VALUES[:100]

    with_broker(test, tmp_path)


def test_error_of_a_worker_is_the_response(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client, message_timestamp_after_max_ms="1000")
        await create(client, "other")
        response = await produced_beside(client, zipped(timestamp=1 << 50))
        assert response.error_code == INVALID_TIMESTAMP
        assert response.record_errors[0].batch_index == 0
        assert values(await client.ask(fetch_request(), 12)) == []

    with_broker(test, tmp_path)


def test_partition_that_loses_its_leader_meanwhile_rejects_the_batch(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client)
        workers = stopped(client)
        waiting = asyncio.ensure_future(client.ask(produce_request(zipped()), 9))
        async with asyncio.timeout(SECONDS):
            while not workers.calls:
                await asyncio.sleep(0.001)
        partition = client.context.partitions.get(TopicPartition("t", 0))
        assert partition is not None
        partition.leads = False
        workers.go_on.set()
        assert (await waiting).responses[0].partition_responses[0].error_code == NOT_LEADER
        partition.leads = True

    with_broker(test, tmp_path)


def test_small_batches_are_validated_at_once(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client)
        workers = stopped(client)
        assert (await produce(client, zipped(records=VALUES[:100]))).error_code == 0
        assert not workers.calls

    with_broker(test, tmp_path)


def malformed() -> bytearray:
    """Return a batch with a right CRC whose only record is longer than it says."""
    data = batch(b"value")
    header = read_header(data)
    data[HEADER_BYTES] ^= 2
    write_header(data, 0, header)
    return data


@pytest.mark.parametrize(("validated", "code"), [("all", INVALID_RECORD), ("crc", 0)])
def test_records_are_validated_unless_crc_is_configured(tmp_path: Path, validated: str, code: int) -> None:
    async def test(client: Asker) -> None:
        await create(client)
        assert (await produce(client, malformed())).error_code == code
        damaged = batch(b"value")
        damaged[-1] ^= 1
        assert (await produce(client, damaged)).error_code == CORRUPT_MESSAGE

    with_broker(test, tmp_path, ottla_validate_records=validated)


def test_batches_that_are_compressed_again_are_validated_in_any_case(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client, compression_type="lz4")
        assert (await produce(client, malformed())).error_code == INVALID_RECORD

    with_broker(test, tmp_path, ottla_validate_records="crc")


def test_crc_does_not_decompress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Asker) -> None:
        await create(client)
        monkeypatch.setattr(validation, "open_batch", None)
        assert (await produce(client, zipped())).error_code == 0

    with_broker(test, tmp_path, ottla_validate_records="crc")
