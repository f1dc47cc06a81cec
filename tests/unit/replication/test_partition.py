"""A partition: when an append is committed, and what its waiters get."""

from __future__ import annotations

import asyncio
import errno
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from tests.unit.replication.partitions import IMAGE, Held, view, with_partition

from ottla.cluster.image.cluster_image import PartitionImage
from ottla.config.topic import LONG_MAX, LogConfig
from ottla.errors import (
    KafkaStorageError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
)
from ottla.model import TopicPartition
from ottla.replication import partition as partition_module
from ottla.replication.leader_replica import FollowerFetch
from ottla.replication.partition import ALL_REPLICAS, LAG_SECONDS, Partition
from ottla.storage.files import ResourcesExhaustedError
from ottla.storage.log import Log
from ottla.storage.log_flusher import THREADS, LogFlusher
from ottla.storage.recovery import open_log

IMAGE_OF_TWO = PartitionImage(leader=0, leader_epoch=0, replicas=(0, 1), isr=(0, 1))
ALONE = replace(IMAGE_OF_TWO, leader_epoch=1, replicas=(0,), isr=(0,), state_version=1)


def test_append_without_fsync_is_committed_at_once(tmp_path: Path) -> None:
    async def test(partition: Partition, held: Held) -> None:
        gained: list[int] = []
        partition.watch(gained.append)
        appended = partition.append(view(b"a"))
        assert partition.when_committed(appended.last_offset + 1) is None
        assert (partition.high_watermark, len(gained)) == (1, 1)
        partition.unwatch(gained.append)
        assert not held.jobs

    with_partition(test, tmp_path)


def test_append_with_fsync_is_visible_after_a_shared_fsync(tmp_path: Path) -> None:
    async def test(partition: Partition, held: Held) -> None:
        waits = []
        for value in (b"a", b"b", b"c"):
            appended = partition.append(view(value))
            waits.append(partition.when_committed(appended.last_offset + 1))
        assert partition.high_watermark == 0
        assert partition.read(0, 1000, committed_only=False, at_least_one=True).nbytes == 0
        assert len(held.jobs) == 1
        held.run_one()
        await waits[0]  # type: ignore[misc]
        assert partition.high_watermark == 1
        assert len(held.jobs) == 1
        held.run_one()
        await asyncio.gather(*waits[1:])  # type: ignore[arg-type]
        assert partition.high_watermark == 3
        assert not held.jobs

    with_partition(test, tmp_path, flush_messages=1)


def test_failed_fsync_fails_the_append_and_exposes_nothing(tmp_path: Path) -> None:
    async def test(partition: Partition, held: Held) -> None:
        appended = partition.append(view(b"a"))
        wait = partition.when_committed(appended.last_offset + 1)
        held.run_one(OSError(5, "EIO"))
        assert wait is not None
        with pytest.raises(KafkaStorageError):
            await wait
        assert partition.high_watermark == 0

    with_partition(test, tmp_path, flush_messages=1)


def test_acks_all_with_too_few_in_sync_replicas_is_rejected(tmp_path: Path) -> None:
    async def test(partition: Partition, held: Held) -> None:
        with pytest.raises(NotEnoughReplicasError, match=r"min\.insync\.replicas is 2"):
            partition.append(view(b"a"))
        assert partition.append(view(b"a"), acks=1).base_offset == 0

    with_partition(test, tmp_path, min_isr=2, image=replace(IMAGE, replicas=(0, 1)))


def test_append_is_committed_when_the_other_replica_is_removed(tmp_path: Path) -> None:
    async def test(partition: Partition, held: Held) -> None:
        gained: list[int] = []
        partition.watch(gained.append)
        wait = partition.when_committed(partition.append(view(b"a")).last_offset + 1)
        assert partition.high_watermark == 0
        partition.lead(ALONE)
        assert wait is not None
        assert wait.done()
        assert (partition.high_watermark, len(gained)) == (1, 1)

    with_partition(test, tmp_path, image=IMAGE_OF_TWO)


def test_deletion_of_records_ends_when_the_other_replica_is_removed(tmp_path: Path) -> None:
    async def test(partition: Partition, held: Held) -> None:
        partition.append(view(b"a"))
        partition.log.high_watermark = 1
        partition.log.delete_records_before(1)
        deleted = partition.leader_replica.when_deleted(1, lambda: (0, 1))
        partition.lead(ALONE)
        assert deleted is not None
        assert deleted.done()

    with_partition(test, tmp_path, image=IMAGE_OF_TWO)


@pytest.mark.parametrize("acks", [1, ALL_REPLICAS])
def test_append_that_waits_for_fsync_when_the_other_replica_is_removed(tmp_path: Path, acks: int) -> None:
    async def test(partition: Partition, held: Held) -> None:
        wait = partition.when_committed(partition.append(view(b"a"), acks).last_offset + 1, acks)
        partition.lead(ALONE)
        assert wait is not None
        assert (partition.high_watermark, wait.done()) == (0, False)
        held.run_one()
        await asyncio.wait_for(wait, 1)
        assert partition.high_watermark == 1

    with_partition(test, tmp_path, image=IMAGE_OF_TWO, flush_messages=1)


FOLLOWER = 1


def fetch(followed_at: float, replica: int = FOLLOWER) -> FollowerFetch:
    return FollowerFetch(replica, 0, 0, offset=0, log_start=0, followed_at=followed_at)


def test_confirm_leadership_needs_a_follower_that_replied_since(tmp_path: Path) -> None:
    # a fetch that has waited in a socket while this broker was paused is the reply to an older response
    async def test(partition: Partition, _: Held) -> None:
        before = partition.log.clock.monotonic()
        confirmed = partition.leader_replica.confirm(60)
        assert confirmed is not None
        partition.leader_replica.on_fetch(fetch(float("-inf")))
        partition.leader_replica.on_fetch(fetch(before - 1))
        assert not confirmed.done()
        assert partition.leader_replica.needs_confirmation
        partition.leader_replica.on_fetch(fetch(partition.log.clock.monotonic()))
        await confirmed
        assert not partition.leader_replica.needs_confirmation

    with_partition(test, tmp_path, image=IMAGE_OF_TWO)


def test_confirm_leadership_without_a_reply_fails_with_not_leader(tmp_path: Path) -> None:
    async def test(partition: Partition, _: Held) -> None:
        confirmed = partition.leader_replica.confirm(0.001)
        assert confirmed is not None
        with pytest.raises(NotLeaderOrFollowerError, match="no in-sync follower"):
            await confirmed

    with_partition(test, tmp_path, image=IMAGE_OF_TWO)


def test_leader_is_followed_until_no_follower_has_replied_for_the_lag_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(partition: Partition, _: Held) -> None:
        leader = partition.leader_replica
        started = partition.log.clock.monotonic()
        seen = [leader.is_followed]  # a new leader has had no time to be followed
        monkeypatch.setattr(leader, "_now", lambda: started + LAG_SECONDS + 1)
        seen.append(leader.is_followed)
        leader.on_fetch(fetch(started + 2))
        seen.append(leader.is_followed)
        monkeypatch.setattr(leader, "_now", lambda: started + 2 * LAG_SECONDS)
        partition.lead(replace(IMAGE_OF_TWO, isr=(0,), state_version=1))
        seen.append(leader.is_followed)  # alone in the ISR
        assert seen == [True, False, True, True]

    with_partition(test, tmp_path, image=IMAGE_OF_TWO)


def test_confirm_leadership_when_the_broker_resigns_fails_with_not_leader(tmp_path: Path) -> None:
    async def test(partition: Partition, _: Held) -> None:
        confirmed = partition.leader_replica.confirm(60)
        assert confirmed is not None
        partition.become_follower(replace(IMAGE_OF_TWO, leader=1, leader_epoch=1))
        with pytest.raises(NotLeaderOrFollowerError):
            await confirmed

    with_partition(test, tmp_path, image=IMAGE_OF_TWO)


def test_confirm_leadership_alone_in_sync_returns_none(tmp_path: Path) -> None:
    async def test(partition: Partition, _: Held) -> None:
        confirmed = partition.leader_replica.confirm(60)
        assert confirmed is not None
        partition.leader_replica.on_fetch(fetch(partition.log.clock.monotonic(), replica=2))
        assert not confirmed.done(), "a follower that is not in sync proves nothing"
        partition.lead(replace(image, isr=(0,), state_version=1))
        await confirmed
        assert partition.leader_replica.confirm(60) is None

    image = replace(IMAGE_OF_TWO, replicas=(0, 1, 2))
    with_partition(test, tmp_path, image=image)


def test_reason_for_uncommitted_records_names_the_followers(tmp_path: Path) -> None:
    async def test(partition: Partition, _: Held) -> None:
        partition.append(view(b"a"))
        assert partition.uncommitted_reason(1) == "these in-sync replicas have not fetched them yet: 1, 2"
        partition.leader_replica.on_fetch(FollowerFetch(1, 0, 0, offset=1, log_start=0))
        partition.append(view(b"b"))  # other producers go on, so that no follower is ever at the end of the log
        assert partition.uncommitted_reason(1) == "these in-sync replicas have not fetched them yet: 2"

    with_partition(test, tmp_path, image=replace(IMAGE_OF_TWO, replicas=(0, 1, 2, 3), isr=(0, 1, 2)))


def test_single_replica_satisfies_min_insync_replicas(tmp_path: Path) -> None:
    async def test(partition: Partition, held: Held) -> None:
        assert partition.append(view(b"a")).base_offset == 0
        assert partition.when_committed(1) is None

    with_partition(test, tmp_path, min_isr=2)


def test_closed_partition_fails_with_not_leader(tmp_path: Path) -> None:
    async def test(partition: Partition, held: Held) -> None:
        appended = partition.append(view(b"a"))
        wait = partition.when_committed(appended.last_offset + 1)
        gained: list[int] = []
        partition.watch(gained.append)
        partition.close()
        assert gained == [0]
        assert wait is not None
        with pytest.raises(NotLeaderOrFollowerError):
            await wait
        with pytest.raises(NotLeaderOrFollowerError):
            partition.append(view(b"b"))
        held.run_one()

    with_partition(test, tmp_path, flush_messages=1)


def test_read_outside_the_log_is_out_of_range(tmp_path: Path) -> None:
    async def test(partition: Partition, held: Held) -> None:
        with pytest.raises(OffsetOutOfRangeError, match="t-0 has offsets 0 to 0, not 1"):
            partition.read(1, 100, committed_only=False, at_least_one=True)

    with_partition(test, tmp_path)


@pytest.mark.parametrize(("code", "lasts"), [(errno.EIO, True), (errno.ENOENT, True), (errno.EMFILE, False)])
def test_read_error_takes_the_partition_out_of_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, lasts: bool
) -> None:
    async def test(partition: Partition, _: Held) -> None:
        partition.append(view(b"a"))
        partition.log.roll()
        partition.append(view(b"b"))
        partition.log.segments[0].rest()
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", lambda *_: (_ for _ in ()).throw(OSError(code, os.strerror(code))))
            with pytest.raises(KafkaStorageError, match=os.strerror(code)):
                partition.read(0, 1000, committed_only=False, at_least_one=True)
        assert partition.failed is lasts
        if not lasts:
            assert partition.read(0, 1000, committed_only=False, at_least_one=True).nbytes

    with_partition(test, tmp_path)


@pytest.mark.parametrize(("isr", "gives_up"), [((0,), False), ((0, 1), True)])
def test_full_disk_of_a_leader_fails_it_if_another_replica_is_in_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isr: tuple[int, ...], gives_up: bool
) -> None:
    async def test(partition: Partition, _: Held) -> None:
        def full(*_: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(KafkaStorageError, match="no space is left"):
            partition.append(view(b"a"))
        assert partition.failed is gives_up

    with_partition(test, tmp_path, image=PartitionImage(leader=0, leader_epoch=0, replicas=(0, 1), isr=isr))


def test_closed_segment_is_flushed_in_the_background(tmp_path: Path) -> None:
    async def test(partition: Partition, held: Held) -> None:
        for _ in range(5):
            partition.append(view(b"x" * 300))
        assert held.jobs, "a roll starts a flush"
        held.run_one()
        assert partition.log.recovery_point > 0

    with_partition(test, tmp_path, segment_bytes=500)


def test_workers_may_be_real_threads(tmp_path: Path) -> None:
    async def run() -> None:
        log = open_log(tmp_path / "t-0", TopicPartition("t", 0), LogConfig(flush_messages=1))
        with ThreadPoolExecutor(1) as workers:
            partition = Partition(log, IMAGE, 1, workers)
            partition.lead(IMAGE)
            appended = partition.append(view(b"a"))
            wait = partition.when_committed(appended.last_offset + 1)
            assert wait is not None
            await wait
        log.close()

    asyncio.run(run())


def test_moved_log_does_not_wait_for_a_disk_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        flushers = LogFlusher(tmp_path / "a"), LogFlusher(tmp_path / "b")
        old, new = (
            open_log(tmp_path / name, TopicPartition("t", 0), LogConfig(flush_messages=1), flusher=flusher)
            for name, flusher in zip("ab", flushers, strict=True)
        )
        continues, sync = Event(), Log._sync
        monkeypatch.setattr(Log, "_sync", lambda log, *args: continues.wait(10) if log is old else sync(log, *args))
        with ThreadPoolExecutor(1) as workers:
            partition = Partition(old, IMAGE, 1, workers)
            partition.lead(IMAGE)
            for _ in range(THREADS + 1):
                waits = [partition.when_committed(partition.append(view(b"a")).last_offset + 1)]
                partition.flush_in_background()  # all threads of the old directory hang
            with old.read(0, 1 << 20, max_offset=THREADS + 1) as copied:
                new.append_as_follower(memoryview(bytearray(copied.read())))
            new.flush()
            partition.replace_log(new)
            waits.append(partition.when_committed(partition.append(view(b"b")).last_offset + 1))
            old.close_without_flush()
            await asyncio.gather(*filter(None, waits))
            assert partition.high_watermark == new.recovery_point == THREADS + 2
            continues.set()
            flushers[0].close()
            await asyncio.sleep(0)
            waits = [partition.when_committed(partition.append(view(b"c")).last_offset + 1)]
            await asyncio.gather(*filter(None, waits))
        flushers[1].close()
        new.close()

    asyncio.run(asyncio.wait_for(run(), 8))


def test_failed_flush_of_the_old_directory_of_a_moved_log_does_not_fail_the_new_one(tmp_path: Path) -> None:
    """The error may arrive while the log is being replaced."""

    async def test(partition: Partition, held: Held) -> None:
        waits = [partition.when_committed(partition.append(view(b"a")).last_offset + 1)]
        partition.flush_in_background()
        flushing = asyncio.ensure_future(partition.flush())
        await asyncio.sleep(0)
        new = open_log(tmp_path / "new", TopicPartition("t", 0), LogConfig(flush_messages=1))
        new.append(view(b"a"), leader_epoch=0)
        new.flush()
        partition.replace_log(new)
        for _ in range(3):
            held.run_one(KafkaStorageError("EIO"))
        await flushing
        await asyncio.gather(*filter(None, waits))
        assert not partition.failed
        assert partition.high_watermark == 1
        new.close()

    with_partition(test, tmp_path, flush_messages=1)


def test_fsync_error_at_shutdown_is_logged(tmp_path: Path) -> None:
    async def test(partition: Partition, held: Held) -> None:
        wait = partition.when_committed(partition.append(view(b"a")).last_offset + 1)
        flushing = asyncio.ensure_future(partition.flush())
        await asyncio.sleep(0)
        held.jobs.pop(0)
        held.run_one(KafkaStorageError("EIO"))
        await flushing
        assert wait is not None
        with pytest.raises(KafkaStorageError):
            await wait
        assert partition.closed

    with_partition(test, tmp_path, flush_messages=1)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_append_without_file_descriptors_is_rejected_and_fails_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    async def test(partition: Partition, held: Held) -> None:
        partition.log.close_idle()
        partition.log.close_idle()
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", lambda *_: (_ for _ in ()).throw(OSError(code, os.strerror(code))))
            for _ in range(2):
                with pytest.raises(ResourcesExhaustedError, match="raise the limit"):
                    partition.append(view(b"a"))
        assert not partition.failed
        assert partition.append(view(b"b")).base_offset == 0

    with_partition(test, tmp_path)


@pytest.mark.parametrize("in_background", [False, True])
def test_flush_without_file_descriptors_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_background: bool
) -> None:
    async def test(partition: Partition, held: Held) -> None:
        monkeypatch.setattr(partition_module, "FLUSH_RETRY_SECONDS", 0.001)
        partition.append(view(b"a"))
        if in_background:
            partition.flush_in_background()
        held.run_one(ResourcesExhaustedError("Too many open files"))
        while not held.jobs:
            await asyncio.sleep(0.001)
        assert not partition.failed
        held.run_one()
        await asyncio.sleep(0)
        assert partition.log.recovery_point == 1

    with_partition(test, tmp_path, flush_messages=LONG_MAX if in_background else 1)
