"""Tiered logs: local deletion of copied segments, and recovery of the state of tiered records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.storage.conftest import NOW, TP, batch, values

from ottla.clock import ManualClock
from ottla.errors import OffsetMovedToTieredStorageError, OffsetOutOfRangeError
from ottla.replication.log_dir_move import _start
from ottla.storage.leader_epochs import EpochEntry
from ottla.storage.log import Log
from ottla.storage.producer_state import snapshots_in
from ottla.storage.recovery import load_producers
from ottla.storage.retention import apply_retention, local_retention_offset

TIERED: dict[str, Any] = {"segment_bytes": 500, "retention_ms": -1, "remote_storage_enable": True}


def fill(log: Log, count: int, first: int = 0) -> None:
    """Append batches of one producer; the leader epoch increases every 8 offsets."""
    for sequence in range(first, first + count):
        data = batch(b"x" * 120, producer_id=7, producer_epoch=0, base_sequence=sequence)
        log.append(data, leader_epoch=log.log_end_offset // 8)
    log.high_watermark = log.log_end_offset
    log.flush()


def test_copied_segments_are_deleted_locally_and_the_log_start_offset_stays(
    make_log: Callable[..., Log], clock: ManualClock
) -> None:
    log = make_log(**TIERED, local_retention_bytes=1)
    fill(log, 20)
    boundaries = [segment.base_offset for segment in log.segments]
    assert local_retention_offset(log, NOW) == 0, "no segment is in remote storage"
    log.remote_end_offset = boundaries[3] + 1
    assert local_retention_offset(log, NOW) == boundaries[3]
    (log.dir / f"{boundaries[3]:020d}.snapshot").unlink()
    assert local_retention_offset(log, NOW) == boundaries[2], "the producers' state at the end must be on disk"
    log.drop_local_before(boundaries[2])
    assert (log.log_start_offset, log.local_log_start_offset) == (0, boundaries[2])
    assert log.leader_epochs.entries[0] == EpochEntry(0, 0)
    with pytest.raises(OffsetMovedToTieredStorageError):
        log.read(boundaries[2] - 1, 100, max_offset=20)
    assert log.offsets_before()[-1] == 0
    assert len(values(log)) == 20 - boundaries[2]
    log.delete_records_before(boundaries[2] - 1)
    assert log.local_log_start_offset == boundaries[2]
    # the topic is not tiered any more
    log.config = log.config._replace(remote_storage_enable=False)
    apply_retention(log, NOW)
    assert log.log_start_offset == boundaries[2]
    with pytest.raises(OffsetOutOfRangeError):
        log.read(boundaries[2] - 1, 100, max_offset=20)


def test_idle_segment_is_rolled_so_that_it_can_be_copied(make_log: Callable[..., Log]) -> None:
    log = make_log(**TIERED, local_retention_ms=1000)
    fill(log, 2)
    assert local_retention_offset(log, NOW + 500) == 0
    assert len(log.segments) == 1
    local_retention_offset(log, NOW + 2000)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    log.remote_end_offset = 2
    assert local_retention_offset(log, NOW + 2000) == 2


def test_active_segment_is_rolled_if_no_bytes_are_retained_locally(make_log: Callable[..., Log]) -> None:
    log = make_log(**TIERED, local_retention_bytes=0)
    fill(log, 2)
    assert local_retention_offset(log, NOW) == 0
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    log.remote_end_offset = 2
    assert local_retention_offset(log, NOW) == 2


def test_recovery_after_a_roll_restores_the_snapshot_of_the_closed_segment(make_log: Callable[..., Log]) -> None:
    log = make_log(**TIERED)
    fill(log, 2)
    log.roll()
    (log.dir / f"{2:020d}.snapshot").unlink()  # as recovery does, because it may not have been flushed
    log = make_log(**TIERED)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    assert [offset for offset, _ in snapshots_in(log.dir)] == [2]
    fill(log, 1, first=2)
    assert log.producers.producers[7].batches[-1].last_sequence == 2


def test_producer_state_and_leader_epochs_survive_a_power_failure(make_log: Callable[..., Log]) -> None:
    log = make_log(**TIERED, local_retention_bytes=1)
    fill(log, 20)
    boundaries = [segment.base_offset for segment in log.segments]
    log.remote_end_offset = boundaries[4]
    epochs = log.leader_epochs.entries
    log.sync_tiered_state(boundaries[4], epochs)
    log.drop_local_before(boundaries[4])
    assert min(offset for offset, _ in snapshots_in(log.dir)) == boundaries[4]
    log.close_without_flush()
    for offset, path in snapshots_in(log.dir):
        if offset > boundaries[4]:
            path.unlink()  # not on disk yet
    (log.dir / "leader-epoch-checkpoint").write_bytes(b"")  # neither is its newest content
    again = make_log(**TIERED, recovery_point=boundaries[4])
    assert (again.log_start_offset, again.local_log_start_offset) == (0, boundaries[4])
    assert again.high_watermark == boundaries[4]
    assert again.leader_epochs.entries == epochs, "the epochs of tiered records cannot be rebuilt from local batches"
    assert again.producers.producers[7].last_sequence == 19
    # each closed segment has a snapshot at its end again, to be copied with it
    assert {offset for offset, _ in snapshots_in(log.dir)} >= set(boundaries[4:])


def test_truncation_below_the_local_log_keeps_the_epochs_of_tiered_records(make_log: Callable[..., Log]) -> None:
    log = make_log(**TIERED)
    fill(log, 20)
    boundaries = [segment.base_offset for segment in log.segments]
    log.remote_end_offset = boundaries[6]
    log.drop_local_before(boundaries[6])
    assert boundaries[6] > 10
    log.truncate_to(10)
    assert (log.log_start_offset, log.log_end_offset) == (0, 10)
    assert log.leader_epochs.entries == [EpochEntry(0, 0), EpochEntry(1, 8)]


def test_recovery_writes_a_damaged_snapshot_at_the_start_of_a_segment_again(make_log: Callable[..., Log]) -> None:
    log = make_log(**TIERED)
    fill(log, 8)
    start = log.segments[-1].base_offset
    path = log.dir / f"{start:020d}.snapshot"
    for later, _ in snapshots_in(log.dir):
        if later > start:
            (log.dir / f"{later:020d}.snapshot").unlink()
    path.write_bytes(b"damaged")
    load_producers(log)
    assert path.read_bytes() != b"damaged"


async def test_log_dir_move_copies_the_state_of_tiered_records(make_log: Callable[..., Log], tmp_path: Path) -> None:
    log = make_log(**TIERED)
    fill(log, 20)
    start = log.segments[3].base_offset
    log.remote_end_offset = start
    log.drop_local_before(start)
    epochs, producers = log.leader_epochs.entries, log.producers.producers[7].last_sequence
    (tmp_path / str(TP)).rename(tmp_path / "old")
    log.dir = tmp_path / "old"
    copy = make_log(**TIERED)
    await _start(copy, log, start)
    assert (copy.log_start_offset, copy.log_end_offset) == (0, start)
    assert copy.leader_epochs.entries == [entry for entry in epochs if entry.start_offset < start]
    assert copy.producers.producers[7].last_sequence == start - 1 < producers
