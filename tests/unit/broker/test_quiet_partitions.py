"""Quiet partitions of a follower's fetch session, which are skipped because nothing has changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.replication.partitions import Held, view, with_partition

from ottla.broker.sessions.fetch_sessions import CachedPartition
from ottla.cluster.image.cluster_image import PartitionImage
from ottla.protocol.messages.fetch import FetchPartition, PartitionData
from ottla.replication.leader_replica import FollowerFetch
from ottla.replication.partition import Partition

IMAGE = PartitionImage(leader=0, leader_epoch=0, replicas=(0, 1), isr=(0, 1))
EPOCH = 7
"""The broker epoch of the follower."""


def caught_up(partition: Partition) -> CachedPartition:
    """Return the cached partition of a follower that has caught up."""
    partition.append(view(b"a"))
    log = partition.log
    cached = CachedPartition(FetchPartition(partition=0, current_leader_epoch=0, fetch_offset=log.log_end_offset))
    cached.partition = partition
    cached.follower = partition.leader_replica.on_fetch(
        FollowerFetch(1, EPOCH, 0, log.log_end_offset, log.log_start_offset)
    )
    cached.news(
        PartitionData(partition_index=0, high_watermark=log.high_watermark, log_start_offset=log.log_start_offset)
    )
    return cached


@pytest.mark.parametrize(("epoch", "quiet"), [(EPOCH, True), (EPOCH + 1, False), (-1, True)])
def test_partition_of_a_follower_with_a_new_broker_epoch_is_not_quiet(tmp_path: Path, epoch: int, quiet: bool) -> None:
    # otherwise the leader would propose an ISR with the old broker epoch, which the controller rejects
    async def test(partition: Partition, _: Held) -> None:
        assert caught_up(partition).is_quiet(0.0, epoch) is quiet

    with_partition(test, tmp_path, image=IMAGE)


def test_partition_with_more_records_is_not_quiet(tmp_path: Path) -> None:
    async def test(partition: Partition, _: Held) -> None:
        cached = caught_up(partition)
        partition.append(view(b"b"))
        assert not cached.is_quiet(0.0, EPOCH)

    with_partition(test, tmp_path, image=IMAGE)


def test_partition_is_not_quiet_after_a_delayed_fetch_of_an_earlier_session(tmp_path: Path) -> None:
    # otherwise the leader would never learn again that the follower has caught up, and would not add it to the ISR
    async def test(partition: Partition, _: Held) -> None:
        cached = caught_up(partition)
        partition.leader_replica.on_fetch(FollowerFetch(1, EPOCH, 0, 0, 0))
        assert not cached.is_quiet(0.0, EPOCH)

    with_partition(test, tmp_path, image=IMAGE)
