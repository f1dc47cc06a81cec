"""Reads that do not wait for the disk on the event loop."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.unit.slow_disk import SlowDisk

from ottla import page_cache
from ottla.page_cache import PROBE_BYTES, NotCachedError, cached_bytes, cached_only, when_cached
from ottla.storage.files import LogFile

CONTENT = os.urandom(3 * PROBE_BYTES + 17)


@pytest.fixture
def file(tmp_path: Path) -> LogFile:
    file = LogFile(tmp_path / "00.log", create=True)
    file.write(0, CONTENT)
    return file


def test_read_of_cached_bytes_returns_them(file: LogFile) -> None:
    with cached_only():
        assert file.read(5, 100) == CONTENT[5:105]
        assert file.read(len(CONTENT) - 3, 100) == CONTENT[-3:]


def test_read_of_missing_bytes_raises_only_within_cached_only(file: LogFile, slow_disk: SlowDisk) -> None:
    slow_disk.evict(file.path.parent)
    with cached_only(), pytest.raises(NotCachedError):
        file.read(0, 10)
    with cached_only(), cached_only(enabled=False):
        assert file.read(0, 10) == CONTENT[:10]
    assert slow_disk.waits_on_the_loop.pop() == "pread of 10 at 0"


def test_when_cached_repeats_the_read_after_each_missing_part(file: LogFile, slow_disk: SlowDisk) -> None:
    slow_disk.evict(file.path.parent)
    calls = []

    def read() -> bytes:
        calls.append(1)
        return file.read(0, 4) + file.read(2 * PROBE_BYTES, 4)

    assert asyncio.run(when_cached(read)) == CONTENT[:4] + CONTENT[2 * PROBE_BYTES :][:4]
    assert (len(calls), slow_disk.loads) == (3, 2)


def test_when_cached_propagates_errors_of_the_read(file: LogFile) -> None:
    async def read() -> None:
        await when_cached(lambda: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(read())


def test_cached_bytes_ends_before_the_first_missing_probe(file: LogFile, slow_disk: SlowDisk) -> None:
    assert cached_bytes(file.fd, 0, len(CONTENT)) == len(CONTENT)
    slow_disk.evict(file.path.parent)
    assert cached_bytes(file.fd, 0, len(CONTENT)) == 0

    async def load(position: int, nbytes: int) -> None:
        await page_cache.load(file.fd, position, nbytes)

    asyncio.run(load(0, 2 * PROBE_BYTES))
    assert cached_bytes(file.fd, 0, len(CONTENT)) == PROBE_BYTES
    asyncio.run(load(2 * PROBE_BYTES, PROBE_BYTES))
    assert cached_bytes(file.fd, 0, len(CONTENT)) == 2 * PROBE_BYTES
    asyncio.run(load(0, len(CONTENT)))
    assert cached_bytes(file.fd, 0, len(CONTENT)) == len(CONTENT)


def test_load_reads_a_file_that_is_closed_concurrently(file: LogFile, slow_disk: SlowDisk) -> None:
    slow_disk.evict(file.path.parent)

    async def load() -> None:
        with slow_disk.stopped():
            loading = page_cache.load(file.fd, 0, 100)
            os.close(file.fd)
            file.fd = -1
        await loading

    asyncio.run(load())
    assert slow_disk.loads == 1


def test_file_descriptors_are_closed_after_not_cached_errors(file: LogFile, slow_disk: SlowDisk) -> None:
    slow_disk.evict(file.path.parent)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        with cached_only(), pytest.raises(NotCachedError):
            file.read(0, 10)
    assert len(os.listdir("/proc/self/fd")) == before
