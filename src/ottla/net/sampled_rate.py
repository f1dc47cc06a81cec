"""A rate over sampled windows of time, as Kafka's quotas measure it."""

from __future__ import annotations

from collections import deque


class SampledRate:
    """The rate per second over the last `windows` windows of `window_seconds` each. Kafka's SampledStat.

    The sum is divided by the elapsed time, but at least by the length of all windows but one, or of a single window, so
    that the first request of an idle client does not look like a burst.
    """

    __slots__ = ("_samples", "_total", "window_seconds", "windows")

    def __init__(self, windows: int, window_seconds: float = 1.0) -> None:
        self.windows = windows
        self.window_seconds = window_seconds
        self._samples: deque[tuple[float, float]] = deque()
        self._total = 0.0

    def add(self, amount: float, now: float) -> None:
        """Add `amount` at time `now`, in seconds of a monotonic clock."""
        self._forget(now)
        if self._samples and now - self._samples[-1][0] < self.window_seconds:
            began, sum_ = self._samples[-1]
            self._samples[-1] = (began, sum_ + amount)
        else:
            self._samples.append((now, amount))
        self._total += amount

    def per_second(self, now: float) -> float:
        self._forget(now)
        return self._total / self._span(now) if self._samples else 0.0

    def wait_seconds(self, bound: float, now: float) -> float:
        """Return the delay in seconds that KIP-13 prescribes for a client whose rate is above `bound`: the time by
        which the measured period would have to be longer for the rate to be `bound`; the length of all windows if
        `bound` is not positive. Return 0 if the rate is not above `bound`.
        """
        self._forget(now)
        if not self._samples or self._total <= 0:
            return 0.0
        span = self._span(now)
        if self._total / span <= bound:
            return 0.0
        whole = self.windows * self.window_seconds
        return whole if bound <= 0 else self._total / bound - span

    def _span(self, now: float) -> float:
        least = (self.windows - 1) * self.window_seconds
        return max(now - self._samples[0][0], least, self.window_seconds)

    def _forget(self, now: float) -> None:
        horizon = now - self.windows * self.window_seconds
        samples = self._samples
        while samples and samples[0][0] <= horizon:
            self._total -= samples.popleft()[1]
