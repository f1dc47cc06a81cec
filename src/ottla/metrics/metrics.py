"""A registry of metrics, and the reporters that publish them, like Kafka's `Metrics`.

Any thread may create, remove, record and read sensors and metrics. Each `Metrics` object has one lock for them. To
record a value, a sensor holds it only for a few additions.
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
    """The protocol of the reporters in `metric.reporters`: classes, of which each client or broker creates an instance,
    or objects. All methods are optional.

    `metric_change` and `metric_removal` are called in the thread that adds or removes the metric, or adds the reporter.
    An exception of `configure` makes the creation of the client, or the start of the broker, fail; those of the other
    methods are logged. A reporter calls `metric.value()` when it needs a value.
    """

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Configure the reporter with the configs that were passed to the client or broker, by their Kafka names. Those
        of a client always include client.id. Called before `init`.
        """
        ...

    def init(self, metrics: Metrics) -> None:
        """Initialize the reporter with the metrics to report. Called before `metric_change`."""
        ...

    def metric_change(self, metric: KafkaMetric) -> None:
        """Handle the addition of a metric."""
        ...

    def metric_removal(self, metric: KafkaMetric) -> None:
        """Handle the removal of a metric."""
        ...

    def close(self) -> None:
        """Release resources, because the `Metrics` object is closed."""
        ...


class Metrics:
    """The sensors and metrics of a client, a broker or a query monitor. `tags` (such as the client id) are added to
    every name that `name()` returns.
    """

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
        """The prefix of the names in Prometheus' format, such as kafka.producer. In Kafka it is the JMX domain."""
        self.tags: Mapping[str, str] = dict(tags or {})
        self.reporters: list[MetricsReporter] = list(reporters)
        self._metrics: dict[MetricName, KafkaMetric] = {}
        self._sensors: dict[str, Sensor] = {}
        self._guard = threading.RLock()
        _live.add(self)
        for reporter in self.reporters:
            _notify(reporter, "init", self)
        self.add_metric(self.name("count", "kafka-metrics-count", "Number of metrics."), self._count)

    def __repr__(self) -> str:
        return f"<Metrics {self.namespace} {len(self._metrics)}>"

    def renew_lock(self) -> None:
        """Reset the lock. Called in a child process after a fork."""
        self._guard._at_fork_reinit()  # type: ignore[attr-defined]  # threading does the same

    def _count(self) -> int:
        return len(self._metrics)

    @property
    def metrics(self) -> dict[MetricName, KafkaMetric]:
        """A new dictionary of all metrics by name."""
        with self._guard:
            return dict(self._metrics)

    def name(self, name: str, group: str, description: str = "", **tags: str) -> MetricName:
        """Return a metric name with the client's tags and `tags`. In the names of these, `_` is replaced by `-`."""
        own = {key.replace("_", "-"): value for key, value in tags.items()}
        return MetricName(name, group, description, {**self.tags, **own})

    def values(self) -> dict[str, dict[str, Any]]:
        """Return the values as `{group: {name: value}}`, as in kafka-python.

        The values of tags other than the client's tags are appended to the group name after a dot:
        `producer-topic-metrics.orders`.
        """
        values: dict[str, dict[str, Any]] = {}
        for name, metric in self.metrics.items():
            extra = [value for key, value in name.tags.items() if key not in self.tags]
            values.setdefault(".".join([name.group, *extra]), {})[name.name] = metric.value()
        return values

    def sensor(
        self,
        name: str,
        level: RecordingLevel = RecordingLevel.INFO,
        parents: Sequence[Sensor] = (),
    ) -> Sensor:
        """Return the sensor with this name, which is created if it does not exist. The other arguments are ignored if
        it exists.
        """
        with self._guard:
            sensor = self._sensors.get(name)
            if sensor is None:
                sensor = self._sensors[name] = Sensor(self, self._guard, name, level, parents)
            return sensor

    def remove_sensor(self, name: str) -> None:
        """Remove a sensor, its metrics and its child sensors. Do nothing if it does not exist."""
        with self._guard:
            sensor = self._sensors.pop(name, None)
            if sensor is None:
                return
            for metric in sensor.metric_names:
                self.remove_metric(metric)
            for child in [s.name for s in self._sensors.values() if sensor in s.parents]:
                self.remove_sensor(child)

    def add_metric(self, name: MetricName, source: Measurable | Gauge) -> KafkaMetric:
        """Register a metric and return it. Raises ValueError if the name is in use."""
        metric = KafkaMetric(name, source, self.config, self.clock, self._guard)
        with self._guard:
            if name in self._metrics:
                raise ValueError(f"a metric named {name} already exists")
            self._metrics[name] = metric
            for reporter in self.reporters:
                _notify(reporter, "metric_change", metric)
        return metric

    def remove_metric(self, name: MetricName) -> KafkaMetric | None:
        """Remove a metric and return it, or None if it does not exist."""
        with self._guard:
            metric = self._metrics.pop(name, None)
            if metric is not None:
                for reporter in self.reporters:
                    _notify(reporter, "metric_removal", metric)
        return metric

    def add_reporter(self, reporter: MetricsReporter) -> None:
        """Add a reporter, and pass all existing metrics to it."""
        with self._guard:
            _notify(reporter, "init", self)
            self.reporters.append(reporter)
            for metric in self._metrics.values():
                _notify(reporter, "metric_change", metric)

    def close(self) -> None:
        """Close the reporters. Values can still be read. May be called repeatedly."""
        with self._guard:
            reporters, self.reporters = self.reporters, []
        for reporter in reporters:
            _notify(reporter, "close")


_live: weakref.WeakSet[Metrics] = weakref.WeakSet()


def _after_fork() -> None:
    """Reset the locks. A lock that another thread held during the fork would never be released in the child process."""
    for metrics in _live:
        metrics.renew_lock()


os.register_at_fork(after_in_child=_after_fork)


def _notify(reporter: MetricsReporter, method: str, *args: Any) -> None:
    """Call a method of a reporter if it exists. Exceptions are logged."""
    call = getattr(reporter, method, None)
    if call is None:
        return
    try:
        call(*args)
    except Exception:  # the reporter may raise any exception
        log.exception("Metrics reporter %s failed in %s(); ignoring the exception", type(reporter).__name__, method)
