"""Metadata of remote segments: lookup by epoch and offset, states, and deletable segments."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.unit.storage.conftest import batch

from ottla.config.topic import LogConfig
from ottla.errors import MalformedMessageError
from ottla.model import TopicPartition
from ottla.remote_log.metadata_records import decode_event, encode_event, metadata_partition
from ottla.remote_log.metadata_store import RemotePartitionMetadataStore, common_end
from ottla.remote_log.remote_retention import deletable, expired_before
from ottla.remote_log.segment_copier import copy_candidates
from ottla.remote_log.segment_metadata import (
    RemoteLogEvent,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    RemoteLogSegmentUpdate,
    RemotePartition,
    RemotePartitionDeletion,
    SegmentEpoch,
)
from ottla.storage.leader_epochs import EpochEntry, LeaderEpochs
from ottla.storage.recovery import open_log

PARTITION = RemotePartition(UUID("7c7f19ba-9c2f-4e1c-8b0f-3f4d0c5a1e77"), "t", 3)
STARTED, FINISHED, DELETING, DELETED = RemoteLogSegmentState


def segment(
    number: int, start: int, end: int, *epochs: tuple[int, int], state: RemoteLogSegmentState = FINISHED, ms: int = 0
) -> RemoteLogSegmentMetadata:
    """Return a segment of 100 bytes with these offsets. `ms`: its highest timestamp."""
    segment_epochs = tuple(SegmentEpoch(*epoch) for epoch in epochs or ((0, start),))
    return RemoteLogSegmentMetadata(PARTITION, UUID(int=number), start, end, ms, 1, 5, 100, segment_epochs, state)


def store_of(*segments: RemoteLogSegmentMetadata) -> RemotePartitionMetadataStore:
    store = RemotePartitionMetadataStore(PARTITION)
    for offset, metadata in enumerate(segments):
        store.apply(offset, metadata)
    return store


def epochs(tmp_path: Path, *entries: tuple[int, int]) -> LeaderEpochs:
    leader_epochs = LeaderEpochs(tmp_path / "leader-epoch-checkpoint")
    leader_epochs.restore([EpochEntry(*entry) for entry in entries])
    return leader_epochs


def test_metadata_event_round_trip_and_malformed_events_are_rejected() -> None:
    events: list[RemoteLogEvent] = [
        segment(1, 10, 20, (3, 10), (5, 15), state=STARTED),
        RemoteLogSegmentUpdate(PARTITION, UUID(int=1), FINISHED, 2, 7, b"custom"),
        RemotePartitionDeletion(PARTITION, 0, 2, 8),
    ]
    assert [decode_event(encode_event(event)) for event in events] == events
    good = encode_event(events[0])
    for bad in (b"", b"\x01", b"\x01\x09\x00", b"\x02" + good[1:], good[:-5], encode_event(segment(1, 20, 10))):
        with pytest.raises(MalformedMessageError):
            decode_event(bad)
    assert {metadata_partition(PARTITION._replace(partition=n), 50) for n in range(500)} == set(range(50))


def test_only_finished_segments_that_are_not_being_deleted_are_found(tmp_path: Path) -> None:
    log_epochs = epochs(tmp_path, (0, 0))
    store = store_of(segment(1, 0, 9, state=STARTED))
    for offset, (state, visible) in enumerate(((FINISHED, True), (STARTED, True), (DELETING, False)), 1):
        store.apply(offset, RemoteLogSegmentUpdate(PARTITION, UUID(int=1), state, 1, 1))
        assert (store.find_in(log_epochs, 5) is not None) == visible
    store.apply(9, RemoteLogSegmentUpdate(PARTITION, UUID(int=1), FINISHED, 1, 1))
    assert store.find_in(log_epochs, 5) is None, "a former leader has finished a copy that is being deleted"
    store.apply(10, RemoteLogSegmentUpdate(PARTITION, UUID(int=1), DELETED, 1, 1))
    store.apply(0, segment(1, 0, 9))
    assert not len(store), "deleted segments are not added when the metadata topic is read again"
    assert store.readable_bytes == 0


def test_segments_after_a_gap_or_of_another_lineage_are_ignored(tmp_path: Path) -> None:
    current = epochs(tmp_path, (0, 0), (2, 20))
    diverged = segment(9, 20, 29, (1, 20))
    store = store_of(segment(1, 0, 9), segment(2, 10, 24, (0, 10), (2, 20)), diverged, segment(4, 35, 39, (2, 35)))
    assert store.contiguous_end(current, 0) == 25
    assert store.find_in(current, 22) == segment(2, 10, 24, (0, 10), (2, 20))
    assert store.find(1, 22) is diverged
    assert store.first_offset(current) == 0
    store.apply(5, segment(3, 25, 34, (2, 25)))
    assert store.contiguous_end(current, 3) == 40
    straddling = segment(7, 12, 30, (0, 12), (1, 20))
    assert common_end(straddling, current, 14) == 20, "after an unclean election, its end is of another lineage"
    assert common_end(segment(8, 12, 30, (0, 12)), current, 14) == 20
    assert common_end(segment(2, 10, 24, (0, 10), (2, 20)), current, 10) == 25
    current.truncate_from_start(12)
    assert store.first_offset(current) == 12
    assert store.first_offset(epochs(tmp_path, (7, 50))) is None
    after_the_end_of_its_epoch = store_of(segment(9, 150, 199, (1, 150)))
    assert after_the_end_of_its_epoch.first_offset(epochs(tmp_path, (1, 0), (2, 100))) is None


def test_deletable_segments_are_before_the_log_start_or_copied_elsewhere(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-3", TopicPartition("t", 3), LogConfig(remote_storage_enable=True))
    log.leader_epochs.restore([EpochEntry(0, 0)])
    log.log_start_offset, log.log_end_offset, log.high_watermark = 15, 100, 100
    chain = [segment(1, 10, 19), segment(2, 20, 29), segment(3, 30, 39)]
    store = store_of(
        *chain,
        segment(4, 0, 9),  # before the log start
        segment(5, 20, 29, state=STARTED),  # an abandoned copy
        segment(6, 22, 27, (1, 22)),  # of another lineage
        segment(7, 30, 49, state=STARTED),  # not copied again yet
        segment(8, 60, 69, (1, 60)),  # after what is copied
        segment(9, 20, 35, state=DELETING),
    )
    assert sorted(s.id.int for s in deletable(log, store)) == [4, 5, 6, 9]
    log.config = LogConfig(remote_log_delete_on_disable=True)
    assert len(deletable(log, store)) == 9


@pytest.mark.parametrize(
    ("config", "start"),
    [
        ({"retention_ms": -1, "retention_bytes": -1}, 0),
        ({"retention_ms": 50, "retention_bytes": -1}, 20),
        ({"retention_ms": -1, "retention_bytes": 150}, 10),
        ({"retention_ms": -1, "retention_bytes": 0}, 30),
        ({"retention_ms": 0, "cleanup_policy": ()}, 0),
    ],
)
def test_expired_segments_end_at_the_first_one_that_is_retained(
    tmp_path: Path, config: dict[str, Any], start: int
) -> None:
    log = open_log(tmp_path / "t-3", TopicPartition("t", 3), LogConfig(remote_storage_enable=True)._replace(**config))
    log.leader_epochs.restore([EpochEntry(0, 0)])
    log.log_end_offset = log.high_watermark = 30
    store = store_of(segment(1, 0, 9, ms=100), segment(2, 10, 19, ms=149), segment(3, 20, 29, ms=150))
    assert expired_before(log, store, 200) == start


def test_only_closed_flushed_and_stable_segments_are_copied(tmp_path: Path) -> None:
    config = LogConfig(remote_storage_enable=True, segment_bytes=400)
    log = open_log(tmp_path / "t-3", TopicPartition("t", 3), config)
    for sequence in range(12):
        log.append(batch(b"x" * 120, producer_id=1, producer_epoch=0, base_sequence=sequence), leader_epoch=0)
    bases = [s.base_offset for s in log.segments]
    assert len(bases) == 6
    log.high_watermark = 12
    assert copy_candidates(log) == [], "no segment is flushed"
    log.flush()
    assert [c.next_offset for c in copy_candidates(log)] == bases[1:]
    log.remote_end_offset = bases[2]
    assert [c.segment.base_offset for c in copy_candidates(log)] == bases[2:-1]
    log.remote_end_offset = bases[2] + 1
    assert copy_candidates(log)[0].segment.base_offset == bases[2], "the segments of another leader ended elsewhere"
    log.high_watermark = bases[4] - 1
    assert [c.segment.base_offset for c in copy_candidates(log)] == [bases[2]]
    log.high_watermark = 12
    log.producers.ongoing[bases[3] - 1] = 9
    assert copy_candidates(log) == [], "a transaction is open"
