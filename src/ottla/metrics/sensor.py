"""Sensors, which pass each recorded value to their statistics and parent sensors, like Kafka's `Sensor`."""

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
    """Passes each recorded value to its statistics and to its parents. `record` is thread-safe: it holds the lock of
    the `Metrics` object.
    """

    __slots__ = ("_guard", "_last_used", "_metrics", "_recorders", "_records", "_stats", "name", "parents")

    def __init__(
        self,
        metrics: SensorOwner,
        guard: Any,
        name: str,
        level: RecordingLevel,
        parents: Sequence[Sensor],
    ) -> None:
        self.name: str = name
        self.parents: tuple[Sensor, ...] = tuple(parents)
        self._metrics = metrics
        self._guard = guard
        self._records = level <= metrics.config.level
        self._stats: dict[MetricName, Stat] = {}
        self._recorders: tuple[Callable[[MetricConfig, float, float], None], ...] = ()
        """The bound `record` methods of the statistics. They are stored, because `record` is called for each batch and
        request.
        """
        self._last_used = metrics.clock.monotonic()

    def __repr__(self) -> str:
        return f"<Sensor {self.name}>"

    @property
    def should_record(self) -> bool:
        """Whether the recording level includes this sensor. If not, `record` does nothing."""
        return self._records

    @property
    def metric_names(self) -> tuple[MetricName, ...]:
        """The names of the sensor's metrics."""
        return tuple(self._stats)

    def add(self, name: MetricName, stat: Stat) -> None:
        """Add a statistic as a metric. Do nothing if the sensor already has a metric of this name. Raises ValueError if
        another metric has the name.
        """
        if name in self._stats:
            return
        self._metrics.add_metric(name, stat)
        self._stats[name] = stat
        self._recorders = (*self._recorders, stat.record)

    def add_meter(self, meter: Meter) -> None:
        """Add the rate and the total of a meter."""
        for name, stat in meter.stats():
            self.add(name, stat)

    def record(self, value: float = 1.0, now: float | None = None) -> None:
        """Record a value. `now` is the time in seconds of a monotonic clock; the default is the current time."""
        if self._records:
            at = self._metrics.clock.monotonic() if now is None else now
            with self._guard:  # as in _record, without its call: clients record 15 values for each batch
                self._last_used = at
                config = self._metrics.config
                for record in self._recorders:
                    record(config, value, at)
                for parent in self.parents:
                    parent._record(value, at)

    def _record(self, value: float, now: float) -> None:
        self._last_used = now
        config = self._metrics.config
        for record in self._recorders:
            record(config, value, now)
        for parent in self.parents:
            parent._record(value, now)

    def idle_seconds(self, now: float) -> float:
        """Return the seconds since the last record or, if there is none, since the creation of the sensor. `now` is in
        seconds of a monotonic clock.
        """
        return now - self._last_used
