"""Formats numbers and metrics as Java does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ottla.metrics.metric import KafkaMetric, MetricName


def decimal(value: float, places: int) -> str:
    """Format a number with a fixed number of decimal places. Infinity and NaN have Java's names."""
    if math.isfinite(value):
        return f"{value:.{places}f}"
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def ratio(amount: float, divisor: float) -> float:
    """Divide like Java's doubles: a division by zero returns infinity, or NaN for an amount of zero. `amount` must not
    be negative.
    """
    if divisor:
        return amount / divisor
    return math.inf if amount else math.nan


def metrics_as_json(metrics: Mapping[MetricName, KafkaMetric]) -> dict[str, Any]:
    """Return the metrics' values by `group:name:{tags}`, sorted. Infinity and NaN become None."""
    values = _values(metrics)
    return {n: None if isinstance(v, float) and not math.isfinite(v) else v for n, v in values.items()}


def metric_lines(metrics: Mapping[MetricName, KafkaMetric]) -> list[str]:
    """Return the lines that `--print-metrics` prints: an empty one, and a table of the metrics by
    `group:name:{tags}`.
    """
    values = _values(metrics)
    width = max(map(len, values), default=0)
    rows = (f"{name:<{width}} : {_value(value)}" for name, value in values.items())
    return ["", f"{'Metric Name':<{width}}   Value", *rows]


def _values(metrics: Mapping[MetricName, KafkaMetric]) -> dict[str, Any]:
    return dict(sorted((_metric_name(name), metric.value()) for name, metric in metrics.items()))


def _metric_name(name: MetricName) -> str:
    tags = ", ".join(f"{key}={value}" for key, value in name.tags.items())
    return f"{name.group}:{name.name}:{{{tags}}}"


def _value(value: Any) -> str:
    return decimal(value, 3) if isinstance(value, float) else str(value)
