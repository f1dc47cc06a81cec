"""Histograms of durations, with quantiles of the recent ones. They are cheap enough for every request.

Recording a duration takes a bisection and two additions, without a lock. Any thread may record. If two threads record
at the same time, one duration may be lost, which is acceptable for quantiles.
"""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from typing import Final

STEP: Final = 2**0.25
SHORTEST_SECONDS: Final = 1e-5
BOUNDS: Final = tuple(SHORTEST_SECONDS * STEP**i for i in range(108))
"""The upper bounds of the buckets in seconds, from 10 microseconds to almost 19 minutes. Each is 19 percent higher than
the one before. The last bucket, for longer durations, has no upper bound.
"""
BUCKETS: Final = len(BOUNDS) + 1
WINDOW_SECONDS: Final = 60.0
"""The minimum length of a window in seconds. Quantiles are computed over the current and the previous window."""


@dataclass(frozen=True, slots=True)
class LatencySnapshot:
    """The durations at one time: their number and sum since the start, and the recent ones by bucket."""

    count: int = 0
    seconds: float = 0.0
    recent: tuple[int, ...] = (0,) * BUCKETS

    def merged(self, other: LatencySnapshot) -> LatencySnapshot:
        """Return a snapshot with the durations of both."""
        recent = tuple(a + b for a, b in zip(self.recent, other.recent, strict=True))
        return LatencySnapshot(self.count + other.count, self.seconds + other.seconds, recent)

    def with_zeros(self, count: int, recent: int) -> LatencySnapshot:
        """Return a snapshot with `count` more durations of 0 seconds, of which `recent` are in the recent windows."""
        return LatencySnapshot(self.count + count, self.seconds, (self.recent[0] + recent, *self.recent[1:]))

    def quantile(self, fraction: float) -> float:
        """Return the duration in seconds that this fraction of the recent durations does not exceed. Return NaN if
        there are none.

        Between the first and the last bound, the error is at most 19 percent, because the value is interpolated between
        the bounds of a bucket. A duration below the first bound counts as 0, and one above the last bound as the last
        bound.
        """
        total = sum(self.recent)
        if not total:
            return float("nan")
        rank, before = fraction * total, 0
        for i, count in enumerate(self.recent):
            if count and before + count >= rank:
                if i == 0:
                    return 0.0
                lower, upper = BOUNDS[i - 1], BOUNDS[min(i, len(BOUNDS) - 1)]
                return lower + (upper - lower) * (rank - before) / count
            before += count
        return BOUNDS[-1]


class LatencyHistogram:
    """The durations since the start, and those of the current and the previous window."""

    __slots__ = ("_began", "_counts", "_earlier", "_retired", "_seconds")

    def __init__(self) -> None:
        self._counts = [0] * BUCKETS
        self._earlier = [0] * BUCKETS
        self._retired = 0
        """The number of durations before the previous window."""
        self._seconds = 0.0
        self._began: float | None = None

    def record(self, seconds: float) -> None:
        """Add a duration in seconds."""
        self._counts[bisect(BOUNDS, seconds)] += 1
        self._seconds += seconds

    def snapshot(self, now: float) -> LatencySnapshot:
        """Return a snapshot. `now` is the time in seconds of a monotonic clock.

        If the current window began at least WINDOW_SECONDS ago, this ends it and starts a new one.
        """
        if self._began is None:
            self._began = now
        elif now - self._began >= WINDOW_SECONDS:
            self._retired += sum(self._earlier)
            self._earlier, self._counts = self._counts, [0] * BUCKETS
            self._began = now
        recent = tuple(a + b for a, b in zip(self._earlier, self._counts, strict=True))
        return LatencySnapshot(self._retired + sum(recent), self._seconds, recent)
