"""A sensor passes each recorded value to its statistics and to its parent sensors. Kafka's `Sensor`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ottla.clock import Clock
from ottla.metrics.metric import KafkaMetric, MetricConfig, MetricName, RecordingLevel
from ottla.metrics.stats import Meter, Stat


class SensorOwner(Protocol):
    """The part of `Metrics` that a sensor uses."""

    config: MetricConfig
    clock: Clock

    def add_metric(self, name: MetricName, source: Stat) -> KafkaMetric: ...


class Sensor:
    """A sensor of one `Metrics` object, whose lock it uses, so any thread may record."""

    __slots__ = ("_guard", "_last_used", "_metrics", "_recorders", "_records", "_stats", "name", "parents")

    def __init__(
        self,
        metrics: SensorOwner,
        guard: Any,
        name: str,
        level: RecordingLevel,
        parents: Sequence[Sensor],
    ) -> None:
        self.name = name
        self.parents = tuple(parents)
        self._metrics = metrics
        self._guard = guard
        self._records = level <= metrics.config.level
        self._stats: dict[MetricName, Stat] = {}
        self._recorders: tuple[Callable[[MetricConfig, float, float], None], ...] = ()
        """The bound `record` methods of the statistics, as `record` runs for every batch and request."""
        self._last_used = metrics.clock.monotonic()

    def __repr__(self) -> str:
        return f"<Sensor {self.name}>"

    @property
    def should_record(self) -> bool:
        """Whether the sensor's level is recorded."""
        return self._records

    @property
    def metric_names(self) -> tuple[MetricName, ...]:
        """The names of the sensor's metrics."""
        return tuple(self._stats)

    def add(self, name: MetricName, stat: Stat) -> None:
        """Add a statistic as a metric. Idempotent."""
        if name in self._stats:
            return
        self._metrics.add_metric(name, stat)
        self._stats[name] = stat
        self._recorders = (*self._recorders, stat.record)

    def add_meter(self, meter: Meter) -> None:
        """Add a rate and a total."""
        for name, stat in meter.stats():
            self.add(name, stat)

    def record(self, value: float = 1.0, now: float | None = None) -> None:
        """Record a value at `now`, in seconds of the monotonic clock (default: the current time)."""
        if self._records:
            at = self._metrics.clock.monotonic() if now is None else now
            with self._guard:
                self._record(value, at)

    def _record(self, value: float, now: float) -> None:
        self._last_used = now
        config = self._metrics.config
        for record in self._recorders:
            record(config, value, now)
        for parent in self.parents:
            parent._record(value, now)

    def idle_seconds(self, now: float) -> float:
        """Return the time since the last record, by which owners of many short-lived sensors expire them."""
        return now - self._last_used
