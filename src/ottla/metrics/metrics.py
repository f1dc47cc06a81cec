"""All metrics of one client, with those who report them. Kafka's `Metrics`.

Sensors and metrics are made and removed, recorded and read by any thread: one lock, held for additions, guards them
all. Recording happens once per batch and per request, mostly on the I/O thread, so nobody ever waits for it long.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.metrics.metric import Gauge, KafkaMetric, Measurable, MetricConfig, MetricName, RecordingLevel
from ottla.metrics.sensor import Sensor

log = logging.getLogger("ottla.metrics")


class MetricsReporter(Protocol):
    """A reporter of `metric.reporters`: made once per client, closed with it; any method may be left out.

    Called by the thread that makes or removes the metric; what it raises is logged. Values are read when it likes:
    `metric.value()`.
    """

    def configure(self, configs: Mapping[str, Any]) -> None:
        """The client's options by Kafka's names, as they were set; before `init`."""
        ...

    def init(self, metrics: Metrics) -> None:
        """The registry, before its first metric."""
        ...

    def metric_change(self, metric: KafkaMetric) -> None:
        """A metric is new."""
        ...

    def metric_removal(self, metric: KafkaMetric) -> None:
        """A metric is gone."""
        ...

    def close(self) -> None:
        """The client has ended."""
        ...


class Metrics:
    """The registry. `tags` (the client's id) belong to every name that `name()` makes."""

    def __init__(
        self,
        config: MetricConfig = MetricConfig(),  # noqa: B008  (frozen)
        *,
        reporters: Iterable[MetricsReporter] = (),
        clock: Clock = SYSTEM_CLOCK,
        namespace: str = "kafka",
        tags: Mapping[str, str] | None = None,
    ) -> None:
        self.config = config
        self.clock = clock
        self.namespace = namespace
        """Kafka's JMX domain, such as kafka.producer."""
        self.tags: Mapping[str, str] = dict(tags or {})
        self.reporters: list[MetricsReporter] = list(reporters)
        self._metrics: dict[MetricName, KafkaMetric] = {}
        self._sensors: dict[str, Sensor] = {}
        self._guard = threading.RLock()
        _live.add(self)
        for reporter in self.reporters:
            _notify(reporter, "init", self)
        self.add_metric(self.name("count", "kafka-metrics-count", "How many metrics there are."), self._count)

    def __repr__(self) -> str:
        return f"<Metrics {self.namespace} {len(self._metrics)}>"

    def renew_lock(self) -> None:
        """Free the lock, in a child after a fork."""
        self._guard._at_fork_reinit()  # type: ignore[attr-defined]  # what threading itself does there

    def _count(self) -> int:
        return len(self._metrics)

    @property
    def metrics(self) -> dict[MetricName, KafkaMetric]:
        """All metrics at this moment, by name."""
        with self._guard:
            return dict(self._metrics)

    def name(self, name: str, group: str, description: str = "", **tags: str) -> MetricName:
        """A name with the client's tags and `tags`, in which `_` stands for `-`."""
        own = {key.replace("_", "-"): value for key, value in tags.items()}
        return MetricName(name, group, description, {**self.tags, **own})

    def values(self) -> dict[str, dict[str, Any]]:
        """`{group: {name: value}}`, as kafka-python gives it.

        Tags other than the client's own follow the group after dots: `producer-topic-metrics.orders`.
        """
        values: dict[str, dict[str, Any]] = {}
        for name, metric in self.metrics.items():
            extra = [value for key, value in name.tags.items() if key not in self.tags]
            values.setdefault(".".join([name.group, *extra]), {})[name.name] = metric.value()
        return values

    # Sensors

    def sensor(
        self,
        name: str,
        level: RecordingLevel = RecordingLevel.INFO,
        parents: Sequence[Sensor] = (),
    ) -> Sensor:
        """The sensor of this name, made when it is new. What is given counts only then."""
        with self._guard:
            sensor = self._sensors.get(name)
            if sensor is None:
                sensor = self._sensors[name] = Sensor(self, self._guard, name, level, parents)
            return sensor

    def remove_sensor(self, name: str) -> None:
        """Remove a sensor with its metrics and the sensors that it is a parent of."""
        with self._guard:
            sensor = self._sensors.pop(name, None)
            if sensor is None:
                return
            for metric in sensor.metric_names:
                self.remove_metric(metric)
            for child in [s.name for s in self._sensors.values() if sensor in s.parents]:
                self.remove_sensor(child)

    # Metrics

    def add_metric(self, name: MetricName, source: Measurable | Gauge) -> KafkaMetric:
        """Register a metric; ValueError when there is one of this name."""
        metric = KafkaMetric(name, source, self.config, self.clock, self._guard)
        with self._guard:
            if name in self._metrics:
                raise ValueError(f"there is a metric {name} already")
            self._metrics[name] = metric
            for reporter in self.reporters:
                _notify(reporter, "metric_change", metric)
        return metric

    def remove_metric(self, name: MetricName) -> KafkaMetric | None:
        """Remove a metric; None when there was none."""
        with self._guard:
            metric = self._metrics.pop(name, None)
            if metric is not None:
                for reporter in self.reporters:
                    _notify(reporter, "metric_removal", metric)
        return metric

    def add_reporter(self, reporter: MetricsReporter) -> None:
        """Report to somebody else, too."""
        with self._guard:
            _notify(reporter, "init", self)
            self.reporters.append(reporter)
            for metric in self._metrics.values():
                _notify(reporter, "metric_change", metric)

    def close(self) -> None:
        """Tell the reporters that this is the end. Twice does no harm; values can still be read."""
        with self._guard:
            reporters, self.reporters = self.reporters, []
        for reporter in reporters:
            _notify(reporter, "close")


_live: weakref.WeakSet[Metrics] = weakref.WeakSet()


def _after_fork() -> None:
    """Whoever held a lock at a fork is not in the child, and would never give it back."""
    for metrics in _live:
        metrics.renew_lock()


os.register_at_fork(after_in_child=_after_fork)


def _notify(reporter: MetricsReporter, method: str, *args: Any) -> None:
    """Call a reporter; what it raises is logged and goes no further."""
    call = getattr(reporter, method, None)
    if call is None:
        return
    try:
        call(*args)
    except Exception:  # a user's code must never break a client
        log.exception("metric reporter %s.%s has failed", type(reporter).__name__, method)
