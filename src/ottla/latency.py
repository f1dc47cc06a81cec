"""A histogram of durations: counts per bucket, quantiles of the last minutes. Cheap enough for every request.

Recording is a bisection and two additions, without a lock. Threads other than the event loop's may record as well: an
addition that meets another one at the same time may be lost, which does not matter for a quantile.
"""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from typing import Final

STEP: Final = 2**0.25
SHORTEST_SECONDS: Final = 1e-5
BOUNDS: Final = tuple(SHORTEST_SECONDS * STEP**i for i in range(108))
"""Upper bounds of the buckets in seconds: from 10 microseconds to 20 minutes, each a fifth more than the last."""
BUCKETS: Final = len(BOUNDS) + 1
WINDOW_SECONDS: Final = 60.0
"""Quantiles are of the current window and the one before."""


@dataclass(frozen=True, slots=True)
class LatencySnapshot:
    """Durations at one moment: number and sum since the start, and the recent ones per bucket."""

    count: int = 0
    seconds: float = 0.0
    recent: tuple[int, ...] = (0,) * BUCKETS

    def merged(self, other: LatencySnapshot) -> LatencySnapshot:
        """Return the durations of both."""
        recent = tuple(a + b for a, b in zip(self.recent, other.recent, strict=True))
        return LatencySnapshot(self.count + other.count, self.seconds + other.seconds, recent)

    def with_zeros(self, count: int, recent: int) -> LatencySnapshot:
        """Return the durations with `count` more of 0 seconds, `recent` of them in the recent windows."""
        return LatencySnapshot(self.count + count, self.seconds, (self.recent[0] + recent, *self.recent[1:]))

    def quantile(self, fraction: float) -> float:
        """Return the duration that this fraction of the recent ones does not exceed; NaN without recent ones.

        It is exact to a fifth: linear within a bucket. What is below the first bound counts as 0.
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
    """Durations since the start, and those of the current window and the one before."""

    __slots__ = ("_began", "_counts", "_earlier", "_retired", "_seconds")

    def __init__(self) -> None:
        self._counts = [0] * BUCKETS
        self._earlier = [0] * BUCKETS
        self._retired = 0
        """The number of durations in windows before the last two."""
        self._seconds = 0.0
        self._began: float | None = None

    def record(self, seconds: float) -> None:
        """Add a duration."""
        self._counts[bisect(BOUNDS, seconds)] += 1
        self._seconds += seconds

    def snapshot(self, now: float) -> LatencySnapshot:
        """Return the durations; `now` in seconds of a monotonic clock. Begins a new window if the current one is over:
        windows are as long as the time between two snapshots, if nothing reads them more often.
        """
        if self._began is None:
            self._began = now
        elif now - self._began >= WINDOW_SECONDS:
            self._retired += sum(self._earlier)
            self._earlier, self._counts = self._counts, [0] * BUCKETS
            self._began = now
        recent = tuple(a + b for a, b in zip(self._earlier, self._counts, strict=True))
        return LatencySnapshot(self._retired + sum(recent), self._seconds, recent)
