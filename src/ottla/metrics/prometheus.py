"""Metrics in Prometheus' text format. The names are those of Prometheus' JMX exporter for Kafka's Java clients.

An example is `kafka_producer_producer_metrics_record_send_total{client_id="producer-1"} 7.0`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.metrics.metric import KafkaMetric, MetricName

if TYPE_CHECKING:
    from ottla.metrics.metrics import Metrics

NOT_IN_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")


class PrometheusReporter:
    """A metrics reporter whose `text()` an HTTP endpoint of the application can return. Several clients can share one
    reporter.
    """

    def __init__(self) -> None:
        self._registries: list[Metrics] = []

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Do nothing: the reporter has no configs."""

    def init(self, metrics: Metrics) -> None:
        """Add a `Metrics` object, and drop closed ones, which have no reporters any more."""
        self._registries = [other for other in self._registries if other.reporters]
        self._registries.append(metrics)

    def metric_change(self, metric: KafkaMetric) -> None:
        """Do nothing, because `text` reads all metrics."""

    def metric_removal(self, metric: KafkaMetric) -> None:
        """Do nothing, because `text` reads all metrics."""

    def close(self) -> None:
        """Do nothing: the last values of a closed client can be read until another client is added."""

    def text(self) -> str:
        """Return the clients' metrics in Prometheus' text format, version 0.0.4. They include the last values of a
        closed client until another client is added.
        """
        return text_of(self._registries)


def text_of(registries: Iterable[Metrics]) -> str:
    """Return metrics in Prometheus' text format. Metrics whose values are not numbers are omitted."""
    families: dict[str, list[str]] = {}
    heads: dict[str, MetricName] = {}
    for registry in registries:
        for name, metric in registry.metrics.items():
            value = metric.value()
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            family = family_of(registry.namespace, name)
            heads.setdefault(family, name)
            families.setdefault(family, []).append(f"{family}{_labels(name.tags)} {_number(value)}\n")
    return "".join(_head(family, heads[family]) + "".join(rows) for family, rows in sorted(families.items()))


def family_of(namespace: str, name: MetricName) -> str:
    """Return the name of the metric family: namespace, group and name, with `_` between them and instead of all
    characters that are neither letters nor digits.
    """
    return NOT_IN_A_NAME.sub("_", f"{namespace}_{name.group}_{name.name}")


def _head(family: str, name: MetricName) -> str:
    kind = "counter" if name.name.endswith("-total") else "gauge"
    description = name.description.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {family} {description}\n# TYPE {family} {kind}\n"


def _labels(tags: Mapping[str, str]) -> str:
    if not tags:
        return ""
    return "{" + ",".join(f'{NOT_IN_A_NAME.sub("_", key)}="{_escaped(value)}"' for key, value in tags.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))
