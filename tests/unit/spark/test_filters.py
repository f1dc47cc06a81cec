"""Which ranges a query's conditions leave to be read."""

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


class Times:
    """A look-up that knows times only: each partition's offset is its time in seconds."""

    arguments: Mapping[TopicPartition, int]

    def at_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        self.arguments = timestamps
        return {tp: None if tp.topic == "b" else ms // 1000 for tp, ms in timestamps.items()}


def left(*filters: Filter) -> set[tuple[str, int, int, int]]:
    return {(*r.topic_partition, r.start, r.end) for r in Bounds().narrowed_by(filters).cut(RANGES, Times())}  # type: ignore[arg-type]


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
def test_conditions_leave_out_what_cannot_match(filters: list[Filter], expected: set[tuple[Any, ...]]) -> None:
    assert left(*filters) == expected


def test_a_time_is_a_lower_bound_only() -> None:
    at = dt.datetime.fromtimestamp(15, dt.UTC)
    assert left(GreaterThanOrEqual(("timestamp",), at)) == {("a", 0, 14, 20), ("a", 1, 14, 20)}
    assert left(LessThan(("timestamp",), at)) == WHOLE
    assert left(GreaterThan(("timestamp",), at.replace(tzinfo=None))) == WHOLE


@pytest.mark.parametrize("seconds", [-5_000, 0])
def test_a_time_before_1970_leaves_out_nothing(seconds: int) -> None:
    """A record without a time has -1, the last millisecond of 1969."""
    at = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)
    assert left(GreaterThanOrEqual(("timestamp",), at)) == WHOLE
