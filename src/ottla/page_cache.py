"""Reading of files in the event loop without waiting for a disk.

On Linux, a read with RWF_NOWAIT (`preadv2`) does not wait for the disk. Within `cached_only`, `pread` raises
NotCachedError instead of waiting. `when_cached` then lets a worker thread read the missing bytes and tries again. On
other platforms, and on file systems without RWF_NOWAIT, `pread` waits. Each device has its own workers, so that a disk
that hangs does not delay reads from another one.
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
"""The flag for reads that do not wait; 0 on platforms that do not have it."""
PROBE_BYTES: Final = 256 * 1024
"""The maximum distance in bytes between the bytes that `cached_bytes` probes."""
PAGE_BYTES: Final = 4096
BUFFER_BYTES: Final = 64 * 1024
"""The maximum size in bytes of the buffer that each thread keeps for its reads."""
READ_BYTES: Final = 1024 * 1024
"""The maximum number of bytes that a worker reads at a time."""
READAHEAD_BYTES: Final = 4 * 1024 * 1024
"""The number of bytes that the kernel is advised to read ahead, after those that the function `load` reads."""
WORKERS_PER_DEVICE: Final = 4
MAX_TRIES: Final = 10_000
"""The maximum number of times that `when_cached` waits for missing bytes before it reads without `cached_only`. A
search by time in many segments needs the most.
"""


class _Mode(local):
    """The state of each thread: whether its reads must not wait for the disk, and its buffer."""

    cached_only = False
    buffer = bytearray()
    """A buffer that is reused by the next read of the same size."""


_mode = _Mode()
_workers: dict[int, ThreadPoolExecutor] = {}
_probes = [bytearray(1)]


class NotCachedError(Exception):
    """Raised within `cached_only` if a read would wait for the disk."""

    def __init__(self, fd: int, position: int, nbytes: int) -> None:
        super().__init__(f"{nbytes} bytes at {position} are not in the page cache")
        self._fd = os.dup(fd)  # duplicated, because the file may be closed before the worker has read it
        self._position, self._nbytes = position, nbytes

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def load(self) -> asyncio.Future[None]:
        """Let a worker read the missing bytes, and return a future of its completion. Disk errors are ignored, because
        the next read reports them. May be called only once.
        """
        fd, self._fd = self._fd, -1
        return _submit(fd, self._position, self._nbytes, 0)


class cached_only:  # noqa: N801 - a context manager
    """A context manager in which `pread` in this thread raises NotCachedError instead of waiting for the disk, if the
    platform and the file system support that. With `enabled=False`, `pread` waits.
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled

    def __enter__(self) -> None:
        self._before = _mode.cached_only
        _mode.cached_only = self._enabled

    def __exit__(self, *exc: object) -> None:
        _mode.cached_only = self._before


async def when_cached(read: Callable[[], T]) -> T:
    """Return the result of `read()`. Whenever it raises NotCachedError, a worker reads the missing bytes, and `read` is
    called again. After MAX_TRIES, `read` is called without `cached_only`.
    """
    for _ in range(MAX_TRIES):
        try:
            with cached_only():
                return read()
        except NotCachedError as missing:
            await missing.load()
    return read()


def pread(fd: int, nbytes: int, position: int) -> bytes:
    """Return the same as `os.pread`. Within `cached_only`, raise NotCachedError instead of waiting for the disk, if the
    platform and the file system support that.
    """
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
    """Return the number of bytes that can be read from this position without waiting, at most `nbytes`. It is an
    estimate, because only a few bytes are probed. If the platform or file system lacks RWF_NOWAIT, or reading fails,
    it is `nbytes`.
    """
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
        return max(at - PROBE_BYTES - position, 0)  # up to the last probed byte in the page cache
    except OSError:  # the file system does not support RWF_NOWAIT
        return nbytes
    return nbytes


def read_cached(fd: int, buffer: memoryview, position: int) -> int:
    """Read into the buffer without waiting for the disk. Return how many bytes were read; 0 at the end of the
    file, if none are in the page cache, or if the platform or file system lacks RWF_NOWAIT.

    A disk error counts as bytes that are not cached, because the next read reports it.
    """
    if not RWF_NOWAIT:
        return 0
    try:
        return os.preadv(fd, [buffer], position, RWF_NOWAIT)
    except OSError:
        return 0


def load(fd: int, position: int, nbytes: int) -> asyncio.Future[None]:
    """Let a worker read these bytes into the page cache, and return a future of its completion. On Linux, the kernel is
    also advised to read ahead. Disk errors are ignored, because the next read reports them.

    The file may be closed before the read is complete.
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
    except OSError:  # the read in the event loop raises the same error
        return
    finally:
        os.close(fd)
