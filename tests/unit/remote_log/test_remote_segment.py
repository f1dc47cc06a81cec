"""Reads of remote segments by chunks: the same batches and offsets as from the local file."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.storage.conftest import NOW, batch

from ottla.clock import SYSTEM_CLOCK
from ottla.config.topic import LogConfig
from ottla.model import TopicPartition
from ottla.records.batch import split
from ottla.remote_log.chunk_cache import ChunkCache, ChunkReader, TooManyRemoteReadsError
from ottla.remote_log.remote_segment import RemoteSegment
from ottla.remote_log.remote_storage import RemoteFile, RemoteObjectMissingError, RemoteStorageError, object_name
from ottla.remote_log.segment_metadata import RemoteLogSegmentMetadata, RemotePartition, SegmentEpoch
from ottla.replication.replication_quota import ReplicationQuota
from ottla.storage.log import Log
from ottla.storage.recovery import open_log

PARTITION = RemotePartition(UUID(int=1), "t", 0)


class Objects:
    """Remote storage in a dict."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.reads = 0

    def put(self, name: str, content: Path | bytes) -> None:
        self.objects[name] = content if isinstance(content, bytes) else content.read_bytes()

    def get(self, name: str) -> bytes:
        self.reads += 1
        if name not in self.objects:
            raise RemoteObjectMissingError(name)
        return self.objects[name]

    def get_range(self, name: str, start: int, length: int) -> bytes:
        return self.get(name)[start : start + length]

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self.objects.pop(name, None)


def filled(tmp_path: Path, seed: int) -> Log:
    rng = random.Random(seed)
    config = LogConfig(index_interval_bytes=300)
    log = open_log(tmp_path / "t-0", TopicPartition("t", 0), config)
    for i in range(40):
        rows = [(NOW + 10 * i + rng.randrange(10), None, b"x" * rng.randrange(200)) for _ in range(rng.randint(1, 4))]
        log.append(batch(*rows), leader_epoch=0)
    log.high_watermark = log.log_end_offset
    log.roll()
    return log


def uploaded(log: Log, objects: Objects) -> RemoteLogSegmentMetadata:
    segment = log.segments[0]
    metadata = RemoteLogSegmentMetadata(
        PARTITION, UUID(int=7), 0, log.log_end_offset - 1, NOW, 1, 1, segment.size, (SegmentEpoch(0, 0),)
    )
    for file in (RemoteFile.LOG, RemoteFile.OFFSET_INDEX, RemoteFile.TIME_INDEX):
        objects.put(object_name(metadata, file), segment.path(file.value))
    return metadata


def reader(objects: Objects, chunk_bytes: int, cache_bytes: int = 10**6, pending: int = 100) -> ChunkReader:
    return ChunkReader(
        objects,
        ThreadPoolExecutor(2),
        SYSTEM_CLOCK,
        chunk_bytes=chunk_bytes,
        data_cache=ChunkCache(cache_bytes),
        index_cache=ChunkCache(10**6),
        max_pending=pending,
        quota=ReplicationQuota(),
    )


@pytest.mark.parametrize("chunk_bytes", [97, 500, 4096, 10**6])
def test_remote_read_of_every_offset_matches_the_local_log(tmp_path: Path, chunk_bytes: int) -> None:
    log, objects = filled(tmp_path, chunk_bytes), Objects()
    metadata = uploaded(log, objects)
    end = log.log_end_offset

    async def test() -> None:
        segment = RemoteSegment(metadata, reader(objects, chunk_bytes))
        for offset in range(end):
            for size in (1, 700):
                batches = await segment.read(offset, size, end, at_least_one=True)
                assert batches is not None
                with log.read(offset, size, max_offset=end) as local:
                    expected = local.read()
                data = bytes(batches.data)
                assert expected.startswith(data), "chunks may end earlier, but between batches"
                *_, (last, _, after) = split(data)
                assert after == len(data)
                assert last.next_offset <= batches.until
            assert bytes((await segment.read(offset, 1, end, at_least_one=False) or (b"",))[0]) == b""
        for timestamp in range(NOW - 5, NOW + 410, 7):
            local_result = log.offset_for_time(timestamp)
            assert await segment.find_timestamp(timestamp, 0) == local_result
        part = await segment.read(0, 10**6, end // 2, at_least_one=True)
        assert part is not None
        assert all(header.base_offset < end // 2 for header, _, _ in split(part.data))

    asyncio.run(test())


def test_damaged_and_missing_objects_raise_errors_and_reads_are_limited(tmp_path: Path) -> None:
    log, objects = filled(tmp_path, 1), Objects()
    metadata = uploaded(log, objects)
    name = object_name(metadata, RemoteFile.LOG)
    whole = objects.objects[name]

    async def read(chunk_bytes: int = 500, offset: int = 50, pending: int = 100) -> object:
        segment = RemoteSegment(metadata, reader(objects, chunk_bytes, pending=pending))
        return await segment.read(offset, 10**6, 10**6, at_least_one=True)

    for content in (whole[:-1], bytes(len(whole)), whole[:1000] + b"\x7f" * (len(whole) - 1000)):
        objects.objects[name] = content
        with pytest.raises(RemoteStorageError):
            asyncio.run(read(offset=metadata.end_offset))
    del objects.objects[name]
    with pytest.raises(RemoteObjectMissingError):
        asyncio.run(read())
    with pytest.raises(TooManyRemoteReadsError):
        asyncio.run(read(pending=0))


def test_concurrent_reads_of_a_chunk_download_it_once_and_the_cache_is_bounded(tmp_path: Path) -> None:
    objects = Objects()
    objects.put("a", b"x" * 1000)

    async def test() -> None:
        chunks = reader(objects, 100, cache_bytes=250)
        await asyncio.gather(*(chunks.read_chunk("a", 3) for _ in range(20)))
        assert objects.reads == 1
        for number in (0, 1, 3, 0):
            await chunks.read_chunk("a", number)
        assert objects.reads == 5, "the least recently used ones were dropped"
        assert chunks.downloaded_bytes == 500

    asyncio.run(test())
