"""A fake disk whose files can be evicted from the page cache until a worker reads them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHUNK_BYTES = 4096
SECONDS = 20


class SlowDisk:
    """Replaces the module `os` for reads of files. Waiting for the disk on the event loop fails the test."""

    def __init__(self) -> None:
        self.spins = threading.Event()
        """While it is cleared, workers wait for the disk."""
        self.spins.set()
        self.loads = self.waiting = 0
        self.waits_on_the_loop: list[str] = []
        self._cold: set[tuple[int, int]] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def preadv(self, fd: int, buffers: Sequence[bytearray], position: int, flags: int = 0) -> int:
        if not self._is_cached(fd, position, sum(map(len, buffers))):
            raise BlockingIOError
        return os.preadv(fd, buffers, position)

    def pread(self, fd: int, nbytes: int, position: int) -> bytes:
        if self._is_cached(fd, position, nbytes):
            pass
        elif threading.current_thread() is threading.main_thread():
            self.waits_on_the_loop.append(f"pread of {nbytes} at {position}")
        else:
            self.waiting += 1
            assert self.spins.wait(SECONDS)
            self.waiting -= 1
            self.loads += 1
            self._cold -= self._chunks(fd, position, nbytes)
        return os.pread(fd, nbytes, position)

    def sendfile(self, out: int, fd: int, position: int, nbytes: int) -> int:
        if not self._is_cached(fd, position, nbytes):
            self.waits_on_the_loop.append(f"sendfile of {nbytes} at {position}")
        return os.sendfile(out, fd, position, nbytes)

    def _is_cached(self, fd: int, position: int, nbytes: int) -> bool:
        return self._cold.isdisjoint(self._chunks(fd, position, nbytes))

    def _chunks(self, fd: int, position: int, nbytes: int) -> set[tuple[int, int]]:
        stat = os.fstat(fd)
        end = min(position + nbytes, stat.st_size)
        return {(stat.st_ino, at // CHUNK_BYTES) for at in range(position - position % CHUNK_BYTES, end, CHUNK_BYTES)}

    def evict(self, directory: Path) -> None:
        """Remove all files below a directory from the page cache."""
        for path in directory.rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    self._cold |= self._chunks(file.fileno(), 0, path.stat().st_size)

    def warm_up(self) -> None:
        """Put all files into the page cache again."""
        self._cold.clear()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Suspend the disk in this context."""
        self.spins.clear()
        try:
            yield
        finally:
            self.spins.set()

    async def until_waited_for(self) -> None:
        """Wait until a worker waits for the disk."""
        async with asyncio.timeout(SECONDS):
            while not self.waiting:
                await asyncio.sleep(0.001)
