"""Metrics and their names, like Kafka's `MetricName`, `KafkaMetric` and `MetricConfig`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from ottla.clock import Clock


class RecordingLevel(enum.IntEnum):
    """The level of detail of a sensor. A sensor records if its level is not higher than `metrics.recording.level`."""

    INFO = 0
    DEBUG = 1
    TRACE = 2


class MetricConfig(NamedTuple):
    """The number and length of the windows for statistics over time, and the recording level."""

    samples: int = 2
    window_seconds: float = 30.0
    level: RecordingLevel = RecordingLevel.INFO


class MetricName:
    """The name of a metric. Name, group and tags identify the metric; the description does not."""

    __slots__ = ("_identity", "description", "group", "name", "tags")

    def __init__(self, name: str, group: str, description: str = "", tags: Mapping[str, str] | None = None) -> None:
        self.name: str = name
        self.group: str = group
        self.description: str = description
        self.tags: Mapping[str, str] = dict(tags or {})
        self._identity = (group, name, frozenset(self.tags.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MetricName) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"MetricName({self.name!r}, {self.group!r}, tags={dict(self.tags)})"


class Measurable(Protocol):
    """An object that computes the value of a metric."""

    def measure(self, config: MetricConfig, now: float) -> float:
        """Return the value at `now`, which is in seconds of a monotonic clock."""
        ...


Gauge = Callable[[], Any]
"""A function that returns the current value: a number, or a string such as a version."""


class KafkaMetric:
    """A metric of a `Metrics` object: its name, and the source of its value."""

    __slots__ = ("_clock", "_config", "_guard", "_source", "metric_name")

    def __init__(
        self,
        metric_name: MetricName,
        source: Measurable | Gauge,
        config: MetricConfig,
        clock: Clock,
        guard: Any,
    ) -> None:
        self.metric_name: MetricName = metric_name
        self._source = source
        self._config = config
        self._clock = clock
        self._guard = guard

    def __repr__(self) -> str:
        return f"<KafkaMetric {self.metric_name.group} {self.metric_name.name}>"

    @property
    def is_total(self) -> bool:
        """Whether the value is a sum or count since the start, so that it never decreases."""
        return bool(getattr(self._source, "only_grows", False))

    def value(self) -> Any:
        """Return the current value. An average, maximum or minimum without values is NaN. Thread-safe."""
        source = self._source
        if callable(source):
            return source()
        with self._guard:
            return source.measure(self._config, self._clock.monotonic())

    metric_value = value
