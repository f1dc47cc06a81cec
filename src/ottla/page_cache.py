"""Reading files on the event loop without waiting for a disk.

Linux reports what a read would have to wait for (`preadv2` with RWF_NOWAIT): reads within `cached_only` raise
NotCachedError instead of waiting, and `when_cached` repeats them after a worker has read the missing bytes. Elsewhere,
and on file systems without RWF_NOWAIT, every read counts as cached. Workers belong to a device, so that a disk that
hangs does not delay reads of another one.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import local
from typing import Final, TypeVar

T = TypeVar("T")

RWF_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)
"""The flag for reads that do not wait; on Linux only, 0 elsewhere."""
PROBE_BYTES: Final = 256 * 1024
"""Distance between the bytes whose presence is checked; a disk reads half as much ahead by default."""
PAGE_BYTES: Final = 4096
BUFFER_BYTES: Final = 64 * 1024
"""Maximum size of the buffer that a thread keeps for its reads."""
READ_BYTES: Final = 1024 * 1024
"""Bytes per read of a worker."""
READAHEAD_BYTES: Final = 4 * 1024 * 1024
"""Bytes after those that a worker has read which the kernel shall read ahead."""
WORKERS_PER_DEVICE: Final = 4
MAX_TRIES: Final = 10_000
"""Reads of missing bytes for one lookup, before it may wait; the search by time in many segments needs the most."""


class _Mode(local):
    """The state of a thread."""

    cached_only = False
    buffer = bytearray()
    """The buffer of reads, whose content is overwritten by the next one: most reads are of the same small size."""


_mode = _Mode()
_workers: dict[int, ThreadPoolExecutor] = {}
_probes = [bytearray(1)]


class NotCachedError(Exception):
    """A read within `cached_only` would wait for the disk."""

    def __init__(self, fd: int, position: int, nbytes: int) -> None:
        super().__init__(f"{nbytes} bytes at {position} are not in the page cache")
        self._fd = os.dup(fd)  # the file may be closed before the worker has read it
        self._position, self._nbytes = position, nbytes

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def load(self) -> asyncio.Future[None]:
        """Read the missing bytes in a worker. Errors of the disk are left to the next read."""
        fd, self._fd = self._fd, -1
        return _submit(fd, self._position, self._nbytes, 0)


class cached_only:  # noqa: N801 - a context manager
    """Within this context, reads of this thread raise NotCachedError instead of waiting for the disk."""

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled

    def __enter__(self) -> None:
        self._before = _mode.cached_only
        _mode.cached_only = self._enabled

    def __exit__(self, *exc: object) -> None:
        _mode.cached_only = self._before


async def when_cached(read: Callable[[], T]) -> T:
    """Return the result of `read`, which is called again after each part that had to be read from the disk."""
    for _ in range(MAX_TRIES):
        try:
            with cached_only():
                return read()
        except NotCachedError as missing:
            await missing.load()
    return read()


def pread(fd: int, nbytes: int, position: int) -> bytes:
    """Return what `os.pread` returns. Raises NotCachedError within `cached_only`."""
    if not RWF_NOWAIT or not _mode.cached_only:
        return os.pread(fd, nbytes, position)
    data = _mode.buffer
    if len(data) != nbytes:
        data = bytearray(nbytes)
        if nbytes <= BUFFER_BYTES:
            _mode.buffer = data
    try:
        read = os.preadv(fd, [data], position, RWF_NOWAIT)
    except BlockingIOError:
        raise NotCachedError(fd, position, nbytes) from None
    except OSError:  # the file system does not support RWF_NOWAIT
        return os.pread(fd, nbytes, position)
    if read == nbytes:
        return bytes(data)
    if position + read < os.fstat(fd).st_size:
        raise NotCachedError(fd, position + read, nbytes - read)
    return bytes(data[:read])


def cached_bytes(fd: int, position: int, nbytes: int) -> int:
    """Return how many of the next `nbytes` can be read without waiting, as far as a few probes show."""
    if not RWF_NOWAIT:
        return nbytes
    at = position
    end = position + nbytes
    try:
        while at < end:
            os.preadv(fd, _probes, at, RWF_NOWAIT)
            at += PROBE_BYTES
        if nbytes > PAGE_BYTES:
            os.preadv(fd, _probes, end - 1, RWF_NOWAIT)
    except BlockingIOError:
        return max(at - PROBE_BYTES - position, 0)  # between two bytes that are present
    except OSError:  # the file system does not support RWF_NOWAIT
        return nbytes
    return nbytes


def load(fd: int, position: int, nbytes: int) -> asyncio.Future[None]:
    """Read bytes of a file into the page cache, in a worker, and begin with what follows.

    The file may be closed meanwhile.
    """
    return _submit(os.dup(fd), position, nbytes, READAHEAD_BYTES)


def _submit(fd: int, position: int, nbytes: int, readahead: int) -> asyncio.Future[None]:
    try:
        device = os.fstat(fd).st_dev
    except OSError:
        device = -1
    workers = _workers.get(device)
    if workers is None:
        workers = _workers[device] = ThreadPoolExecutor(WORKERS_PER_DEVICE, f"ottla-read-{device}")
    return asyncio.get_running_loop().run_in_executor(workers, _read, fd, position, nbytes, readahead)


def _read(fd: int, position: int, nbytes: int, readahead: int) -> None:
    try:
        end = position + nbytes
        if readahead and sys.platform == "linux":
            os.posix_fadvise(fd, end, readahead, os.POSIX_FADV_WILLNEED)
        while position < end:
            data = os.pread(fd, min(READ_BYTES, end - position), position)
            if not data:
                return
            position += len(data)
    except OSError:  # the read on the event loop gets the same error, and handles it
        return
    finally:
        os.close(fd)
