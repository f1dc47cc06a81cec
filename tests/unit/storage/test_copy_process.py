"""The copy of a cleaner pass in a process of its own."""

import pickle
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.storage.conftest import batch, contents

from ottla.errors import CorruptMessageError
from ottla.storage.compaction import cleanable, cleaner, copier, copy_process
from ottla.storage.compaction.cleaner import CleanerPass
from ottla.storage.files import DiskFailedError, ResourcesExhaustedError
from ottla.storage.log import Log
from ottla.storage.throttle import StoppedError, Throttle

SMALL: dict[str, Any] = {"segment_bytes": 1000, "cleanup_policy": ("compact",)}


@pytest.fixture
def log(make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch) -> Log:
    """A log that is worth a process."""
    monkeypatch.setattr(copy_process, "PROCESS_BYTES", 0)
    log = make_log(**SMALL)
    rng = random.Random(1)
    for _ in range(50):
        log.append(batch(*[(b"k%d" % rng.randrange(10), rng.randbytes(20)) for _ in range(3)]), leader_epoch=0)
    log.high_watermark = log.log_end_offset
    return log


def new_pass(log: Log, throttle: Throttle | None = None) -> CleanerPass:
    now_ms = log.clock.now_ms()
    measured = cleanable.measure(log, 0, now_ms)
    return CleanerPass(measured, now_ms, throttle=throttle, copy_segments=copy_process.copy_segments)


def cleaned_files(log: Log) -> list[Path]:
    return list(log.dir.glob("*.cleaned"))


def started(monkeypatch: pytest.MonkeyPatch, *command: str) -> None:
    """Start this command instead of the process."""
    monkeypatch.setattr(
        copy_process,
        "_start",
        lambda: subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ),
    )


def test_process_writes_the_files_that_a_thread_writes(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = new_pass(log)._plan
    in_thread = copier.copy_segments(plan, lambda _: None)
    expected = {path.name: path.read_bytes() for path in cleaned_files(log)}
    assert len(expected) > 3
    for path in cleaned_files(log):
        path.unlink()
    assert copy_process.copy_segments(plan, lambda _: None) == in_thread
    assert {path.name: path.read_bytes() for path in cleaned_files(log)} == expected


def test_pass_with_a_process_retains_the_last_record_of_each_key(log: Log) -> None:
    before = {record.key: record for record in contents(log)}
    compaction = new_pass(log)
    compaction.copy()
    assert compaction.install()
    assert {record.key: record for record in contents(log)} == before
    assert len(contents(log)) < 50


def test_short_copy_starts_no_process(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_process, "PROCESS_BYTES", log.size + 1)
    monkeypatch.setattr(copy_process, "_start", lambda: pytest.fail("a process was started"))
    new_pass(log).copy()
    assert cleaned_files(log)


def test_thread_copies_if_no_process_can_be_started(
    log: Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/does/not/exist")
    new_pass(log).copy()
    assert cleaned_files(log)
    assert "Cannot start a process for the compaction of" in caplog.text


@pytest.fixture
def large_log(make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch) -> Log:
    """A log whose copy asks several times whether to go on."""
    monkeypatch.setattr(copy_process, "PROCESS_BYTES", 0)
    log = make_log(cleanup_policy=("compact",), segment_bytes=1 << 20)
    for i in range(60):
        log.append(batch((b"k%d" % i, bytes(100_000))), leader_epoch=0)
    log.high_watermark = log.log_end_offset
    return log


def test_signals_to_all_processes_do_not_end_the_copy(large_log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    processes: list[subprocess.Popen[bytes]] = []
    start = copy_process._start

    def start_one() -> subprocess.Popen[bytes]:
        processes.append(start())
        return processes[0]

    def spend(_: int) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            processes[0].send_signal(number)

    monkeypatch.setattr(copy_process, "_start", start_one)
    throttle = Throttle()
    monkeypatch.setattr(throttle, "spend", spend)
    compaction = new_pass(large_log, throttle)
    compaction.copy()
    assert compaction.install()


def test_process_waits_for_the_throttle_and_ends_when_it_is_stopped(
    large_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent: list[int] = []

    def spend(nbytes: int) -> None:
        spent.append(nbytes)
        if len(spent) == 3:
            raise StoppedError

    throttle = Throttle()
    monkeypatch.setattr(throttle, "spend", spend)
    with pytest.raises(StoppedError):
        new_pass(large_log, throttle).copy()
    assert len(spent) == 3
    assert min(spent) >= copy_process.SPEND_BYTES
    assert not cleaned_files(large_log)


@pytest.mark.parametrize("producers", [0, 100_000])
@pytest.mark.parametrize("statement", ["", "import os; os.kill(os.getpid(), 9)"])
def test_process_that_ends_without_a_result_does_not_fail_the_disk(
    log: Log, monkeypatch: pytest.MonkeyPatch, statement: str, producers: int
) -> None:
    before = contents(log)
    started(monkeypatch, "-c", statement)
    compaction = new_pass(log)
    compaction._plan.last_batches.update(range(producers))  # more than fits into a pipe
    with pytest.raises(ResourcesExhaustedError, match="ended with exit code (0|-9)"):
        compaction.copy()
    assert contents(log) == before


def test_process_ends_with_its_broker(log: Log) -> None:
    process = copy_process._start()
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        pickle.dump(new_pass(log)._plan._replace(map_bytes=1 << 20), process.stdin)
        process.stdin.close()
        process.stdout.close()
        assert process.wait(30) == 1


def test_error_of_the_disk_in_the_process_fails_the_pass(log: Log) -> None:
    compaction = new_pass(log)
    log.segments[1].path(".log").unlink()
    with pytest.raises(DiskFailedError, match="could not compact"):
        compaction.copy()
    assert not cleaned_files(log)


def test_damaged_batch_in_the_process_fails_the_pass(log: Log) -> None:
    path = log.segments[1].path(".log")
    data = bytearray(path.read_bytes())
    data[70:90] = b"\xff" * 20
    path.write_bytes(data)
    with pytest.raises(CorruptMessageError):
        new_pass(log).copy()
    assert not cleaned_files(log)


@pytest.mark.parametrize("copy_segments", [copier.copy_segments, copy_process.copy_segments])
def test_deletion_of_the_log_ends_the_copy_without_an_error(log: Log, copy_segments: cleaner.CopySegments) -> None:
    now_ms = log.clock.now_ms()
    compaction = CleanerPass(cleanable.measure(log, 0, now_ms), now_ms, copy_segments=copy_segments)
    log.close_without_flush()
    log.dir.rename(log.dir.with_name("deleted"))
    compaction.copy()
    assert not compaction.install()
