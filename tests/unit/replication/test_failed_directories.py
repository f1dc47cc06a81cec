"""Failed log directories: which failures stop the broker."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from tests.unit.replication.virtual_loop import Inline

from ottla.broker.server import log_dirs
from ottla.broker.server.log_dirs import LogDirs
from ottla.cluster.image.cluster_image import ClusterImage, PartitionImage, TopicImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.topic import LogConfig
from ottla.errors import KafkaStorageError, LogDirNotFoundError
from ottla.model import TopicPartition
from ottla.replication.partitions import Partitions
from ottla.storage.log_dir import LogDir

DISK_FULL = OSError(errno.ENOSPC, "no space is left on the device")


def failures(tmp_path: Path, *, has_store: bool) -> list[list[str]]:
    """Return the reasons to stop after the failure of each of two directories; the first may have the store."""
    dirs = [LogDir.open(tmp_path / name, broker_id=0) for name in ("a", "b")]
    reasons: list[str] = []
    store_dir = dirs[0] if has_store else None
    partitions = Partitions(
        0, dirs, Inline(), lambda *_: LogConfig(), lambda *_: 1, on_fatal=reasons.append, store_dir=store_dir
    )
    steps = []
    for directory in dirs:
        partitions.fail_directory(directory, DISK_FULL)
        steps.append(list(reasons))
        directory.close()
    return steps


def test_broker_continues_until_its_last_directory_fails(tmp_path: Path) -> None:
    assert failures(tmp_path, has_store=False) == [[], ["log.dirs: all log directories have failed"]]


def test_error_without_a_text_takes_a_directory_offline(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with LogDir.open(tmp_path, broker_id=0) as directory:
        partitions = Partitions(0, [directory], Inline(), lambda *_: LogConfig(), lambda *_: 1)
        partitions.fail_directory(directory, MemoryError())
        assert directory.offline == "MemoryError"
    assert caplog.messages == [f"Taking log directory {tmp_path} out of service until a restart: MemoryError"]


def test_log_of_a_replica_that_is_offline_is_not_logged_as_one_without_a_replica(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LogDir.open(tmp_path, broker_id=0) as directory:
        directory.load(lambda _: LogConfig())
        for name in ("t", "other"):
            directory.create(TopicPartition(name, 0), LogConfig(), None)
        directory.failed[TopicPartition("t", 0)] = KafkaStorageError("the disk is damaged")
        partitions = Partitions(0, [directory], Inline(), lambda *_: LogConfig(), lambda *_: 1)
        replica = PartitionImage(leader=0, leader_epoch=0, replicas=(0,), isr=(0,))
        asyncio.run(partitions.start(ClusterImage("c", topics={"t": TopicImage("t", uuid4(), (replica,))})))
    assert caplog.messages == [
        "Cannot open or create the log of t-0, so the replica is offline: the disk is damaged",
        f"Ignoring the log of other-0 in {tmp_path}, because this broker has no replica of the partition; its files "
        "are kept",
    ]


@pytest.mark.parametrize("leaves", ["deleted", "created again", "moved"])
def test_replica_without_a_log_is_not_offline_after_it_has_left_the_broker(tmp_path: Path, leaves: str) -> None:
    tp, first = TopicPartition("t", 0), uuid4()
    replica = PartitionImage(leader=0, leader_epoch=0, replicas=(0,), isr=(0,))
    elsewhere = PartitionImage(leader=1, leader_epoch=1, replicas=(1,), isr=(1,))
    reported: list[list[TopicPartition]] = []

    def image(**topics: TopicImage) -> ClusterImage:
        return ClusterImage("c", topics=topics)

    async def test(directory: LogDir) -> None:
        directory.failed[tp] = KafkaStorageError("the disk is damaged")
        partitions = Partitions(
            0, [directory], Inline(), lambda *_: LogConfig(), lambda *_: 1, on_dir_failure=reported.append
        )
        before = image(t=TopicImage("t", first, (replica,)))
        await partitions.start(before)
        assert partitions.offline_replicas() == [tp]
        if leaves == "created again":
            await partitions.on_image_changed(before, image(t=TopicImage("t", uuid4(), (replica,))))
            assert partitions.offline_replicas() == [tp]
            assert reported == [[tp], [tp]]
            return
        after = image() if leaves == "deleted" else image(t=TopicImage("t", first, (elsewhere,)))
        await partitions.on_image_changed(before, after)
        assert partitions.offline_replicas() == []

    with LogDir.open(tmp_path, broker_id=0) as directory:
        asyncio.run(test(directory))


def test_replica_cannot_move_to_a_directory_that_could_not_be_opened(tmp_path: Path) -> None:
    with LogDir.open(tmp_path, broker_id=0) as directory:
        partitions = Partitions(
            0, [directory], Inline(), lambda *_: LogConfig(), lambda *_: 1, unopened_dirs={"/b": "no such device"}
        )
        with pytest.raises(KafkaStorageError, match="/b is out of service: no such device"):
            asyncio.run(partitions.move_replica(TopicPartition("t", 0), "/b"))
        with pytest.raises(LogDirNotFoundError, match="/c is not one of"):
            asyncio.run(partitions.move_replica(TopicPartition("t", 0), "/c"))


def test_broker_stops_when_the_disk_of_its_metadata_store_fails(tmp_path: Path) -> None:
    first, _ = failures(tmp_path, has_store=True)
    assert first == [f"log.dirs: {tmp_path / 'a'}, on the disk of the metadata store, has failed"]


@pytest.mark.parametrize(
    ("configs", "device", "expected"),
    [
        ({}, 1, True),
        ({"zookeeper.connect": "z:2181"}, 1, False),
        ({"ottla.metadata.dir": "/store"}, 1, True),
        ({"ottla.metadata.dir": "/store"}, 2, False),
    ],
)
def test_store_dir_is_the_first_log_dir_unless_the_store_is_elsewhere(
    monkeypatch: pytest.MonkeyPatch, configs: dict[str, str], device: int, expected: bool
) -> None:
    devices = {"/store": device}
    stat = SimpleNamespace(**vars(os) | {"stat": lambda path: SimpleNamespace(st_dev=devices.get(str(path), 1))})
    monkeypatch.setattr(log_dirs, "os", stat)
    opened = LogDirs()
    first: Any = SimpleNamespace(path=Path("/a"))
    opened.append(first)
    config = BrokerConfig({"log.dirs": "/a,/b", "broker.id": "0", **configs})
    assert opened.store_dir(config) is (first if expected else None)
