"""Ring buffers with the last 120 samples of each series (ten minutes by default): rates and lags in bounded memory.

`RateMeter` computes rates from counters.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from typing import Final, NamedTuple

CAPACITY: Final = 120
"""The number of samples that are kept of each series."""
MAX_SERIES: Final = 6_000
"""The maximum number of series in a ring. 6,000 series of 120 doubles take 6 MB."""


class Point(NamedTuple):
    """A sample: the time in seconds since 1970, and the value."""

    time: float
    value: float


class SampleRing:
    """A ring buffer of samples of several series at the same times. One thread writes; other threads may read."""

    def __init__(self, capacity: int = CAPACITY, max_series: int = MAX_SERIES) -> None:
        self._capacity = capacity
        self._max_series = max_series
        self._times = array("d", [math.nan]) * capacity
        self._series: dict[str, array[float]] = {}
        self._count = 0

    def append(self, time: float, values: Mapping[str, float]) -> None:
        """Add a sample with the values of the series. A series without a value in the whole ring is removed; new series
        beyond the maximum number are ignored.
        """
        index = self._count % self._capacity
        for name in [name for name in self._series if name not in values]:
            series = self._series[name]
            series[index] = math.nan
            if all(map(math.isnan, series)):
                del self._series[name]
        for name, value in values.items():
            if name not in self._series:
                if len(self._series) >= self._max_series:
                    continue
                self._series[name] = array("d", [math.nan]) * self._capacity
            self._series[name][index] = value
        self._times[index] = time
        self._count += 1

    @property
    def count(self) -> int:
        """The number of samples that were added, including those that have been overwritten."""
        return self._count

    def points(self, name: str) -> list[Point]:
        """Return the samples of a series, the oldest first."""
        series = self._series.get(name)
        if series is None:
            return []
        start = max(0, self._count - self._capacity)
        places = (i % self._capacity for i in range(start, self._count))
        return [Point(self._times[i], series[i]) for i in places if not math.isnan(series[i])]

    def latest(self, name: str) -> float | None:
        """Return the value of a series in the last sample, or None if it has none."""
        series = self._series.get(name)
        if series is None or not self._count:
            return None
        value = series[(self._count - 1) % self._capacity]
        return None if math.isnan(value) else value


class RateMeter:
    """Computes rates per topic from end offsets, or other counters, at two times."""

    def __init__(self) -> None:
        self._time = 0.0
        self._ends: Mapping[tuple[str, int], int] | None = None

    def rates(self, time: float, ends: Mapping[tuple[str, int], int]) -> dict[str, float] | None:
        """Return the rate per second since the last call, by topic. Return None for the first call, or if no time has
        passed.

        A partition that is in only one of the two calls is ignored.
        """
        seconds, before = time - self._time, self._ends
        self._time, self._ends = time, ends
        if before is None or seconds <= 0:
            return None
        counts: dict[str, int] = {}
        for tp, end in ends.items():
            previous = before.get(tp)
            if previous is not None:
                counts[tp[0]] = counts.get(tp[0], 0) + max(0, end - previous)
        return {topic: count / seconds for topic, count in counts.items()}
