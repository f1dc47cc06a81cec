"""Metrics and their names: Kafka's `MetricName`, `KafkaMetric` and `MetricConfig`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from ottla.clock import Clock


class RecordingLevel(enum.IntEnum):
    """Level of detail of a sensor, which records if its level is at most `metrics.recording.level`."""

    INFO = 0
    DEBUG = 1
    TRACE = 2


class MetricConfig(NamedTuple):
    """Number and length of the windows of sampled statistics."""

    samples: int = 2
    window_seconds: float = 30.0
    level: RecordingLevel = RecordingLevel.INFO


class MetricName:
    """Name, group and tags of a metric, which identify it, and a description, which does not."""

    __slots__ = ("_identity", "description", "group", "name", "tags")

    def __init__(self, name: str, group: str, description: str = "", tags: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.group = group
        self.description = description
        self.tags: Mapping[str, str] = dict(tags or {})
        self._identity = (group, name, frozenset(self.tags.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MetricName) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"MetricName({self.name!r}, {self.group!r}, tags={dict(self.tags)})"


class Measurable(Protocol):
    """The source of a metric's value."""

    def measure(self, config: MetricConfig, now: float) -> float:
        """Return the value at `now`, in seconds of the monotonic clock."""
        ...


Gauge = Callable[[], Any]
"""Returns the current value: a number, or a text such as a version."""


class KafkaMetric:
    """A registered metric."""

    __slots__ = ("_clock", "_config", "_guard", "_source", "metric_name")

    def __init__(
        self,
        metric_name: MetricName,
        source: Measurable | Gauge,
        config: MetricConfig,
        clock: Clock,
        guard: Any,
    ) -> None:
        self.metric_name = metric_name
        self._source = source
        self._config = config
        self._clock = clock
        self._guard = guard

    def __repr__(self) -> str:
        return f"<KafkaMetric {self.metric_name.group} {self.metric_name.name}>"

    @property
    def is_total(self) -> bool:
        """Whether the value only grows: a sum or count since the start."""
        return bool(getattr(self._source, "only_grows", False))

    def value(self) -> Any:
        """Return the current value, NaN for an average or extreme without samples. Thread-safe."""
        source = self._source
        if callable(source):
            return source()
        with self._guard:
            return source.measure(self._config, self._clock.monotonic())

    metric_value = value
