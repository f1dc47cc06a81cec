"""A partition whose disk does not keep up: records are committed, replicated and loaded when they are written."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.replication.partitions import IMAGE, Held, view
from tests.unit.slow_writes import SlowWrites

from ottla.cluster.image.cluster_image import PartitionImage
from ottla.config.topic import LogConfig
from ottla.coordinator.runtime.loader import CoordinatorShards
from ottla.errors import KafkaStorageError
from ottla.model import TopicPartition
from ottla.records.batch import BatchHeader
from ottla.replication import partition as partition_module
from ottla.replication.partition import Partition
from ottla.storage.append_writer import MAX_QUEUED_BYTES, QueueFullError
from ottla.storage.recovery import open_log

TP = TopicPartition("t", 0)
IMAGE_OF_TWO = PartitionImage(leader=0, leader_epoch=0, replicas=(0, 1), isr=(0, 1))


@pytest.fixture
def disk(tmp_path: Path) -> SlowWrites:
    return SlowWrites(tmp_path)


@pytest.fixture
async def partition(tmp_path: Path, disk: SlowWrites) -> AsyncIterator[Partition]:
    log = open_log(tmp_path / str(TP), TP, LogConfig(), writer=disk.writer)
    partition = Partition(log, IMAGE, 1, Held())
    partition.lead(IMAGE)
    yield partition
    log.close_without_flush()


async def test_append_is_committed_when_it_is_written(disk: SlowWrites, partition: Partition) -> None:
    gained: list[int] = []
    partition.watch(gained.append)
    partition.watch(gained.append, appends=True)
    appended = partition.append(view(b"a"))
    committed = partition.when_committed(appended.last_offset + 1)
    assert committed is not None
    assert (partition.high_watermark, gained) == (0, [])
    await disk.write_next()
    assert committed.done()
    assert (partition.high_watermark, len(gained)) == (1, 2)


async def test_append_with_acks_1_is_acknowledged_when_it_is_written(disk: SlowWrites, partition: Partition) -> None:
    partition.lead(IMAGE_OF_TWO)
    appended = partition.append(view(b"a"), acks=1)
    acknowledged = partition.when_committed(appended.last_offset + 1, acks=1)
    assert acknowledged is not None
    await disk.write_next()
    assert acknowledged.done()


async def test_followers_read_only_written_records(disk: SlowWrites, partition: Partition) -> None:
    partition.append(view(b"a"))
    with partition.read_to_end(0, 1000, at_least_one=True) as piece:
        assert piece.nbytes == 0
    await disk.write_next()
    with partition.read_to_end(0, 1000, at_least_one=True) as piece:
        assert piece.nbytes > 0


async def test_write_that_fails_takes_the_partition_out_of_service(disk: SlowWrites, partition: Partition) -> None:
    appended = partition.append(view(b"a"))
    committed = partition.when_committed(appended.last_offset + 1)
    await disk.write_next(error=OSError(errno.EIO, os.strerror(errno.EIO)))
    assert partition.failed
    assert committed is not None
    with pytest.raises(KafkaStorageError):
        await committed


async def test_write_without_space_is_repeated_if_no_other_replica_is_in_sync(
    disk: SlowWrites, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_module, "FULL_RETRY_SECONDS", 0)
    appended = partition.append(view(b"a"))
    committed = partition.when_committed(appended.last_offset + 1)
    await disk.write_next(error=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    await disk.write_next()
    assert committed is not None
    assert committed.done()
    assert not partition.failed


async def test_full_queue_defers_appends_of_producers_only(disk: SlowWrites, partition: Partition) -> None:
    disk.writer.queued_bytes = MAX_QUEUED_BYTES
    with pytest.raises(QueueFullError):
        partition.append(view(b"a"), inline=True)
    assert partition.append(view(b"a")).base_offset == 0


class Replayed:
    """The state of a coordinator, with the offsets that were replayed."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.loaded: list[int] = []

    def replay_batch(self, index: int, header: BatchHeader, data: memoryview) -> int:
        self.offsets.append(header.base_offset)
        return header.count

    def on_loaded(self, index: int) -> None:
        self.loaded.append(index)

    def on_unloaded(self, index: int) -> None:
        self.loaded.remove(index)


async def test_coordinator_is_loaded_when_all_its_records_are_written(disk: SlowWrites, partition: Partition) -> None:
    partition.append(view(b"a"))
    partition.append(view(b"b"))
    state = Replayed()
    shards = CoordinatorShards("t", state)
    shards.on_leader(partition)
    await disk.write_next()
    assert not state.loaded
    await disk.write_next()
    await shards.all_loaded()
    assert (state.loaded, state.offsets) == ([0], [0, 1])
