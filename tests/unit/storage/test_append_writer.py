"""Appends to a slow disk: a thread writes them, and they are readable once they are written."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.unit.slow_writes import SlowWrites
from tests.unit.storage.conftest import TP, batch, values

from ottla.config.topic import LogConfig
from ottla.model import TopicPartition
from ottla.storage.append_writer import CALM_SECONDS, MAX_QUEUED_BYTES, AppendWriter
from ottla.storage.files import DiskFailedError, DiskFullError
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDir
from ottla.storage.recovery import open_log


@pytest.fixture
def disk(tmp_path: Path) -> SlowWrites:
    return SlowWrites(tmp_path)


@pytest.fixture
def make_slow_log(tmp_path: Path, disk: SlowWrites) -> Callable[..., Log]:
    def make(**config: Any) -> Log:
        return open_log(tmp_path / str(TP), TP, LogConfig(**config), writer=disk.writer)

    return make


def append(log: Log, *rows: bytes) -> None:
    for row in rows:
        log.append(batch(row), leader_epoch=0)


def readable(log: Log) -> int:
    with log.read(log.log_start_offset, 1 << 20, max_offset=log.log_end_offset) as piece:
        return len(piece.read())


async def test_write_after_a_slow_one_is_queued_until_the_disk_has_recovered(disk: SlowWrites, tmp_path: Path) -> None:
    assert not disk.writer.keeps_up
    assert disk.writer.slow_writes == 1
    disk.now += CALM_SECONDS
    assert disk.writer.keeps_up


async def test_append_to_a_slow_disk_is_readable_when_it_is_written(
    disk: SlowWrites, make_slow_log: Callable[..., Log]
) -> None:
    log = make_slow_log()
    listener = log.listener = Mock()
    append(log, b"a", b"b")
    assert (log.log_end_offset, log.written_end_offset, readable(log)) == (2, 0, 0)
    assert (log.active.readable, log.size > 0, values(log)) == (0, True, [])
    await disk.write_next()
    assert (log.written_end_offset, values(log)) == (1, [b"a"])
    await disk.write_next()
    assert (log.written_end_offset, values(log)) == (2, [b"a", b"b"])
    assert (listener.on_written.call_count, disk.writer.queued_bytes) == (2, 0)
    log.close()


async def test_append_is_queued_behind_others_after_the_disk_has_recovered(
    disk: SlowWrites, make_slow_log: Callable[..., Log]
) -> None:
    log = make_slow_log()
    append(log, b"a")
    disk.now += CALM_SECONDS
    append(log, b"b")
    assert len(disk.thread.jobs) == 2
    await disk.write_next(2)
    append(log, b"c")
    assert (disk.thread.jobs, values(log)) == ([], [b"a", b"b", b"c"])


async def test_offset_for_time_ignores_appends_that_are_not_written(
    disk: SlowWrites, make_slow_log: Callable[..., Log]
) -> None:
    log = make_slow_log()
    append(log, b"a")
    assert log.offset_for_time(0) is None
    await disk.write_next()
    first = log.offset_for_time(0)
    assert first is not None
    assert first.offset == 0


async def test_flush_covers_written_appends_only(disk: SlowWrites, make_slow_log: Callable[..., Log]) -> None:
    log = make_slow_log()
    append(log, b"a", b"b")
    await disk.write_next()
    log.flush()
    assert (log.recovery_point, log.unflushed_messages) == (1, 0)
    await disk.write_next()
    log.flush()
    assert log.recovery_point == 2


async def test_rolled_segment_is_readable_up_to_its_written_end(
    disk: SlowWrites, make_slow_log: Callable[..., Log]
) -> None:
    log = make_slow_log(segment_bytes=150)
    append(log, b"a", b"b", b"c", b"d")
    assert len(log.segments) > 1
    for written in range(5):
        assert [len(values(log)), log.written_end_offset] == [written, written]
        if written < 4:
            await disk.write_next()
    log.close()


async def test_truncation_waits_for_queued_writes(disk: SlowWrites, make_slow_log: Callable[..., Log]) -> None:
    log = make_slow_log()
    append(log, b"a", b"b", b"c")
    while disk.thread.jobs:
        disk.thread.run_one()  # the event loop has not handled the results yet
    log.truncate_to(1)
    assert (log.log_end_offset, log.written_end_offset, values(log)) == (1, 1, [b"a"])
    await asyncio.sleep(0)
    append(log, b"d")
    await disk.write_next()
    assert values(log) == [b"a", b"d"]


async def test_result_of_a_write_before_a_truncation_is_ignored(
    disk: SlowWrites, make_slow_log: Callable[..., Log]
) -> None:
    log = make_slow_log()
    append(log, b"a")
    disk.thread.run_one()
    log.truncate_fully_and_start_at(0)
    append(log, b"b")
    for _ in range(3):
        await asyncio.sleep(0)
    assert log.written_end_offset == 0
    await disk.write_next()
    assert values(log) == [b"b"]


@pytest.mark.parametrize(("number", "kind"), [(errno.EIO, DiskFailedError), (errno.ENOSPC, DiskFullError)])
async def test_failed_write_is_reported_and_can_be_retried(
    disk: SlowWrites, make_slow_log: Callable[..., Log], number: int, kind: type[Exception]
) -> None:
    log = make_slow_log()
    listener = log.listener = Mock()
    append(log, b"a", b"b")
    await disk.write_next(error=OSError(number, os.strerror(number)))
    await disk.write_next()
    error, retry = listener.on_write_failed.call_args.args
    assert isinstance(error, kind)
    assert log.written_end_offset == 0  # the second write does not make the first one readable
    retry()
    await disk.write_next()
    assert values(log) == [b"a", b"b"]


async def test_close_writes_queued_appends(tmp_path: Path) -> None:
    writer = AppendWriter(tmp_path)
    with LogDir.open(tmp_path, broker_id=0, writer=writer) as log_dir:
        log_dir.load(lambda _: LogConfig())
        log = log_dir.create(TopicPartition("t", 0), LogConfig())
        writer._slow_until = float("inf")
        append(log, b"a", b"b")
        assert writer.queued == 2
    with LogDir.open(tmp_path, broker_id=0) as log_dir:
        log_dir.load(lambda _: LogConfig())
        assert values(log_dir.logs[TopicPartition("t", 0)]) == [b"a", b"b"]


async def test_event_loop_is_woken_up_once_for_all_finished_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, wake_ups = asyncio.get_running_loop(), []
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda call: wake_ups.append(call))
    writer = AppendWriter(tmp_path)
    writer._slow_until = float("inf")
    log = open_log(tmp_path / str(TP), TP, LogConfig(), writer=writer)
    append(log, b"a", b"b", b"c")
    log._wait_written()  # the thread has finished, and the event loop has not handled the results
    (handle_results,) = wake_ups
    handle_results()
    assert (writer.queued, writer.queued_bytes, values(log)) == (0, 0, [b"a", b"b", b"c"])
    append(log, b"d")
    log._wait_written()
    assert len(wake_ups) == 2
    log.close()
    writer.close()


async def test_producers_wait_for_space_in_a_full_queue(disk: SlowWrites, make_slow_log: Callable[..., Log]) -> None:
    log = make_slow_log()
    append(log, b"a")
    disk.writer.queued_bytes += MAX_QUEUED_BYTES
    waiting = asyncio.create_task(log.wait_for_queue())
    await asyncio.sleep(0)
    assert log.is_queue_full
    assert not waiting.done()
    disk.writer.queued_bytes -= MAX_QUEUED_BYTES
    await disk.write_next()
    async with asyncio.timeout(10):
        await waiting
