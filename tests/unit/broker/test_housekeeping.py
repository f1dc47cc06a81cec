"""What the broker does by the clock, done by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.unit.broker.asking import Asker, batch, with_broker
from tests.unit.broker.test_config_resources import BROKER, alter
from tests.unit.broker.test_produce_and_fetch import create, fetch_request, produce, values

from ottla.model import TopicPartition
from ottla.records.batch import records
from ottla.storage import checkpoints


def test_compaction_keeps_the_last_record_of_each_key(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client, cleanup_policy="compact", segment_bytes="1000", min_cleanable_dirty_ratio="0.01")
        for i in range(200):
            assert (await produce(client, batch(b"%d" % i + b"x" * 50, key=b"key%d" % (i % 5)))).error_code == 0
        housekeeping = client.node._housekeeping
        assert housekeeping is not None
        (log_dir,) = client.node._log_dirs
        before = log_dir.logs[TopicPartition("t", 0)].size
        await housekeeping.compact(log_dir)
        kept = log_dir.logs[TopicPartition("t", 0)]
        assert kept.size < before / 4
        read: list[bytes | None] = []
        offset = 0
        while offset < 200:
            # a read ends with its segment
            answer = await client.ask(fetch_request(offset), 11)
            read += values(answer)
            offset = max(r.offset for r in records(answer.responses[0].partitions[0].records)) + 1
        assert {bytes(v or b"").split(b"x")[0] for v in read} >= {b"%d" % i for i in range(195, 200)}
        assert kept.log_end_offset == 200
        cleaned = checkpoints.read_offsets(tmp_path / checkpoints.CLEANER_OFFSETS)
        assert cleaned[TopicPartition("t", 0)] > 150

    with_broker(test, tmp_path)


def test_cleaners_come_and_go_with_log_cleaner_threads(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        housekeeping = client.node._housekeeping
        assert housekeeping is not None

        async def busy(threads: str, count: int) -> None:
            assert await alter(client, BROKER, "", "log.cleaner.threads", threads) == 0
            while sum(not task.done() for task in housekeeping._cleaners.values()) != count:
                await asyncio.sleep(0.001)

        for threads in (3, 1, 2):
            await busy(str(threads), threads)

    with_broker(test, tmp_path, log_cleaner_backoff_ms=1)


def test_retention_drops_old_segments(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client, segment_bytes="500", retention_ms="1000")
        for _ in range(20):
            await produce(client, batch(b"x" * 100, timestamp=1000))
        housekeeping = client.node._housekeeping
        assert housekeeping is not None
        housekeeping.apply_retention()
        (partition,) = list(client.services.partitions)
        assert partition.log.log_start_offset > 0
        answer = await client.ask(fetch_request(), 11)
        assert answer.responses[0].partitions[0].error_code == 1

    with_broker(test, tmp_path)


def test_checkpoints_hold_high_watermarks(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client)
        await produce(client, batch(b"a", b"b"))
        housekeeping = client.node._housekeeping
        assert housekeeping is not None
        housekeeping.checkpoint()
        offsets = checkpoints.read_offsets(tmp_path / checkpoints.HIGH_WATERMARKS)
        assert offsets[TopicPartition("t", 0)] == 2

    with_broker(test, tmp_path)


def test_records_older_than_flush_ms_are_fsynced(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client, flush_ms="0")
        await produce(client, batch(b"a"))
        housekeeping = client.node._housekeeping
        assert housekeeping is not None
        housekeeping.flush_old()
        (partition,) = list(client.services.partitions)
        await partition.flush()
        assert partition.log.recovery_point == 1

    with_broker(test, tmp_path)
