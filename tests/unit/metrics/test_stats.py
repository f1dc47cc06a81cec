"""Windowed, rate and cumulative stats."""

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


def measure_after(stat: Stat, *recorded: tuple[float, float], now: float) -> float:
    """Record values, as (value, time), and return the measurement at `now`."""
    for value, at in recorded:
        stat.record(TWO_OF_TEN, value, at)
    return stat.measure(TWO_OF_TEN, now)


@pytest.mark.parametrize(
    ("make", "expected"),
    [(Avg, 2.0), (Max, 3.0), (Min, 1.0), (WindowedSum, 6.0), (WindowedCount, 3.0)],
)
def test_windows_are_combined_and_the_oldest_one_expires(make: Callable[[], Stat], expected: float) -> None:
    values = [(1.0, 0.0), (2.0, 5.0), (3.0, 12.0)]
    assert measure_after(make(), *values, now=13.0) == expected
    late = {Avg: 3.5, Max: 4.0, Min: 3.0, WindowedSum: 7.0, WindowedCount: 2.0}
    assert measure_after(make(), *values, (4.0, 22.0), now=22.0) == late[make]  # type: ignore[index]


def test_window_expires_when_its_last_value_is_older_than_all_windows() -> None:
    stat = WindowedSum()
    assert measure_after(stat, (1.0, 0.0), (2.0, 9.0), now=28.9) == 3.0
    assert measure_after(stat, now=29.0) == 0.0


@pytest.mark.parametrize("make", [Avg, Max, Min])
def test_avg_max_and_min_without_values_are_nan(make: Callable[[], Stat]) -> None:
    assert math.isnan(measure_after(make(), now=0.0))
    assert math.isnan(measure_after(make(), (1.0, 0.0), now=100.0))


def test_rate_counts_missing_windows_as_full() -> None:
    rate = Rate()
    assert measure_after(rate, (100.0, 0.0), now=0.0) == 10.0
    assert measure_after(rate, now=5.0) == pytest.approx(100 / 15)
    assert measure_after(rate, (100.0, 10.0), now=15.0) == pytest.approx(200 / 15)


def test_rate_without_values_is_zero() -> None:
    assert measure_after(Rate(), now=0.0) == 0.0
    assert measure_after(Rate(WindowedCount()), (7.0, 0.0), now=60.0) == 0.0


def test_cumulative_stats_never_expire() -> None:
    assert measure_after(CumulativeSum(), (2.0, 0.0), (3.0, 1000.0), now=9999.0) == 5.0
    assert measure_after(CumulativeCount(), (2.0, 0.0), (3.0, 1000.0), now=9999.0) == 2.0
    assert measure_after(Value(), (2.0, 0.0), (3.0, 1000.0), now=9999.0) == 3.0
