"""Every system call on the data directory fails once, with each error: no flushed record is lost.

The scenario creates, fills, flushes, checkpoints, compacts, truncates and deletes logs. Each error is a
KafkaStorageError with the path and the fix. Unless the disk has failed, the next call succeeds.
"""

import errno
import os
import random
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.effort import repeats
from tests.unit.storage.conftest import NOW, batch, contents

from ottla.clock import ManualClock
from ottla.config.topic import LogConfig
from ottla.errors import KafkaStorageError, StartupError
from ottla.model import TopicPartition
from ottla.storage.compaction.cleaner import run_steps
from ottla.storage.files import DiskFailedError, DiskFullError, ResourcesExhaustedError
from ottla.storage.log_dir import LogDir

PLAIN, COMPACTED, DELETED = TopicPartition("plain", 0), TopicPartition("compacted", 0), TopicPartition("deleted", 0)
CONFIGS = {
    PLAIN: LogConfig(segment_bytes=600, index_interval_bytes=100, segment_index_bytes=4096, file_delete_delay_ms=0),
    DELETED: LogConfig(file_delete_delay_ms=0),
    COMPACTED: LogConfig(
        segment_bytes=600,
        segment_index_bytes=4096,
        cleanup_policy=("compact",),
        min_cleanable_dirty_ratio=0.01,
        file_delete_delay_ms=0,
    ),
}
CALLS = ("open", "pwrite", "fsync", "ftruncate", "replace", "rename", "unlink", "mkdir", "pread", "scandir", "rmdir")
REMEDIES = ("make room", "check the disk", "raise the limit", "restart the broker")
IN_MEMORY = Path("/dev/shm")


def in_this_thread(patched: Any, real: Any) -> Any:
    """Return a function that is `patched` in this thread only, since brokers of other tests run in other threads."""
    thread = threading.get_ident()

    def call(*args: Any, **kwargs: Any) -> Any:
        return (patched if threading.get_ident() == thread else real)(*args, **kwargs)

    return call


class Faults:
    """Counts system calls of this thread, and lets the n-th one fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fail_at: Any, code: Any, only: Any = CALLS) -> None:
        self.count = 0
        self.fail_at = fail_at
        self.code = code
        self.failed = ""
        self.on = False
        for name in CALLS:
            monkeypatch.setattr(os, name, self._counted(name, getattr(os, name), name in only))

    def _counted(self, name: Any, real: Any, counts: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.on and counts:
                self.count += 1
                if self.count == self.fail_at:
                    self.failed = name
                    raise OSError(self.code, os.strerror(self.code))
            return real(*args, **kwargs)

        return in_this_thread(call, real)


class Scenario:
    """The operations of a broker on a data directory. Records what was acknowledged and what was flushed."""

    def __init__(self, path: Any) -> None:
        self.clock = ManualClock(NOW)
        self.log_dir = LogDir.open(path, broker_id=0, clock=self.clock)
        self.log_dir.load(CONFIGS.__getitem__)
        self.acknowledged: dict[TopicPartition, list[Any]] = {PLAIN: [], COMPACTED: []}
        self.flushed = {PLAIN: 0, COMPACTED: 0}
        self.errors: list[Exception] = []

    def run(self) -> None:
        for round_ in range(3):
            for tp in (PLAIN, COMPACTED):
                for i in range(6):
                    self.attempt(partial(self.append, tp, b"k%d" % (i % 3), b"%d.%d" % (round_, i)))
                self.attempt(partial(self.flush, tp))
            self.attempt(self.log_dir.checkpoint)
            self.attempt(self.compact)
            self.attempt(self.make_and_delete)
            self.attempt(self.delete_files)
            for opened in list(self.log_dir.logs.values()):
                self.attempt(opened.close_idle)

    def delete_files(self) -> None:
        delete = self.log_dir.begin_deletion(self.clock.now_ms())
        if delete is not None:
            delete()

    def attempt(self, what: Any) -> None:
        if self.log_dir.offline:
            return
        try:
            what()
        except KafkaStorageError as error:
            self.errors.append(error)
            if isinstance(error, DiskFailedError):
                self.log_dir.take_offline(str(error))

    def append(self, tp: Any, key: Any, value: Any) -> None:
        opened = self.log_dir.logs.get(tp) or self.log_dir.create(tp, CONFIGS[tp])
        appended = opened.append(batch((key, value * 20)), leader_epoch=0)
        self.acknowledged[tp].append((appended.base_offset, key, value * 20))
        opened.high_watermark = opened.log_end_offset

    def flush(self, tp: Any) -> None:
        opened = self.log_dir.logs.get(tp)
        if opened is not None:
            opened.flush()
            self.flushed[tp] = opened.log_end_offset

    def compact(self) -> None:
        cleaning = self.log_dir.next_cleaning(self.clock.now_ms(), map_bytes=10_000)
        if cleaning is None:
            return
        try:
            cleaning.copy()
            run_steps(self.log_dir.finish_cleaning(cleaning))
        except KafkaStorageError:
            self.log_dir.abort_cleaning(cleaning)
            raise

    def make_and_delete(self) -> None:
        self.log_dir.create(DELETED, CONFIGS[DELETED], "topic-id-of-22-letters")
        self.log_dir.delete(DELETED)

    def check_live(self) -> None:
        """Check that all acknowledged records can be read while the directory is online."""
        for tp, acknowledged in self.acknowledged.items():
            opened = self.log_dir.logs.get(tp)
            assert self.has_records(opened, tp, acknowledged), f"{tp}: records are missing while the log is online"

    def check_reopened(self, path: Any) -> None:
        log_dir = LogDir.open(path, broker_id=0, clock=self.clock)
        log_dir.load(CONFIGS.__getitem__)
        assert not log_dir.failed, log_dir.failed
        for tp, acknowledged in self.acknowledged.items():
            flushed = [row for row in acknowledged if row[0] < self.flushed[tp]]
            opened = log_dir.logs.get(tp)
            assert self.has_records(opened, tp, flushed), f"{tp}: flushed records are missing"
            if opened is not None:
                offsets = [record.offset for record in contents(opened)]
                assert offsets == sorted(set(offsets))
        log_dir.close()

    @staticmethod
    def has_records(opened: Any, tp: Any, rows: Any) -> Any:
        if opened is None:
            return not rows
        records = {(r.offset, r.key, r.value) for r in contents(opened)}
        if tp == COMPACTED:
            latest = {}
            for row in rows:
                latest[row[1]] = row
            later = {r.key: r.offset for r in contents(opened)}
            return all(row in records or later.get(key, -1) > row[0] for key, row in latest.items())
        return records >= set(rows)


@pytest.fixture
def directory() -> Iterator[Any]:
    path = Path(tempfile.mkdtemp(dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
    yield path
    shutil.rmtree(path)


def number_of_calls(directory: Any, only: Any = CALLS) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        scenario = Scenario(directory / "count")
        faults = Faults(patch, 0, 0, only)
        faults.on = True
        scenario.run()
        assert not scenario.errors
        scenario.check_live()
        scenario.log_dir.close()
        return faults.count


@pytest.mark.parametrize(
    ("code", "only", "kind"),
    [
        (errno.EIO, CALLS, DiskFailedError),
        (errno.ENOSPC, CALLS, (DiskFullError, DiskFailedError)),
        (errno.EMFILE, ("open", "scandir"), ResourcesExhaustedError),
    ],
    ids=["EIO", "ENOSPC", "EMFILE"],
)
def test_failing_system_call_loses_no_flushed_record(directory: Any, code: Any, only: Any, kind: Any) -> None:
    total = number_of_calls(directory, only)
    assert total > 50
    for fail_at in range(1, total + 1):
        path = directory / f"{fail_at}"
        with pytest.MonkeyPatch.context() as patch:
            scenario = Scenario(path)
            faults = Faults(patch, fail_at, code, only)
            faults.on = True
            place = f"call {fail_at}"
            try:
                scenario.run()
                faults.on = False
                place += f" ({faults.failed})"
                for error in scenario.errors:
                    assert isinstance(error, kind), f"{place}: {error!r}"
                    assert str(path) in error.message, f"{place}: {error.message}"
                    assert any(remedy in error.message for remedy in REMEDIES), f"{place}: {error.message}"
                assert len(scenario.errors) <= 1, f"{place}: {scenario.errors}"
                assert not scenario.log_dir.uncleanable, place
                if not scenario.log_dir.offline:
                    scenario.check_live()
                scenario.log_dir.close()
                scenario.check_reopened(path)
            except Exception as error:
                error.add_note(place)
                raise
        shutil.rmtree(path)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EMFILE], ids=errno.errorcode.get)
def test_failing_system_call_during_recovery_loses_no_record(directory: Any, code: Any) -> None:
    template = directory / "template"
    scenario = Scenario(template)
    scenario.run()
    scenario.log_dir.take_offline("as after a crash")
    scenario.log_dir.close()
    scenario.flushed = dict.fromkeys(scenario.flushed, 1 << 60)  # the machine did not crash: nothing may be missing

    def load(path: Any, fail_at: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            faults = Faults(patch, fail_at, code)
            faults.on = True
            log_dir = None
            try:
                log_dir = LogDir.open(path, broker_id=0, clock=scenario.clock)
                log_dir.load(CONFIGS.__getitem__)
                messages = [error.message for error in log_dir.failed.values()]
            except (KafkaStorageError, StartupError) as error:
                messages = [error.message]
            faults.on = False
            if log_dir is not None:
                log_dir.close()
            assert all(str(path) in message for message in messages), messages
            return faults.count

    shutil.copytree(template, directory / "count")
    for fail_at in range(1, load(directory / "count", 0) + 1):
        path = directory / f"{fail_at}"
        shutil.copytree(template, path)
        try:
            load(path, fail_at)
            scenario.check_reopened(path)
        except Exception as error:
            error.add_note(f"call {fail_at}")
            raise
        shutil.rmtree(path)


class PowerFailure(Exception):  # noqa: N818  # not an error, but the simulated power failure
    pass


class UnsyncedWrites:
    """Records the content of every file at its last fsync, and creates a directory as after a power failure."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, end_at: Any) -> None:
        self.synced: dict[int, bytes] = {}
        self.count = 0
        self.end_at = end_at
        self.fsync = os.fsync
        monkeypatch.setattr(os, "fsync", in_this_thread(self._sync, self.fsync))
        for name in ("pwrite", "ftruncate", "replace", "rename", "unlink"):
            monkeypatch.setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._tick()
            return real(*args, **kwargs)

        return in_this_thread(call, real)

    def _tick(self) -> None:
        self.count += 1
        if self.count == self.end_at:
            raise PowerFailure

    def _sync(self, fd: Any) -> None:
        self._tick()
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode):
            path = Path(f"/proc/self/fd/{fd}")
            self.synced[status.st_ino] = path.read_bytes()

    def image(self, source: Any, target: Any, rng: Any) -> None:
        """Copy all names (a journal keeps their order); content that was not synced is lost, torn or complete."""
        shutil.copytree(source, target, ignore=lambda *_: {".lock"})
        for path in source.rglob("*"):
            if not path.is_file() or path.name == ".lock":
                continue
            now, before = path.read_bytes(), self.synced.get(path.stat().st_ino, b"")
            if now == before:
                continue
            match rng.randrange(4):
                case 0:
                    left = now
                case 1:
                    left = before
                case 2:  # some of what was appended
                    left = now[: max(len(before), rng.randrange(len(now) + 1))]
                case _:  # blocks that were allocated and not written
                    remaining = max(len(before), rng.randrange(len(now) + 1))
                    left = now[:remaining] + bytes(max(0, len(now) - remaining))
            (target / path.relative_to(source)).write_bytes(left)


@pytest.mark.parametrize("seed", range(repeats(20, 200)))
def test_power_failure_at_any_point_loses_no_flushed_record(directory: Any, seed: Any) -> None:
    rng = random.Random(seed)
    path = directory / "log"
    with pytest.MonkeyPatch.context() as patch:
        scenario = Scenario(path)
        writes = UnsyncedWrites(patch, rng.randrange(1, 320))
        try:
            scenario.run()
        except PowerFailure:
            pass
    writes.image(path, directory / "image", rng)
    scenario.check_reopened(directory / "image")
