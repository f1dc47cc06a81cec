"""The queries as metrics: a gauge each, in `ottla.metrics`, so that every reporter knows them.

The names of lag are those of the metrics that Spark's Kafka connector reports, in Kafka's spelling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.metrics.metrics import Metrics
from ottla.spark.monitoring.history import RUNNING, Histories, QueryHistory
from ottla.spark.monitoring.progress import MicroBatch, total

NAMESPACE: Final = "ottla.spark"
GROUP: Final = "streaming-query-metrics"


class QueryMetric(NamedTuple):
    """A metric of every query."""

    name: str
    description: str
    value: Callable[[QueryHistory], float]


def _of_last(value: Callable[[MicroBatch], float]) -> Callable[[QueryHistory], float]:
    return lambda query: value(query.last) if query.last is not None else 0.0


def _lags(batch: MicroBatch) -> list[int]:
    return [lag for partitions in batch.behind.values() for lag in partitions.values()] or [0]


QUERY_METRICS: Final = (
    QueryMetric("running", "1 while the query runs, else 0.", lambda q: float(q.status == RUNNING)),
    QueryMetric("input-rows-total", "Rows read.", lambda q: q.rows),
    QueryMetric("micro-batches-total", "Micro-batches done.", lambda q: q.batches),
    QueryMetric("batch-id", "The id of the last micro-batch.", _of_last(lambda b: b.batch_id)),
    QueryMetric("batch-duration-ms", "How long the last micro-batch took.", _of_last(lambda b: b.milliseconds)),
    QueryMetric("input-rows-rate", "Rows that came in per second.", _of_last(lambda b: b.input_rows_per_second)),
    QueryMetric("processed-rows-rate", "Rows worked on per second.", _of_last(lambda b: b.rows_per_second)),
    QueryMetric("offsets-behind-latest", "Offsets not read yet, of all topics.", _of_last(lambda b: total(b.behind))),
    QueryMetric("min-offsets-behind-latest", "The same, of the first partition.", _of_last(lambda b: min(_lags(b)))),
    QueryMetric("max-offsets-behind-latest", "The same, of the last partition.", _of_last(lambda b: max(_lags(b)))),
    QueryMetric(
        "avg-offsets-behind-latest",
        "The same, on average over partitions.",
        _of_last(lambda b: sum(_lags(b)) / len(_lags(b))),
    ),
    QueryMetric("state-rows", "Rows that stateful operators keep.", lambda q: q.state.rows if q.state else 0),
    QueryMetric("state-memory-bytes", "Memory for them.", lambda q: q.state.memory_bytes if q.state else 0),
    QueryMetric("state-disk-bytes", "Files of RocksDB for them.", lambda q: q.state.disk_bytes if q.state else 0),
)
"""Every metric with the tag query; besides, offsets-behind-latest by topic and duration-ms by phase."""


class QueryMetrics:
    """Keeps a registry up to date. Called on the threads of Spark's events, one after the other."""

    def __init__(self, metrics: Metrics, histories: Histories) -> None:
        self._metrics = metrics
        self._histories = histories
        self._registered: set[tuple[str, ...]] = set()

    def update(self) -> None:
        """Add what is new: a query, a topic, a phase."""
        with self._histories.reading() as queries:
            labels = [(query, list(query.behind), list(query.durations_ms)) for query in queries]
        for query, topics, phases in labels:
            for metric in QUERY_METRICS:
                self._add(query, metric.name, metric.description, metric.value)
            for topic in topics:
                self._add(query, "offsets-behind-latest", "Offsets not read yet.", _behind(topic), topic=topic)
            for phase in phases:
                self._add(query, "duration-ms", "The last micro-batch's.", _duration(phase), phase=phase)

    def _add(
        self,
        query: QueryHistory,
        name: str,
        description: str,
        value: Callable[[QueryHistory], float],
        **tags: str,
    ) -> None:
        key = (query.name, name, *tags.values())
        if key in self._registered:
            return
        self._registered.add(key)
        label = query.name

        def gauge() -> float:
            # By name, so that a restarted query continues the same line of a chart.
            with self._histories.reading() as queries:
                return next((float(value(q)) for q in reversed(queries) if q.name == label), 0.0)

        self._metrics.add_metric(self._metrics.name(name, GROUP, description, query=label, **tags), gauge)


def _behind(topic: str) -> Callable[[QueryHistory], float]:
    return lambda query: query.behind.get(topic, 0)


def _duration(phase: str) -> Callable[[QueryHistory], float]:
    return _of_last(lambda batch: batch.durations_ms.get(phase, 0))
