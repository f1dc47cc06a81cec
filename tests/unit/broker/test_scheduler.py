"""Background tasks of the broker, run by the test instead of the scheduler."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from pathlib import Path
from typing import Any, cast

import pytest
from tests.interop.malformed_batches import V2, record
from tests.unit.broker.broker_client import BrokerClient, batch, with_broker
from tests.unit.broker.config_requests import BROKER, alter
from tests.unit.broker.produce_and_fetch import create, fetch_request, produce, values
from tests.unit.replication import virtual_loop

from ottla import Broker, KafkaAdminClient, NewTopic
from ottla.broker.scheduler import BackgroundTasks
from ottla.config.topic import DAY_MS, LONG_MAX
from ottla.model import TopicPartition
from ottla.records.decoder import records
from ottla.storage import checkpoints
from ottla.storage.compaction import cleaner
from ottla.storage.compaction.cleaner import CleanerPass


def test_compaction_keeps_the_last_record_of_each_key(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, cleanup_policy="compact", segment_bytes="1000", min_cleanable_dirty_ratio="0.01")
        for i in range(200):
            assert (await produce(client, batch(b"%d" % i + b"x" * 50, key=b"key%d" % (i % 5)))).error_code == 0
        background_tasks = client.node._background_tasks
        assert background_tasks is not None
        (log_dir,) = client.node._log_dirs
        before = log_dir.logs[TopicPartition("t", 0)].size
        await background_tasks.compact(log_dir)
        stored = log_dir.logs[TopicPartition("t", 0)]
        assert stored.size < before / 4
        read: list[bytes | None] = []
        offset = 0
        while offset < 200:
            # a read ends with its segment
            response = await client.request(fetch_request(offset), 11)
            read += values(response)
            offset = max(r.offset for r in records(response.responses[0].partitions[0].records or b"")) + 1
        assert {bytes(v or b"").split(b"x")[0] for v in read} >= {b"%d" % i for i in range(195, 200)}
        assert stored.log_end_offset == 200
        cleaned = checkpoints.read_offsets(tmp_path / checkpoints.CLEANER_OFFSETS)
        assert cleaned[TopicPartition("t", 0)] > 150

    with_broker(test, tmp_path)


def test_number_of_cleaners_follows_log_cleaner_threads(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        background_tasks = client.node._background_tasks
        assert background_tasks is not None

        async def set_threads_and_wait(threads: str, count: int) -> None:
            assert await alter(client, BROKER, "", "log.cleaner.threads", threads) == 0
            while sum(not task.done() for task in background_tasks._cleaners.values()) != count:
                await asyncio.sleep(0.001)

        for threads in (3, 1, 2):
            await set_threads_and_wait(str(threads), threads)

    with_broker(test, tmp_path, log_cleaner_backoff_ms=1)


def test_retention_deletes_old_segments(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, segment_bytes="500", retention_ms="1000")
        for _ in range(20):
            await produce(client, batch(b"x" * 100, timestamp=1000))
        background_tasks = client.node._background_tasks
        assert background_tasks is not None
        background_tasks.apply_retention()
        (partition,) = list(client.context.partitions)
        assert partition.log.log_start_offset > 0
        response = await client.request(fetch_request(), 11)
        assert response.responses[0].partitions[0].error_code == 1

    with_broker(test, tmp_path)


def test_checkpoint_contains_the_high_watermarks(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        await produce(client, batch(b"a", b"b"))
        background_tasks = client.node._background_tasks
        assert background_tasks is not None
        await background_tasks.checkpoint()
        offsets = checkpoints.read_offsets(tmp_path / checkpoints.HIGH_WATERMARKS)
        assert offsets[TopicPartition("t", 0)] == 2

    with_broker(test, tmp_path)


def test_records_older_than_flush_ms_are_fsynced(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, flush_ms="0")
        await produce(client, batch(b"a"))
        background_tasks = client.node._background_tasks
        assert background_tasks is not None
        background_tasks.flush_old()
        (partition,) = list(client.context.partitions)
        await partition.flush()
        assert partition.log.recovery_point == 1

    with_broker(test, tmp_path)


def test_task_with_an_interval_of_more_than_a_day_waits_for_all_of_it() -> None:
    runs: list[float] = []

    async def test() -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        tasks = cast(BackgroundTasks, None)
        week = BackgroundTasks._periodically(tasks, 7 * DAY_MS, lambda: runs.append((loop.time() - start) * 1000))
        never = BackgroundTasks._periodically(tasks, LONG_MAX, lambda: runs.append(-1))
        started = [asyncio.create_task(week), asyncio.create_task(never)]
        await asyncio.sleep(15 * DAY_MS / 1000)
        for task in started:
            task.cancel()

    virtual_loop.run(test())
    assert runs == [7 * DAY_MS, 14 * DAY_MS]


def forged(*deltas: int) -> memoryview:
    """Return a batch with these offset deltas, as brokers stored it before they validated records."""
    data = V2([record(delta, key=b"k") for delta in deltas])
    return memoryview(bytearray(data.encode(1_700_000_000_000)))


@pytest.mark.parametrize("error", [None, RuntimeError("a fault of the cleaner")])
def test_uncleanable_log_is_skipped_and_the_others_are_compacted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    async def test(client: BrokerClient) -> None:
        options: dict[str, Any] = {
            "cleanup_policy": "compact",
            "segment_bytes": "1000",
            "min_cleanable_dirty_ratio": "0.01",
        }
        await create(client, "poisoned", **options)
        await create(client, "sound", **options)
        (log_dir,) = client.node._log_dirs
        poisoned, sound = (log_dir.logs[TopicPartition(name, 0)] for name in ("poisoned", "sound"))
        for i in range(40):
            poisoned.append(forged(0, 0, 0), leader_epoch=0, origin_client=False)
            sound.append(memoryview(batch(b"%d" % i + b"x" * 50, key=b"k")), leader_epoch=0)
        for stored in (poisoned, sound):
            stored.high_watermark = stored.log_end_offset
        if error is not None:
            real = CleanerPass.copy

            def copy(cleaning: CleanerPass) -> None:
                if cleaning.log is poisoned:
                    raise error
                real(cleaning)

            monkeypatch.setattr(CleanerPass, "copy", copy)
        before = sound.size
        background_tasks = client.node._background_tasks
        assert background_tasks is not None
        for _ in range(3):
            await background_tasks.compact(log_dir)
        assert sound.size < before / 4
        assert log_dir.uncleanable == {TopicPartition("poisoned", 0)}

    with_broker(test, tmp_path)
    assert sum("Compaction of poisoned-0 failed" in record.message for record in caplog.records) == 1


def test_failed_checkpoint_is_logged_in_one_line_without_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        background_tasks = client.node._background_tasks
        assert background_tasks is not None

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", full)
            await background_tasks.checkpoint()
        (log_dir,) = client.node._log_dirs
        assert not log_dir.offline
        monkeypatch.setattr(os, "replace", full)  # the broker is stopped while the disk is full

    with_broker(test, tmp_path)
    messages = [record.message for record in caplog.records if "no space is left" in record.message]
    assert len(messages) >= 2, caplog.text
    assert all(str(tmp_path) in message and "make room" in message for message in messages)
    assert not any(record.exc_info for record in caplog.records)


def test_deletion_of_a_topic_logs_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Broker(data_dir=tmp_path) as broker, KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        for i in range(3):
            admin.create_topics([NewTopic(f"t{i}", 2, 1)])
            admin.delete_topics([f"t{i}"])
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING], caplog.text


@pytest.mark.parametrize(("code", "fails"), [(errno.EIO, True), (errno.ENOSPC, False), (errno.EMFILE, False)])
def test_io_error_in_compaction_fails_the_directory_only_if_the_disk_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, fails: bool
) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, cleanup_policy="compact", segment_bytes="1000", min_cleanable_dirty_ratio="0.01")
        for i in range(40):
            await produce(client, batch(b"%d" % i + b"x" * 50))
        (log_dir,) = client.node._log_dirs
        before = log_dir.logs[TopicPartition("t", 0)].size
        failed: list[BaseException] = []
        monkeypatch.setattr(client.context.partitions, "fail_directory", lambda _, error: failed.append(error))
        background_tasks = client.node._background_tasks
        assert background_tasks is not None

        def broken(*_: object) -> None:
            raise OSError(code, os.strerror(code))

        with monkeypatch.context() as patched:
            patched.setattr(cleaner, "sync_directory", broken)
            await background_tasks.compact(log_dir)
        assert bool(failed) is fails
        assert not log_dir.uncleanable
        assert log_dir.logs[TopicPartition("t", 0)].size == before
        await background_tasks.compact(log_dir)
        assert log_dir.logs[TopicPartition("t", 0)].size < before / 2

    with_broker(test, tmp_path)
