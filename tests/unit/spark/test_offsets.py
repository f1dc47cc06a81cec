"""Offset planning: resolution of offset limits, ranges, losses, rate limits and splits."""

from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ConfigurationError
from ottla.model import TopicPartition
from ottla.spark.options.offset_range_limit import (
    AtTimestamp,
    AtTimestamps,
    Earliest,
    Latest,
    Specific,
    offsets_from_json,
    offsets_to_json,
)
from ottla.spark.source.offsets import (
    OffsetRange,
    batch_ranges,
    check_start,
    limit_offsets,
    resolve,
    split,
    stream_ranges,
)

A0, A1, A2, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("a", 2), TopicPartition("b", 0)


class FakeOffsets:
    """Partitions with a first offset, an end offset and, at offset n, the timestamp 1000 * n."""

    def __init__(self, offsets: Mapping[TopicPartition, tuple[int, int]]) -> None:
        self.offsets = offsets

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.offsets[tp][0] for tp in partitions}

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.offsets[tp][1] for tp in partitions}

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        actual = {tp: max(self.offsets[tp][0], -(-ms // 1000)) for tp, ms in timestamps.items()}
        return {tp: n if n < self.offsets[tp][1] else None for tp, n in actual.items()}


TWO = FakeOffsets({A0: (5, 20), A1: (0, 10)})
PARTITIONS = frozenset({A0, A1})


class Losses(list[str]):
    def __call__(self, message: str) -> None:
        self.append(message)


def test_every_form_of_limit_resolves_to_an_offset_per_partition() -> None:
    assert resolve(Earliest(), PARTITIONS, TWO, "startingOffsets") == {A0: 5, A1: 0}
    assert resolve(Latest(), PARTITIONS, TWO, "startingOffsets") == {A0: 20, A1: 10}
    assert resolve(Specific({A0: -2, A1: -1}), PARTITIONS, TWO, "startingOffsets") == {A0: 5, A1: 10}
    assert resolve(Specific({A0: 7, A1: 8}), PARTITIONS, TWO, "startingOffsets") == {A0: 7, A1: 8}
    assert resolve(AtTimestamp(6000, False), PARTITIONS, TWO, "startingOffsets") == {A0: 6, A1: 6}
    assert resolve(AtTimestamps({A0: 0, A1: 3500}, False), PARTITIONS, TWO, "x") == {A0: 5, A1: 4}


def test_specific_offsets_must_name_exactly_the_read_partitions() -> None:
    with pytest.raises(ConfigurationError, match=r"startingOffsets.*missing: a-1; not read: b-0"):
        resolve(Specific({A0: 7, B0: 1}), PARTITIONS, TWO, "startingOffsets")


def test_timestamp_after_the_last_record_is_an_error_or_latest() -> None:
    with pytest.raises(ConfigurationError, match=r"startingTimestamp: a-1 .* 15000"):
        resolve(AtTimestamp(15_000, False), PARTITIONS, TWO, "startingOffsets")
    assert resolve(AtTimestamp(15_000, True), PARTITIONS, TWO, "startingOffsets") == {A0: 15, A1: 10}


def test_batch_ranges_are_clamped_to_the_log_and_losses_reported() -> None:
    losses = Losses()
    ranges = batch_ranges({A0: 0, A1: 2}, {A0: 20, A1: 12}, TWO, losses)
    assert ranges == [OffsetRange(A0, 5, 20), OffsetRange(A1, 2, 10)]
    assert len(losses) == 2
    assert "a-0: offsets 0 to 4 no longer exist" in losses[0]


def test_batch_within_the_log_reports_no_loss_and_omits_empty_ranges() -> None:
    losses = Losses()
    assert batch_ranges({A0: 5, A1: 3}, {A0: 20, A1: 3}, TWO, losses) == [OffsetRange(A0, 5, 20)]
    assert losses == []


def test_stream_start_is_clamped_to_the_log() -> None:
    losses = Losses()
    assert check_start({A0: 2, A1: 99}, TWO, losses) == {A0: 5, A1: 10}
    assert len(losses) == 2


def test_new_partition_of_a_stream_is_read_from_the_beginning() -> None:
    losses = Losses()
    offsets = FakeOffsets({A0: (0, 9), A1: (0, 4)})
    assert stream_ranges({A0: 3}, {A0: 9, A1: 4}, offsets, losses) == [OffsetRange(A0, 3, 9), OffsetRange(A1, 0, 4)]
    assert losses == []


def test_stream_losses_are_reported() -> None:
    losses = Losses()
    offsets = FakeOffsets({A0: (0, 9), A1: (2, 4)})
    ranges = stream_ranges({A0: 30, B0: 1}, {A0: 9, A1: 4}, offsets, losses)
    assert ranges == [OffsetRange(A1, 2, 4)]
    assert [loss.split(":")[0] for loss in losses] == ["a-1", "b-0", "a-0"]


def test_offset_limit_is_shared_proportionally_and_rounded_down() -> None:
    start = {A0: 0, A1: 0, A2: 0}
    latest = {A0: 100, A1: 100, A2: 100}
    steps = []
    while start != latest:
        end = limit_offsets(100, start, latest, {})
        steps.append(sum(end.values()) - sum(start.values()))
        start = end
    assert steps == [99, 99, 99, 3]


def test_small_partition_is_not_starved_by_the_offset_limit() -> None:
    assert limit_offsets(10, {A0: 0, A1: 0}, {A0: 1_000_000, A1: 1}, {}) == {A0: 9, A1: 1}


def test_new_partition_shares_the_offset_limit_from_its_beginning() -> None:
    assert limit_offsets(10, {A0: 100}, {A0: 110, A1: 60}, {A1: 50}) == {A0: 105, A1: 55}


sizes = st.lists(st.integers(0, 10_000), min_size=1, max_size=8)


@given(sizes, st.integers(1, 20_000))
def test_offset_limit_always_progresses_and_never_exceeds_latest(actual: list[int], limit: int) -> None:
    start = {TopicPartition("t", i): 10 for i in range(len(actual))}
    latest = {TopicPartition("t", i): 10 + n for i, n in enumerate(actual)}
    end = limit_offsets(limit, start, latest, {})
    assert all(start[tp] <= end[tp] <= latest[tp] for tp in latest)
    assert (end != start) == (latest != start)
    assert sum(end.values()) - sum(start.values()) <= limit + len(actual)


@given(sizes, st.none() | st.integers(1, 50), st.none() | st.integers(1, 5000))
def test_split_ranges_cover_every_offset_once(actual: list[int], tasks: int | None, max_size: int | None) -> None:
    ranges = [OffsetRange(TopicPartition("t", i), 7, 7 + n) for i, n in enumerate(actual) if n]
    parts = split(ranges, tasks, max_size)
    for offset_range in ranges:
        parts_of_range = [p for p in parts if p.topic_partition == offset_range.topic_partition]
        assert [p.start for p in parts_of_range] == [offset_range.start, *(p.end for p in parts_of_range[:-1])]
        assert parts_of_range[-1].end == offset_range.end
    assert all(p.size > 0 for p in parts)
    assert max_size is None or all(p.size <= max_size for p in parts)


def test_split_distributes_tasks_by_range_size() -> None:
    assert len(split([OffsetRange(A0, 0, 100), OffsetRange(A1, 0, 100)], 6)) == 6
    parts = split([OffsetRange(A0, 0, 10_000), OffsetRange(A1, 0, 10)], 5)
    assert [p.topic_partition for p in parts] == [A0] * 4 + [A1]
    assert split([OffsetRange(A0, 0, 5)], None) == [OffsetRange(A0, 0, 5)]
    assert split([OffsetRange(A0, 0, 10)], 3) == [OffsetRange(A0, 0, 3), OffsetRange(A0, 3, 6), OffsetRange(A0, 6, 10)]


def test_offsets_json_is_canonical_and_reversible() -> None:
    offsets = {B0: 1, TopicPartition("a", 10): 2, A0: 3}
    assert offsets_from_json(offsets_to_json(offsets)) == offsets
    assert str(offsets_to_json(offsets)) == str(offsets_to_json(dict(reversed(offsets.items()))))


def test_start_after_the_end_is_rejected_and_after_the_log_end_is_a_loss() -> None:
    losses = Losses()
    with pytest.raises(ConfigurationError, match=r"a-0.*offset 9, is after the end, offset 7"):
        batch_ranges({A0: 9, A1: 0}, {A0: 7, A1: 10}, TWO, losses)
    assert batch_ranges({A0: 25, A1: 0}, {A0: 20, A1: 10}, TWO, losses) == [OffsetRange(A1, 0, 10)]
    assert losses == ["a-0: it ends at 20, before the startingOffsets 25"]


def test_end_before_the_log_start_gives_no_range() -> None:
    assert batch_ranges({A0: 5, A1: 0}, {A0: 3, A1: 10}, TWO, Losses()) == [OffsetRange(A1, 0, 10)]


def test_min_partitions_never_exceeds_the_number_of_offsets() -> None:
    assert len(split([OffsetRange(A0, 0, 3), OffsetRange(A1, 0, 2)], 10**12)) == 5
