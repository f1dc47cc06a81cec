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


class Held:
    """Partitions with a first offset, an end and, at offset n, the timestamp 1000 * n."""

    def __init__(self, held: Mapping[TopicPartition, tuple[int, int]]) -> None:
        self.held = held

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.held[tp][0] for tp in partitions}

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.held[tp][1] for tp in partitions}

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        actual = {tp: max(self.held[tp][0], -(-ms // 1000)) for tp, ms in timestamps.items()}
        return {tp: n if n < self.held[tp][1] else None for tp, n in actual.items()}


TWO = Held({A0: (5, 20), A1: (0, 10)})
PARTITIONS = frozenset({A0, A1})


class Losses(list[str]):
    def __call__(self, message: str) -> None:
        self.append(message)


def test_every_form_of_a_bound_becomes_an_offset_per_partition() -> None:
    assert resolve(Earliest(), PARTITIONS, TWO, "startingOffsets") == {A0: 5, A1: 0}
    assert resolve(Latest(), PARTITIONS, TWO, "startingOffsets") == {A0: 20, A1: 10}
    assert resolve(Specific({A0: -2, A1: -1}), PARTITIONS, TWO, "startingOffsets") == {A0: 5, A1: 10}
    assert resolve(Specific({A0: 7, A1: 8}), PARTITIONS, TWO, "startingOffsets") == {A0: 7, A1: 8}
    assert resolve(AtTimestamp(6000, False), PARTITIONS, TWO, "startingOffsets") == {A0: 6, A1: 6}
    assert resolve(AtTimestamps({A0: 0, A1: 3500}, False), PARTITIONS, TWO, "x") == {A0: 5, A1: 4}


def test_offsets_must_name_exactly_the_partitions_that_are_read() -> None:
    with pytest.raises(ConfigurationError, match=r"startingOffsets.*missing: a-1; not read: b-0"):
        resolve(Specific({A0: 7, B0: 1}), PARTITIONS, TWO, "startingOffsets")


def test_a_time_after_the_last_record_is_an_error_or_the_end() -> None:
    with pytest.raises(ConfigurationError, match=r"startingTimestamp: a-1 .* 15000"):
        resolve(AtTimestamp(15_000, False), PARTITIONS, TWO, "startingOffsets")
    assert resolve(AtTimestamp(15_000, True), PARTITIONS, TWO, "startingOffsets") == {A0: 15, A1: 10}


def test_a_batch_is_cut_to_what_is_there_and_the_cut_is_reported() -> None:
    losses = Losses()
    ranges = batch_ranges({A0: 0, A1: 2}, {A0: 20, A1: 12}, TWO, losses)
    assert ranges == [OffsetRange(A0, 5, 20), OffsetRange(A1, 2, 10)]
    assert len(losses) == 2
    assert "a-0: offsets 0 to 4 no longer exist" in losses[0]


def test_a_batch_that_fits_reports_nothing_and_leaves_empty_ranges_out() -> None:
    losses = Losses()
    assert batch_ranges({A0: 5, A1: 3}, {A0: 20, A1: 3}, TWO, losses) == [OffsetRange(A0, 5, 20)]
    assert losses == []


def test_a_stream_starts_within_what_is_there() -> None:
    losses = Losses()
    assert check_start({A0: 2, A1: 99}, TWO, losses) == {A0: 5, A1: 10}
    assert len(losses) == 2


def test_a_new_partition_is_read_from_its_beginning() -> None:
    losses = Losses()
    held = Held({A0: (0, 9), A1: (0, 4)})
    assert stream_ranges({A0: 3}, {A0: 9, A1: 4}, held, losses) == [OffsetRange(A0, 3, 9), OffsetRange(A1, 0, 4)]
    assert losses == []


def test_what_a_stream_may_have_lost_is_reported() -> None:
    losses = Losses()
    held = Held({A0: (0, 9), A1: (2, 4)})
    ranges = stream_ranges({A0: 30, B0: 1}, {A0: 9, A1: 4}, held, losses)
    assert ranges == [OffsetRange(A1, 2, 4)]
    assert [loss.split(":")[0] for loss in losses] == ["a-1", "b-0", "a-0"]


def test_the_limit_is_shared_pro_rata_and_rounded_down() -> None:
    start = {A0: 0, A1: 0, A2: 0}
    latest = {A0: 100, A1: 100, A2: 100}
    steps = []
    while start != latest:
        end = limit_offsets(100, start, latest, {})
        steps.append(sum(end.values()) - sum(start.values()))
        start = end
    assert steps == [99, 99, 99, 3]


def test_a_small_partition_is_not_starved_by_the_limit() -> None:
    assert limit_offsets(10, {A0: 0, A1: 0}, {A0: 1_000_000, A1: 1}, {}) == {A0: 9, A1: 1}


def test_a_new_partition_shares_in_the_limit_from_its_beginning() -> None:
    assert limit_offsets(10, {A0: 100}, {A0: 110, A1: 60}, {A1: 50}) == {A0: 105, A1: 55}


sizes = st.lists(st.integers(0, 10_000), min_size=1, max_size=8)


@given(sizes, st.integers(1, 20_000))
def test_the_limit_always_moves_on_and_never_past_the_end(actual: list[int], limit: int) -> None:
    start = {TopicPartition("t", i): 10 for i in range(len(actual))}
    latest = {TopicPartition("t", i): 10 + n for i, n in enumerate(actual)}
    end = limit_offsets(limit, start, latest, {})
    assert all(start[tp] <= end[tp] <= latest[tp] for tp in latest)
    assert (end != start) == (latest != start)
    assert sum(end.values()) - sum(start.values()) <= limit + len(actual)


@given(sizes, st.none() | st.integers(1, 50), st.none() | st.integers(1, 5000))
def test_splitting_neither_loses_nor_doubles_an_offset(actual: list[int], tasks: int | None, most: int | None) -> None:
    ranges = [OffsetRange(TopicPartition("t", i), 7, 7 + n) for i, n in enumerate(actual) if n]
    parts = split(ranges, tasks, most)
    for whole in ranges:
        mine = [p for p in parts if p.topic_partition == whole.topic_partition]
        assert [p.start for p in mine] == [whole.start, *(p.end for p in mine[:-1])]
        assert mine[-1].end == whole.end
    assert all(p.size > 0 for p in parts)
    assert most is None or all(p.size <= most for p in parts)


def test_splitting_follows_the_sizes() -> None:
    assert len(split([OffsetRange(A0, 0, 100), OffsetRange(A1, 0, 100)], 6)) == 6
    parts = split([OffsetRange(A0, 0, 10_000), OffsetRange(A1, 0, 10)], 5)
    assert [p.topic_partition for p in parts] == [A0] * 4 + [A1]
    assert split([OffsetRange(A0, 0, 5)], None) == [OffsetRange(A0, 0, 5)]
    assert split([OffsetRange(A0, 0, 10)], 3) == [OffsetRange(A0, 0, 3), OffsetRange(A0, 3, 6), OffsetRange(A0, 6, 10)]


def test_offsets_survive_the_checkpoint_and_have_one_text() -> None:
    offsets = {B0: 1, TopicPartition("a", 10): 2, A0: 3}
    assert offsets_from_json(offsets_to_json(offsets)) == offsets
    assert str(offsets_to_json(offsets)) == str(offsets_to_json(dict(reversed(offsets.items()))))


def test_a_start_behind_the_end_is_wrong_and_behind_the_last_record_a_loss() -> None:
    losses = Losses()
    with pytest.raises(ConfigurationError, match=r"a-0.*offset 9, is after the end, offset 7"):
        batch_ranges({A0: 9, A1: 0}, {A0: 7, A1: 10}, TWO, losses)
    assert batch_ranges({A0: 25, A1: 0}, {A0: 20, A1: 10}, TWO, losses) == [OffsetRange(A1, 0, 10)]
    assert losses == ["a-0: it ends at 20, before the startingOffsets 25"]


def test_an_end_before_what_is_still_there_is_no_range() -> None:
    assert batch_ranges({A0: 5, A1: 0}, {A0: 3, A1: 10}, TWO, Losses()) == [OffsetRange(A1, 0, 10)]


def test_min_partitions_never_exceeds_the_number_of_offsets() -> None:
    assert len(split([OffsetRange(A0, 0, 3), OffsetRange(A1, 0, 2)], 10**12)) == 5
