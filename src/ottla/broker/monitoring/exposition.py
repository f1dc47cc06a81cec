"""Renders the metrics as text for Prometheus, in text format 0.0.4 or as OpenMetrics 1.0.0."""

from __future__ import annotations

import enum
import logging
import math
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Final

from ottla.broker.monitoring.metric import BrokerMetric, Kind, Labels, samples_of
from ottla.broker.monitoring.metric_table import METRICS
from ottla.broker.monitoring.scrape import Scrape
from ottla.latency import LatencySnapshot

log = logging.getLogger("ottla.metrics")

QUANTILES: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
"""The quantiles of Kafka's histograms, as the JMX exporter writes them."""
MILLISECONDS: Final = 1000


class TextFormat(enum.Enum):
    """A text format and its content type."""

    PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
    OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

    @classmethod
    def accepted(cls, accept: str) -> TextFormat:
        """Return OpenMetrics if the header Accept allows it by name and does not prefer plain text, else Prometheus'
        format.
        """
        weights = _weights(accept)
        open_metrics = weights.get("application/openmetrics-text", 0.0)
        plain = next((weights[name] for name in ("text/plain", "text/*", "*/*") if name in weights), 0.0)
        return cls.OPEN_METRICS if open_metrics > 0 and open_metrics >= plain else cls.PROMETHEUS


def _weights(accept: str) -> dict[str, float]:
    """Return the highest weight (q) of each media type in the header Accept."""
    weights: dict[str, float] = {}
    for entry in accept.lower().split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        weight = next((text.removeprefix("q=") for text in parameters if text.startswith("q=")), "1")
        with suppress(ValueError):
            weights[name] = max(weights.get(name, 0.0), float(weight))
    return weights


def lines(scrape: Scrape, text_format: TextFormat, names: Collection[str] = ()) -> Iterator[str]:
    """Yield the text in pieces with at most one value or summary each, so that the caller may pause after any of them.

    `names`: only these metrics; empty for all.
    """
    rendered: dict[tuple[Labels, Labels], str] = {}
    for metric in METRICS:
        if names and metric.name not in names:
            continue
        try:
            yield from _family(metric, scrape, text_format, rendered)
        except Exception:
            # a bug in one metric, or data that changes during a pause, must not hide the others
            log.exception("Cannot read the metric %s; this response lacks some or all of its values", metric.name)
    if text_format is TextFormat.OPEN_METRICS:
        yield "# EOF\n"


def _family(
    metric: BrokerMetric, scrape: Scrape, text_format: TextFormat, rendered: dict[tuple[Labels, Labels], str]
) -> Iterator[str]:
    """Yield the lines of one metric. `rendered`: cache of the texts of labels, which metrics have in common."""
    head, family = _head(metric, text_format), metric.name
    for values, value in samples_of(metric.source(scrape)):
        if head:
            yield head
            head = ""
        key = (metric.labels, values)
        labels = rendered.get(key)
        if labels is None:
            labels = rendered[key] = label_text(metric.labels, values)
        if isinstance(value, LatencySnapshot):
            yield _summary(metric, family, labels, value)
        else:
            yield f"{family}{{{labels}}} {number(value)}\n" if labels else f"{family} {number(value)}\n"


def _head(metric: BrokerMetric, text_format: TextFormat) -> str:
    name, kind = metric.name, metric.kind.value
    if metric.kind is Kind.SIZES:
        kind = Kind.SUMMARY.value
    if text_format is TextFormat.PROMETHEUS:
        kind = "untyped" if metric.kind is Kind.COUNT else kind
    elif metric.kind is Kind.COUNTER:
        name = name.removesuffix("_total")
    return f"# HELP {name} {metric.help}\n# TYPE {name} {kind}\n"


def _summary(metric: BrokerMetric, family: str, labels: str, value: LatencySnapshot) -> str:
    scale = 1 if metric.kind is Kind.SIZES else MILLISECONDS
    braces = f"{{{labels}}}" if labels else ""
    text = f"{family}_count{braces} {value.count}\n{family}_sum{braces} {number(value.seconds * scale)}\n"
    if not any(value.recent):
        return text
    comma = "," if labels else ""
    quantiles = (
        f'{family}{{{labels}{comma}quantile="{quantile}"}} {number(value.quantile(float(quantile)) * scale)}\n'
        for quantile in QUANTILES
    )
    return "".join(quantiles) + text


def label_text(names: Labels, values: Labels) -> str:
    """Return the labels of a sample, without braces; empty if it has none."""
    return ",".join(f'{name}="{escaped(value)}"' for name, value in zip(names, values, strict=bool(values)))


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    """Return a number in the format of both text formats."""
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.9g}"
