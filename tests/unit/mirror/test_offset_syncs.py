"""Offset syncs: selection by the source, and translation of offsets."""

from __future__ import annotations

import random

import pytest

from ottla.mirror.offset_syncs import MIN_SYNCS, OffsetSyncStore, SyncSelector
from ottla.mirror.records import OffsetSync
from ottla.model import TopicPartition

TP = TopicPartition("visits", 0)


def selected(selector: SyncSelector, upstream: int, downstream: int, count: int) -> list[tuple[int, int]]:
    return [(sync.upstream, sync.downstream) for sync in selector.select(upstream, downstream, count)]


def test_first_offset_sync_and_one_in_max_lag_records_are_selected() -> None:
    selector = SyncSelector(TP, max_lag=9)
    assert selected(selector, 100, 0, 25) == [(100, 0), (110, 10), (120, 20)]
    assert selected(selector, 125, 25, 5) == []
    assert selected(selector, 130, 30, 1) == [(130, 30)]


def test_every_offset_sync_is_selected_if_max_lag_is_0() -> None:
    assert selected(SyncSelector(TP, max_lag=0), 5, 7, 3) == [(5, 7), (6, 8), (7, 9)]


def test_offset_sync_after_a_gap_at_the_source_is_selected() -> None:
    selector = SyncSelector(TP, max_lag=100)
    assert selected(selector, 0, 0, 5) == [(0, 0)]
    assert selected(selector, 7, 5, 5) == [(7, 5)]


def test_offset_sync_after_a_truncation_of_the_target_is_selected() -> None:
    selector = SyncSelector(TP, max_lag=100)
    assert selected(selector, 0, 50, 5) == [(0, 50)]
    assert selected(selector, 5, 0, 5) == [(5, 0)]


def test_latest_offset_sync_is_selected_once() -> None:
    selector = SyncSelector(TP, max_lag=100)
    assert selected(selector, 0, 0, 5) == [(0, 0)]
    assert selector.latest(4, 4) == OffsetSync(TP, 4, 4)
    assert selector.latest(4, 4) is None


def store(*pairs: tuple[int, int]) -> OffsetSyncStore:
    syncs = OffsetSyncStore()
    for pair in pairs:
        syncs.add(OffsetSync(TP, *pair))
    return syncs


@pytest.mark.parametrize(
    ("offset", "translated"), [(99, None), (100, 5), (101, 6), (150, 6), (200, 50), (201, 51), (10**9, 51)]
)
def test_offset_is_translated_by_the_latest_offset_sync_before_it(offset: int, translated: int | None) -> None:
    assert store((100, 5), (200, 50)).translate(TP, offset) == translated


def test_offset_of_a_partition_without_offset_syncs_is_not_translated() -> None:
    assert store((1, 1)).translate(TopicPartition("visits", 1), 5) is None


@pytest.mark.parametrize("pair", [(50, 300), (300, 3)])
def test_offset_sync_that_moves_back_replaces_all_before_it(pair: tuple[int, int]) -> None:
    syncs = store((100, 5), (200, 50), pair)
    assert syncs.translate(TP, pair[0] - 1) is None
    assert syncs.translate(TP, 1000) == pair[1] + 1


def test_offset_sync_store_is_bounded_and_exact_near_the_end() -> None:
    syncs = OffsetSyncStore()
    for offset in range(0, 1_000_000, 100):
        syncs.add(OffsetSync(TP, offset, offset))
    assert len(syncs._syncs[TP]) < 3 * MIN_SYNCS
    for distance in (100, 1_000, 10_000, 100_000, 900_000):
        offset = 999_900 - distance
        translated = syncs.translate(TP, offset)
        assert translated is not None
        assert offset - translated <= distance / 4 + 100


@pytest.mark.parametrize("seed", range(20))
def test_translation_never_skips_a_record(seed: int) -> None:
    """Records of a compacted or transactional source; the target has markers between them, and may lack pairs."""
    rng = random.Random(seed)
    selector, syncs = SyncSelector(TP, rng.choice([0, 3, 10])), OffsetSyncStore()
    copied: dict[int, int] = {}
    upstream = downstream = 0
    for _ in range(60):
        upstream += rng.choice([0, 0, 1, 5])
        downstream += 1
        count = rng.randint(1, 12)
        pairs = [*selector.select(upstream, downstream, count)]
        latest = selector.latest(upstream + count - 1, downstream + count - 1)
        for pair in pairs + ([latest] if latest else []):
            if rng.random() < 0.8:
                syncs.add(pair)
        copied |= {upstream + i: downstream + i for i in range(count)}
        upstream, downstream = upstream + count, downstream + count
    for offset in range(upstream + 5):
        translated = syncs.translate(TP, offset)
        if translated is not None:
            assert all(at >= translated for source, at in copied.items() if source >= offset)
            assert translated <= downstream
