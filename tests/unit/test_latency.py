"""Latency histograms: quantiles of the last minutes, counts and sums since the start."""

from __future__ import annotations

import math

import pytest

from ottla.latency import BOUNDS, WINDOW_SECONDS, LatencyHistogram, LatencySnapshot


def test_quantiles_are_exact_to_20_percent() -> None:
    histogram = LatencyHistogram()
    for i in range(1, 1001):
        histogram.record(i / 1000)
    snapshot = histogram.snapshot(0.0)
    for fraction in (0.5, 0.75, 0.95, 0.99, 0.999):
        assert snapshot.quantile(fraction) == pytest.approx(fraction, rel=0.2)
    assert snapshot.count == 1000
    assert snapshot.seconds == pytest.approx(500.5)


def test_quantile_without_durations_is_not_a_number() -> None:
    assert math.isnan(LatencyHistogram().snapshot(0.0).quantile(0.5))


@pytest.mark.parametrize(("seconds", "expected"), [(0.0, 0.0), (1e9, BOUNDS[-1])])
def test_duration_outside_the_buckets_counts_as_the_nearest_bound(seconds: float, expected: float) -> None:
    histogram = LatencyHistogram()
    histogram.record(seconds)
    assert histogram.snapshot(0.0).quantile(0.99) == expected


def test_old_durations_leave_the_quantiles_after_two_windows_and_stay_in_the_count() -> None:
    histogram = LatencyHistogram()
    histogram.snapshot(0.0)
    histogram.record(1.0)
    assert histogram.snapshot(WINDOW_SECONDS).quantile(0.5) == pytest.approx(1.0, rel=0.2)
    histogram.record(0.001)
    later = histogram.snapshot(2 * WINDOW_SECONDS)
    assert later.quantile(0.99) == pytest.approx(0.001, rel=0.2)
    assert later.count == 2
    assert later.seconds == pytest.approx(1.001)


def test_merged_snapshots_have_the_durations_of_both() -> None:
    one, other = LatencyHistogram(), LatencyHistogram()
    one.record(0.1)
    other.record(0.3)
    merged = one.snapshot(0.0).merged(other.snapshot(0.0))
    assert (merged.count, sum(merged.recent)) == (2, 2)
    assert merged.seconds == pytest.approx(0.4)


def test_with_zeros_lowers_the_quantiles_and_not_the_sum() -> None:
    histogram = LatencyHistogram()
    histogram.record(1.0)
    snapshot = histogram.snapshot(0.0).with_zeros(99, 99)
    assert (snapshot.count, snapshot.seconds, snapshot.quantile(0.5)) == (100, 1.0, 0.0)
    assert LatencySnapshot().with_zeros(1, 0).count == 1
