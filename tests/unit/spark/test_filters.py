"""Offset ranges that remain to be read after filter pushdown."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from ottla.model import TopicPartition
from ottla.spark.source.filters import Bounds
from ottla.spark.source.offsets import OffsetRange

RANGES = [OffsetRange(TopicPartition(t, p), 10, 20) for t in "ab" for p in range(2)]


class TimestampLookup:
    """Fake offset lookup by timestamp: the offset is the time in seconds."""

    arguments: Mapping[TopicPartition, int]

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        self.arguments = timestamps
        return {tp: None if tp.topic == "b" else ms // 1000 for tp, ms in timestamps.items()}


def remaining_ranges(*filters: Filter) -> set[tuple[str, int, int, int]]:
    return {(*r.topic_partition, r.start, r.end) for r in Bounds().narrowed_by(filters).cut(RANGES, TimestampLookup())}  # type: ignore[arg-type]


WHOLE = {(t, p, 10, 20) for t in "ab" for p in range(2)}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], WHOLE),
        ([EqualTo(("topic",), "a")], {("a", 0, 10, 20), ("a", 1, 10, 20)}),
        ([EqualTo(("Partition",), 1), EqualTo(("topic",), "b")], {("b", 1, 10, 20)}),
        ([In(("partition",), (0, 7))], {("a", 0, 10, 20), ("b", 0, 10, 20)}),
        ([EqualTo(("partition",), 0), EqualTo(("partition",), 1)], set()),
        ([GreaterThan(("offset",), 14), LessThan(("offset",), 17)], {(t, p, 15, 17) for t in "ab" for p in range(2)}),
        (
            [GreaterThanOrEqual(("offset",), 14), LessThanOrEqual(("offset",), 17)],
            {(t, p, 14, 18) for t in "ab" for p in range(2)},
        ),
        ([EqualTo(("offset",), 12)], {(t, p, 12, 13) for t in "ab" for p in range(2)}),
        ([In(("offset",), (12, 15))], {(t, p, 12, 16) for t in "ab" for p in range(2)}),
        ([In(("offset",), (None, 15))], {(t, p, 15, 16) for t in "ab" for p in range(2)}),
        ([EqualTo(("offset",), 99)], set()),
        ([EqualTo(("value",), b"x"), IsNotNull(("offset",)), Not(EqualTo(("offset",), 3))], WHOLE),
        ([EqualTo(("headers", "key"), "x")], WHOLE),
    ],
)
def test_filters_exclude_ranges_that_cannot_match(filters: list[Filter], expected: set[tuple[Any, ...]]) -> None:
    assert remaining_ranges(*filters) == expected


def test_timestamp_filter_is_only_a_lower_bound() -> None:
    at = dt.datetime.fromtimestamp(15, dt.UTC)
    assert remaining_ranges(GreaterThanOrEqual(("timestamp",), at)) == {("a", 0, 14, 20), ("a", 1, 14, 20)}
    assert remaining_ranges(LessThan(("timestamp",), at)) == WHOLE
    assert remaining_ranges(GreaterThan(("timestamp",), at.replace(tzinfo=None))) == WHOLE


@pytest.mark.parametrize("seconds", [-5_000, 0])
def test_timestamp_filter_before_1970_excludes_nothing(seconds: int) -> None:
    """A record without a timestamp has -1, the last millisecond of 1969."""
    at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)
    assert remaining_ranges(GreaterThanOrEqual(("timestamp",), at)) == WHOLE
