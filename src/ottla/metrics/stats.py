"""Statistics of recorded values, as in Kafka's `org.apache.kafka.common.metrics.stats`.

Statistics over time have the values of the last `metrics.num.samples` windows, each `metrics.sample.window.ms` long. A
window starts with the first value after the end of the previous one. It expires when the age of its last value reaches
the length of all windows together. Callers must hold the lock of the sensor.
"""

from __future__ import annotations

import abc
import math
from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

from ottla.metrics.metric import MetricConfig, MetricName


class Stat(Protocol):
    """A statistic of recorded values."""

    def record(self, config: MetricConfig, value: float, now: float) -> None: ...

    def measure(self, config: MetricConfig, now: float) -> float: ...


class Sample:
    """One window: the times of its first and last value, the number of values, and their sum, maximum or minimum."""

    __slots__ = ("count", "last", "start", "value")

    def __init__(self, start: float, value: float) -> None:
        self.start = start
        self.last = start
        self.count = 0
        self.value = value


class Sampled(abc.ABC):
    """Base class of statistics over the last windows."""

    initial = 0.0

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque()
        self._open = Sample(0.0, 0.0)
        self._open_until = -math.inf

    @abc.abstractmethod
    def record(self, config: MetricConfig, value: float, now: float) -> None: ...

    def _next_sample(self, config: MetricConfig, now: float) -> Sample:
        """Start a new window. If there are too many, drop the oldest one.

        The `record` methods update the window themselves, because calling a method for each value would take longer.
        """
        if len(self._samples) >= config.samples:
            self._samples.popleft()
        self._open = Sample(now, self.initial)
        self._open_until = now + config.window_seconds
        self._samples.append(self._open)
        return self._open

    def alive(self, config: MetricConfig, now: float) -> deque[Sample]:
        """Remove the windows that have expired, and return the others."""
        samples = self._samples
        oldest = now - config.samples * config.window_seconds
        while samples and samples[0].last <= oldest:
            samples.popleft()
        return samples

    def measure(self, config: MetricConfig, now: float) -> float:
        return self._together(self.alive(config, now))

    @abc.abstractmethod
    def _together(self, samples: deque[Sample]) -> float:
        """Return the value of the statistic for these windows."""


class WindowedSum(Sampled):
    """The sum of the values in the last windows."""

    def record(self, config: MetricConfig, value: float, now: float) -> None:
        sample = self._open if now < self._open_until else self._next_sample(config, now)
        sample.count += 1
        sample.last = now
        sample.value += value

    def _together(self, samples: deque[Sample]) -> float:
        return sum(sample.value for sample in samples)


class WindowedCount(WindowedSum):
    """The number of values in the last windows."""

    def record(self, config: MetricConfig, value: float, now: float) -> None:
        sample = self._open if now < self._open_until else self._next_sample(config, now)
        sample.count += 1
        sample.last = now
        sample.value += 1.0


class Avg(WindowedSum):
    """The mean of the values in the last windows; NaN if there are none."""

    def _together(self, samples: deque[Sample]) -> float:
        count = sum(sample.count for sample in samples)
        return super()._together(samples) / count if count else math.nan


class Max(Sampled):
    """The maximum of the values in the last windows; NaN if there are none."""

    initial = -math.inf

    def record(self, config: MetricConfig, value: float, now: float) -> None:
        sample = self._open if now < self._open_until else self._next_sample(config, now)
        sample.count += 1
        sample.last = now
        if value > sample.value:
            sample.value = value

    def _together(self, samples: deque[Sample]) -> float:
        return max((sample.value for sample in samples), default=math.nan)


class Min(Sampled):
    """The minimum of the values in the last windows; NaN if there are none."""

    initial = math.inf

    def record(self, config: MetricConfig, value: float, now: float) -> None:
        sample = self._open if now < self._open_until else self._next_sample(config, now)
        sample.count += 1
        sample.last = now
        if value < sample.value:
            sample.value = value

    def _together(self, samples: deque[Sample]) -> float:
        return min((sample.value for sample in samples), default=math.nan)


LEAST_WINDOW_SECONDS: Final = 0.001
"""The minimum length in seconds by which the value of a rate is divided."""


class Rate:
    """A statistic over the last windows, divided by their length in seconds. The default is a sum.

    Windows that do not exist yet count with their full length, so that the first values do not cause a high rate.
    """

    def __init__(self, stat: Sampled | None = None) -> None:
        self._stat = stat or WindowedSum()
        self.record = self._stat.record

    def measure(self, config: MetricConfig, now: float) -> float:
        samples = self._stat.alive(config, now)
        elapsed = now - samples[0].start if samples else 0.0
        missing = config.samples - 1 - math.floor(elapsed / config.window_seconds) if config.window_seconds else 0
        elapsed += max(0, missing) * config.window_seconds
        return self._stat.measure(config, now) / max(elapsed, LEAST_WINDOW_SECONDS)


class CumulativeSum:
    """The sum of all values since the start."""

    only_grows = True

    def __init__(self, value: float = 0.0) -> None:
        self._value = value

    def record(self, config: MetricConfig, value: float, now: float) -> None:
        self._value += value

    def measure(self, config: MetricConfig, now: float) -> float:
        return self._value


class CumulativeCount(CumulativeSum):
    """The number of all values since the start."""

    def record(self, config: MetricConfig, value: float, now: float) -> None:
        self._value += 1.0


class Value(CumulativeSum):
    """The last recorded value; 0.0 before the first one."""

    only_grows = False

    def record(self, config: MetricConfig, value: float, now: float) -> None:
        self._value = value


class Meter:
    """A rate and a total of the same values or, with `counts`, of their number."""

    def __init__(self, rate: MetricName, total: MetricName, *, counts: bool = False) -> None:
        self._rate = rate
        self._total = total
        self._counts = counts

    def stats(self) -> Iterator[tuple[MetricName, Stat]]:
        """Yield both statistics with their metric names."""
        yield self._rate, Rate(WindowedCount() if self._counts else None)
        yield self._total, CumulativeCount() if self._counts else CumulativeSum()
