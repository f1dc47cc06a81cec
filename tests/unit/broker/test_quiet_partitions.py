"""Partitions of a follower's fetch session that need not be looked at, as nothing has happened to them."""

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
"""Of the follower's registration."""


def caught_up(partition: Partition) -> CachedPartition:
    """Return a follower's cached partition when it has everything."""
    partition.append(view(b"a"))
    log = partition.log
    expected = CachedPartition(FetchPartition(partition=0, current_leader_epoch=0, fetch_offset=log.log_end_offset))
    expected.partition = partition
    expected.follower = partition.leader_replica.on_fetch(
        FollowerFetch(1, EPOCH, 0, log.log_end_offset, log.log_start_offset)
    )
    expected.news(
        PartitionData(partition_index=0, high_watermark=log.high_watermark, log_start_offset=log.log_start_offset)
    )
    return expected


@pytest.mark.parametrize(("epoch", "quiet"), [(EPOCH, True), (EPOCH + 1, False), (-1, True)])
def test_follower_that_registered_again_is_checked(tmp_path: Path, epoch: int, quiet: bool) -> None:
    # else its leader goes on telling the controller of the old registration, which refuses it among those in sync
    async def test(partition: Partition, _: Held) -> None:
        assert caught_up(partition).is_quiet(0.0, epoch) is quiet

    with_partition(test, tmp_path, image=IMAGE)


def test_a_partition_with_more_to_read_is_not_quiet(tmp_path: Path) -> None:
    async def test(partition: Partition, _: Held) -> None:
        expected = caught_up(partition)
        partition.append(view(b"b"))
        assert not expected.is_quiet(0.0, EPOCH)

    with_partition(test, tmp_path, image=IMAGE)
