"""Who is told of metrics. Kafka's `MetricsReporter`; two of our own are in `prometheus` and `logged`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ottla.metrics.metric import KafkaMetric

if TYPE_CHECKING:
    from ottla.metrics.registry import Metrics


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
