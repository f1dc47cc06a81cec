"""A sensor: what is recorded there goes to all its metrics, and to its parents'. Kafka's `Sensor`."""

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
    """Belongs to one registry, whose lock it takes; any thread may record."""

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
        """What to call with each value; bound once, as this runs for every batch and request."""
        self._last_used = metrics.clock.monotonic()

    def __repr__(self) -> str:
        return f"<Sensor {self.name}>"

    @property
    def should_record(self) -> bool:
        """Whether its level is recorded at all."""
        return self._records

    @property
    def metric_names(self) -> tuple[MetricName, ...]:
        """The metrics that it feeds."""
        return tuple(self._stats)

    def add(self, name: MetricName, stat: Stat) -> None:
        """Feed another metric; the same name twice does no harm."""
        if name in self._stats:
            return
        self._metrics.add_metric(name, stat)
        self._stats[name] = stat
        self._recorders = (*self._recorders, stat.record)

    def add_meter(self, meter: Meter) -> None:
        """Feed a rate and a total."""
        for name, stat in meter.stats():
            self.add(name, stat)

    def record(self, value: float = 1.0, now: float | None = None) -> None:
        """Take a value, at `now` in seconds of the registry's monotonic clock (the present, when left out)."""
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
        """How long nothing was recorded here; whoever makes sensors without end removes those that nobody uses."""
        return now - self._last_used
