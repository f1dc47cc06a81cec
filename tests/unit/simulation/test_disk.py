"""The simulated disk: data that a power loss may and may not remove, faults, and times of files."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from ottla.simulation import runner
from ottla.simulation.disk import Disk, Disks, OsModule
from ottla.simulation.event_loop import SimulatedLoop
from ottla.simulation.pipes import Pipes

CREATE = os.O_RDWR | os.O_CREAT
NOW_NS = 1_800_000_000_000_000_000


def mounted(root: Path, seed: int = 0) -> tuple[OsModule, Disk]:
    disk = Disk(root, random.Random(seed))
    disks = Disks()
    disks.mount(disk)
    pipes = Pipes(SimulatedLoop(), random.Random(seed))
    return OsModule(disks, lambda fd: None, pipes, os.urandom, lambda: NOW_NS), disk


def sync_directory(system: OsModule, path: Path) -> None:
    fd = system.open(path, os.O_RDONLY)
    system.fsync(fd)
    system.close(fd)


def after_power_loss(root: Path, seed: int) -> bytes | None:
    """Return the content of a file of which the first half was synced, or None if the file is gone."""
    system, disk = mounted(root, seed)
    fd = system.open(root / "log", CREATE)
    system.pwrite(fd, b"a" * 1000, 0)
    system.fsync(fd)
    sync_directory(system, root)
    for number in range(3):
        system.pwrite(fd, b"b" * 1024, 1000 + 1024 * number)
    system.close(fd)
    disk.lose_power()
    return (root / "log").read_bytes() if (root / "log").exists() else None


def test_power_loss_keeps_synced_bytes_and_a_prefix_of_others(tmp_path: Path) -> None:
    contents = []
    for seed in range(40):
        root = tmp_path / str(seed)
        root.mkdir()
        contents.append(after_power_loss(root, seed))
    assert all(content is not None and content.startswith(b"a" * 1000) for content in contents)
    sizes = {len(content or b"") - 1000 for content in contents}
    assert sizes >= {0, 1024, 2048, 3072}
    assert 512 in sizes, "no write was torn"


def test_power_loss_after_replace_leaves_the_old_or_the_new_content(tmp_path: Path) -> None:
    results = set()
    for seed in range(40):
        root = tmp_path / str(seed)
        root.mkdir()
        system, disk = mounted(root, seed)
        (root / "checkpoint").write_bytes(b"old")
        fd = system.open(root / "checkpoint.tmp", CREATE)
        system.pwrite(fd, b"new", 0)
        system.fsync(fd)
        system.close(fd)
        system.replace(root / "checkpoint.tmp", root / "checkpoint")
        disk.lose_power()
        results.add((root / "checkpoint").read_bytes())
    assert results == {b"old", b"new"}


def test_power_loss_keeps_names_of_a_synced_directory(tmp_path: Path) -> None:
    system, disk = mounted(tmp_path)
    (tmp_path / "old").write_bytes(b"x")
    system.close(system.open(tmp_path / "new", CREATE))
    system.unlink(tmp_path / "old")
    sync_directory(system, tmp_path)
    disk.lose_power()
    assert (tmp_path / "new").exists()
    assert not (tmp_path / "old").exists()


def test_disk_fault_fails_the_operation_and_changes_nothing(tmp_path: Path) -> None:
    system, disk = mounted(tmp_path)
    fd = system.open(tmp_path / "log", CREATE)

    def full(operation: str, path: str) -> None:
        if operation == "write":
            raise OSError(errno.ENOSPC, "full", path)

    disk.fault = full
    with pytest.raises(OSError, match="full"):
        system.pwrite(fd, b"data", 0)
    assert os.fstat(fd).st_size == 0
    system.close(fd)


def test_files_have_the_modification_time_of_the_simulation(tmp_path: Path) -> None:
    system, _ = mounted(tmp_path)
    fd = system.open(tmp_path / "log", CREATE)
    assert os.fstat(fd).st_mtime_ns == NOW_NS
    for change in (lambda: system.pwrite(fd, b"data", 0), lambda: system.ftruncate(fd, 1)):
        os.utime(fd, ns=(1, 1))
        change()
        assert os.fstat(fd).st_mtime_ns == NOW_NS
    system.close(fd)


def test_run_directory_has_the_same_length_in_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some messages name a file, and a trace contains their length."""
    lengths = set()
    for pid in (7, 99_999, 4_194_304):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        with runner.directory_of_run() as directory:
            lengths.add(len(str(directory)))
    assert len(lengths) == 1
