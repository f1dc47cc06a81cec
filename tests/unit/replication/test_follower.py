"""The follower's side of a partition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import batch
from tests.unit.replication.partitions import Held

from ottla.cluster.image.cluster_image import PartitionImage
from ottla.config.topic import LogConfig
from ottla.model import TopicPartition
from ottla.protocol.messages.fetch import EpochEndOffset, PartitionData
from ottla.records.batch import HEADER_BYTES
from ottla.replication.follower import Follower, NextStep
from ottla.replication.partition import Partition
from ottla.storage.recovery import open_log

IMAGE = PartitionImage(leader=1, leader_epoch=1, replicas=(0, 1), isr=(1,))


def leader_batch(base_offset: int, *values: bytes, epoch: int = 1, **producer: Any) -> memoryview:
    """Return a batch as a leader sends it."""
    data = bytearray(batch(*values, **producer))
    data[0:8] = base_offset.to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big")
    assert len(data) > HEADER_BYTES
    return memoryview(data)


def test_log_that_diverges_within_the_leaders_first_batch_is_replaced_by_it(tmp_path: Path) -> None:
    """Records are deleted up to an offset within the leader's first batch, where its first epoch seems to begin."""
    log = open_log(tmp_path / "t-0", TopicPartition("t", 0), LogConfig())
    log.append_as_follower(leader_batch(0, b"0", b"1", b"2", epoch=0))
    log.append_as_follower(leader_batch(3, b"old", b"old", epoch=0))
    log.append_as_follower(leader_batch(5, *[b"old"] * 4, epoch=0))
    partition = Partition(log, IMAGE, 1, Held())
    partition.become_follower(IMAGE)
    follower = Follower(partition)
    follower.apply(PartitionData(diverging_epoch=EpochEndOffset(epoch=0, end_offset=5)))
    assert follower.fetch_position().offset == 5
    response = PartitionData(high_watermark=7, log_start_offset=5, records=leader_batch(3, *[b"new"] * 4))
    assert follower.apply(response) is NextStep.CONTINUE
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (5, 7, 7)
    assert [header.base_offset for header, _ in log.batches_from(0)] == [3]
    assert log.leader_epochs.latest == 1
    log.close()


def test_deleted_records_keep_their_producer_state(tmp_path: Path) -> None:
    """The records up to the high watermark are deleted, and new ones arrive before the follower's next fetch."""
    log = open_log(tmp_path / "t-0", TopicPartition("t", 0), LogConfig())
    log.append_as_follower(leader_batch(0, b"0", b"1", producer_id=7, producer_epoch=3, base_sequence=0))
    partition = Partition(log, IMAGE, 1, Held())
    partition.become_follower(IMAGE)
    follower = Follower(partition)
    follower.apply(PartitionData(high_watermark=2, log_start_offset=2, records=leader_batch(2, b"2")))
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (2, 3, 2)
    assert log.producers.producers[7].epoch == 3, "else a zombie could write to this replica as the next leader"
    assert not follower.has_truncated
    log.close()


@pytest.mark.parametrize(
    ("values", "lines"),
    [
        ([], ["Starting the log of t-0, which has no records, at offset 7, the leader's log start"]),
        (
            [b"0"],
            [
                "Deleting the log of t-0, because the leader has already deleted all records in it; starting again at "
                "offset 7, the leader's log start"
            ],
        ),
    ],
)
def test_only_the_deletion_of_records_is_logged_as_one(
    values: list[bytes], lines: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(tmp_path / "t-0", TopicPartition("t", 0), LogConfig())
    if values:
        log.append_as_follower(leader_batch(0, *values))
    partition = Partition(log, IMAGE, 1, Held())
    partition.become_follower(IMAGE)
    with caplog.at_level("INFO", "ottla.replication"):
        Follower(partition).apply_range(7, 9)
    assert caplog.messages == lines
    assert [record.levelname for record in caplog.records] == ["WARNING" if values else "INFO"]
    assert log.log_end_offset == 7
    log.close()
