"""Metrics of streaming queries, as gauges in `ottla.metrics`, so that its reporters can be used.

The minimum, maximum and average lag of a query have the names of Spark's Kafka connector, in Kafka's spelling.
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
    """A metric that each query has: its name, its description, and the function that returns its value."""

    name: str
    description: str
    value: Callable[[QueryHistory], float]


def _of_last_batch(value: Callable[[MicroBatch], float]) -> Callable[[QueryHistory], float]:
    return lambda query: value(query.last) if query.last is not None else 0.0


def _lags(batch: MicroBatch) -> list[int]:
    return [lag for partitions in batch.behind.values() for lag in partitions.values()] or [0]


QUERY_METRICS: Final = (
    QueryMetric("running", "1 while the query runs, otherwise 0.", lambda q: float(q.status == RUNNING)),
    QueryMetric("input-rows-total", "The number of rows read.", lambda q: q.rows),
    QueryMetric("micro-batches-total", "The number of completed micro-batches.", lambda q: q.batches),
    QueryMetric("batch-id", "The id of the last micro-batch.", _of_last_batch(lambda b: b.batch_id)),
    QueryMetric(
        "batch-duration-ms", "The duration of the last micro-batch in ms.", _of_last_batch(lambda b: b.milliseconds)
    ),
    QueryMetric(
        "input-rows-rate",
        "The number of rows that arrived per second before the last micro-batch.",
        _of_last_batch(lambda b: b.input_rows_per_second),
    ),
    QueryMetric(
        "processed-rows-rate",
        "The number of rows processed per second in the last micro-batch.",
        _of_last_batch(lambda b: b.rows_per_second),
    ),
    QueryMetric(
        "offsets-behind-latest",
        "The number of unread offsets of all topics.",
        _of_last_batch(lambda b: total(b.behind)),
    ),
    QueryMetric(
        "min-offsets-behind-latest",
        "The smallest number of unread offsets of a partition.",
        _of_last_batch(lambda b: min(_lags(b))),
    ),
    QueryMetric(
        "max-offsets-behind-latest",
        "The largest number of unread offsets of a partition.",
        _of_last_batch(lambda b: max(_lags(b))),
    ),
    QueryMetric(
        "avg-offsets-behind-latest",
        "The average number of unread offsets of a partition.",
        _of_last_batch(lambda b: sum(_lags(b)) / len(_lags(b))),
    ),
    QueryMetric(
        "state-rows", "The number of rows in the state of stateful operators.", lambda q: q.state.rows if q.state else 0
    ),
    QueryMetric(
        "state-memory-bytes",
        "The memory used for the state, in bytes.",
        lambda q: q.state.memory_bytes if q.state else 0,
    ),
    QueryMetric(
        "state-disk-bytes",
        "The size of RocksDB's files for the state, in bytes.",
        lambda q: q.state.disk_bytes if q.state else 0,
    ),
)
"""The metrics of each query, with the tag query. In addition, each topic has offsets-behind-latest with the tags query
and topic, and each phase has duration-ms with the tags query and phase.
"""


class QueryMetrics:
    """Registers the metrics of queries. The threads that deliver Spark's events call it, one after the other."""

    def __init__(self, metrics: Metrics, histories: Histories) -> None:
        self._metrics = metrics
        self._histories = histories
        self._registered: set[tuple[str, ...]] = set()

    def update(self) -> None:
        """Register the metrics of new queries, topics and phases."""
        with self._histories.reading() as queries:
            labels = [(query, list(query.behind), list(query.durations_ms)) for query in queries]
        for query, topics, phases in labels:
            for metric in QUERY_METRICS:
                self._add(query, metric.name, metric.description, metric.value)
            for topic in topics:
                self._add(
                    query,
                    "offsets-behind-latest",
                    "The number of unread offsets of the topic.",
                    _behind(topic),
                    topic=topic,
                )
            for phase in phases:
                self._add(
                    query,
                    "duration-ms",
                    "The duration of a phase of the last micro-batch in ms.",
                    _duration(phase),
                    phase=phase,
                )

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
    return _of_last_batch(lambda batch: batch.durations_ms.get(phase, 0))
