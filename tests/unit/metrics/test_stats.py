from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from ottla.metrics.metric import MetricConfig
from ottla.metrics.stats import (
    Avg,
    CumulativeCount,
    CumulativeSum,
    Max,
    Min,
    Rate,
    Stat,
    Value,
    WindowedCount,
    WindowedSum,
)

TWO_OF_TEN = MetricConfig(samples=2, window_seconds=10.0)


def after(stat: Stat, *recorded: tuple[float, float], now: float) -> float:
    """What a stat says at `now` after (value, time) each."""
    for value, at in recorded:
        stat.record(TWO_OF_TEN, value, at)
    return stat.measure(TWO_OF_TEN, now)


@pytest.mark.parametrize(
    ("make", "expected"),
    [(Avg, 2.0), (Max, 3.0), (Min, 1.0), (WindowedSum, 6.0), (WindowedCount, 3.0)],
)
def test_windows_are_taken_together_and_the_oldest_is_forgotten(make: Callable[[], Stat], expected: float) -> None:
    values = [(1.0, 0.0), (2.0, 5.0), (3.0, 12.0)]
    assert after(make(), *values, now=13.0) == expected
    late = {Avg: 3.5, Max: 4.0, Min: 3.0, WindowedSum: 7.0, WindowedCount: 2.0}
    assert after(make(), *values, (4.0, 22.0), now=22.0) == late[make]  # type: ignore[index]


def test_a_window_ends_when_its_last_value_is_older_than_all_windows() -> None:
    stat = WindowedSum()
    assert after(stat, (1.0, 0.0), (2.0, 9.0), now=28.9) == 3.0
    assert after(stat, now=29.0) == 0.0


@pytest.mark.parametrize("make", [Avg, Max, Min])
def test_of_nothing_there_is_no_average_and_no_extreme(make: Callable[[], Stat]) -> None:
    assert math.isnan(after(make(), now=0.0))
    assert math.isnan(after(make(), (1.0, 0.0), now=100.0))


def test_a_rate_counts_windows_that_are_not_there_yet_as_full() -> None:
    rate = Rate()
    assert after(rate, (100.0, 0.0), now=0.0) == 10.0
    assert after(rate, now=5.0) == pytest.approx(100 / 15)
    assert after(rate, (100.0, 10.0), now=15.0) == pytest.approx(200 / 15)


def test_a_rate_of_nothing_is_zero() -> None:
    assert after(Rate(), now=0.0) == 0.0
    assert after(Rate(WindowedCount()), (7.0, 0.0), now=60.0) == 0.0


def test_totals_forget_nothing() -> None:
    assert after(CumulativeSum(), (2.0, 0.0), (3.0, 1000.0), now=9999.0) == 5.0
    assert after(CumulativeCount(), (2.0, 0.0), (3.0, 1000.0), now=9999.0) == 2.0
    assert after(Value(), (2.0, 0.0), (3.0, 1000.0), now=9999.0) == 3.0
