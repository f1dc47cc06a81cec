"""A metric of the broker: a row of the table of metrics, and its name in Prometheus."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ottla.broker.monitoring.scrape import Scrape
from ottla.latency import LatencySnapshot

Labels = tuple[str, ...]
Value = int | float | LatencySnapshot
Samples = Iterable[tuple[Labels, Value]]
"""Pairs of label values and value. The label values () mean the sum over all labels, or that the metric has none."""
Source = Callable[[Scrape], Samples | int | float | None]
"""Returns a metric's samples; its value if it has no labels; None if this broker does not have the metric."""

NOT_IN_A_NAME: Final = re.compile(r"[^a-z0-9_]")
PER_SECOND: Final = "persec"


class Kind(enum.Enum):
    """The type of a metric in Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    """A `LatencySnapshot`, reported in milliseconds with count, sum and quantiles."""
    SIZES = "summary of sizes"
    """A `LatencySnapshot` whose sum is in bytes, without quantiles."""
    COUNT = "unknown"
    """A value that never decreases, but whose name does not end with `_total`, as OpenMetrics requires of counters."""


class BrokerMetric(NamedTuple):
    """One metric.

    `mbean`: a name like those of Kafka's MBeans: `domain:type=T`, with `,name=N` and `#attribute` if it has them. A
    metric that Kafka also has has Kafka's name; the domain `ottla` is for others. A name without a domain is the name
    in Prometheus.
    """

    mbean: str
    kind: Kind
    labels: Labels
    help: str
    source: Source

    @property
    def name(self) -> str:
        """The name in Prometheus, according to the usual rules of the JMX exporter for Kafka."""
        domain, colon, rest = self.mbean.partition(":")
        if not colon:
            return self.mbean
        rest, _, attribute = rest.partition("#")
        parts = dict(part.split("=", 1) for part in rest.split(","))
        words = [domain, parts["type"], parts.get("name", ""), attribute]
        name = NOT_IN_A_NAME.sub("_", "_".join(filter(None, words)).lower())
        if self.kind is Kind.COUNTER and name.endswith(PER_SECOND):
            return f"{name.removesuffix(PER_SECOND)}_total"
        return f"{name.removesuffix('percent')}_percent" if name.endswith("percent") else name


def samples_of(result: Samples | int | float | None) -> Samples:
    """Return the result of a source as samples."""
    if result is None:
        return ()
    return (((), result),) if isinstance(result, (int, float)) else result
