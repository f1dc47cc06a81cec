"""A bounded cache of chunks: objects in remote storage, or ranges of them. Concurrent requests for a chunk share one
download.

The least recently used chunks are dropped first. Not thread-safe: event loop only; downloads run in threads.
"""

from __future__ import annotations

import asyncio
import functools
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, NamedTuple

from ottla import errors
from ottla.clock import Clock
from ottla.futures import shielded
from ottla.remote_log.remote_storage import RemoteStorage
from ottla.replication.replication_quota import ReplicationQuota

MAX_PAUSE_SECONDS: Final = 1.0
"""Maximum time in seconds until a quota is checked again, because its rate may have been raised."""
WHOLE: Final = -1
"""The number of the chunk that is the whole object."""


class TooManyRemoteReadsError(errors.ThrottlingQuotaExceededError):
    """As many reads from remote storage are in progress or waiting as remote.log.reader.threads and
    remote.log.reader.max.pending.tasks allow together.
    """


async def wait_for_quota(quota: ReplicationQuota, clock: Clock) -> None:
    """Wait until a quota, whose rate may change meanwhile, allows more traffic."""
    while quota.is_exceeded(now := clock.monotonic()):  # noqa: ASYNC110 - the quota has no event
        await asyncio.sleep(min(quota.available_at - now, MAX_PAUSE_SECONDS))


class Chunk(NamedTuple):
    """A chunk of an object: the name of the object, and the number of the chunk or WHOLE."""

    name: str
    number: int


class ChunkCache:
    """Chunks in memory, up to a total size in bytes. The least recently used ones are dropped first."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        self._chunks: OrderedDict[Chunk, bytes] = OrderedDict()

    def get(self, chunk: Chunk) -> bytes | None:
        data = self._chunks.get(chunk)
        if data is not None:
            self._chunks.move_to_end(chunk)
        return data

    def put(self, chunk: Chunk, data: bytes) -> None:
        """Add a chunk, unless it is larger than the whole cache. Drop the least recently used ones if
        the cache is too large then.
        """
        self.drop(chunk)
        if len(data) > self.max_bytes:
            return
        self._chunks[chunk] = data
        self.nbytes += len(data)
        while self.nbytes > self.max_bytes:
            _, dropped = self._chunks.popitem(last=False)
            self.nbytes -= len(dropped)

    def drop(self, chunk: Chunk) -> None:
        data = self._chunks.pop(chunk, None)
        if data is not None:
            self.nbytes -= len(data)


class ChunkReader:
    """Reads objects in remote storage, whole or in chunks, through caches.

    At most `max_pending` downloads are in progress or waiting at the same time.
    """

    def __init__(
        self,
        storage: RemoteStorage,
        executor: Executor,
        clock: Clock,
        *,
        chunk_bytes: int,
        data_cache: ChunkCache,
        index_cache: ChunkCache,
        max_pending: int,
        quota: ReplicationQuota,
    ) -> None:
        """`quota`: the limit of downloads in bytes per second, which may change at any time."""
        self.chunk_bytes = chunk_bytes
        self._storage = storage
        self._executor = executor
        self._clock = clock
        self._data_cache = data_cache
        self._index_cache = index_cache
        self._max_pending = max_pending
        self._quota = quota
        self._downloads: dict[Chunk, asyncio.Task[bytes]] = {}
        self.downloaded_bytes = 0

    @property
    def pending(self) -> int:
        """The number of downloads in progress and waiting."""
        return len(self._downloads)

    async def read_whole(self, name: str) -> bytes:
        """Return a whole object, such as an index. Raises RemoteStorageError or TooManyRemoteReadsError."""
        return await self._read(Chunk(name, WHOLE), self._index_cache, functools.partial(self._storage.get, name))

    async def read_chunk(self, name: str, number: int) -> bytes:
        """Return a chunk of an object. Raises the errors of `read_whole`."""
        chunk = Chunk(name, number)
        return await self._read(chunk, self._data_cache, self._range(chunk))

    def read_ahead(self, name: str, number: int) -> None:
        """Start to read a chunk that will probably be needed, unless it is cached or many reads are in progress."""
        chunk = Chunk(name, number)
        if len(self._downloads) < self._max_pending // 4 and self._data_cache.get(chunk) is None:
            self._start(chunk, self._data_cache, self._range(chunk))

    def _range(self, chunk: Chunk) -> Callable[[], bytes]:
        size = self.chunk_bytes
        return functools.partial(self._storage.get_range, chunk.name, chunk.number * size, size)

    def _start(self, chunk: Chunk, cache: ChunkCache, read: Callable[[], bytes]) -> asyncio.Task[bytes]:
        """Return the download of a chunk; start it unless it is in progress."""
        download = self._downloads.get(chunk)
        if download is None:
            download = asyncio.get_running_loop().create_task(self._download(chunk, cache, read))
            self._downloads[chunk] = download
            download.add_done_callback(lambda done: done.cancelled() or done.exception())
        return download

    async def _read(self, chunk: Chunk, cache: ChunkCache, read: Callable[[], bytes]) -> bytes:
        data = cache.get(chunk)
        if data is not None:
            return data
        if chunk not in self._downloads and len(self._downloads) >= self._max_pending:
            raise TooManyRemoteReadsError(f"{len(self._downloads)} reads from remote storage are in progress")
        download = self._start(chunk, cache, read)
        # a reader that gives up does not end the download: it repeats its fetch, and finds the chunk in the cache
        return await shielded(download)

    async def _download(self, chunk: Chunk, cache: ChunkCache, read: Callable[[], bytes]) -> bytes:
        try:
            await wait_for_quota(self._quota, self._clock)
            data = await asyncio.get_running_loop().run_in_executor(self._executor, read)
            self._quota.record(len(data), self._clock.monotonic())
            self.downloaded_bytes += len(data)
            cache.put(chunk, data)
            return data
        finally:
            del self._downloads[chunk]

    async def close(self) -> None:
        """Cancel the downloads. Threads may still be reading when this returns."""
        downloads = list(self._downloads.values())
        for download in downloads:
            download.cancel()
        await asyncio.gather(*downloads, return_exceptions=True)
