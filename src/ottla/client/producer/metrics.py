"""Producer metrics with Kafka's names, in the groups `producer-metrics` and `producer-topic-metrics`.

Most are recorded per batch and per request, in the event loop. Waits for memory and metadata, and records that fail
before they are in a batch, are recorded in the caller's thread. A record in a batch costs nothing: its size is counted
when its bytes are written to the batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from ottla.client.producer.batch import ProducerBatch
from ottla.client.producer.buffer_pool import BufferPool
from ottla.metrics.metric import Gauge, MetricName
from ottla.metrics.metrics import Metrics
from ottla.metrics.sensor import Sensor
from ottla.metrics.stats import Avg, CumulativeSum, Max, Meter, Rate

GROUP: Final = "producer-metrics"
TOPIC_GROUP: Final = "producer-topic-metrics"
TOPIC_SECONDS: Final = 3600.0
"""Time in seconds without a sent record after which the metrics of a topic are removed, when those of another topic are
created.
"""

TIMED: Final = {
    "flush": "flush()",
    "txn-init": "init_transactions()",
    "txn-begin": "begin_transaction()",
    "txn-send-offsets": "send_offsets_to_transaction()",
    "txn-commit": "commit_transaction()",
    "txn-abort": "abort_transaction()",
    "metadata-wait": "waiting for metadata of topics",
}
"""The operations whose total time is measured, in nanoseconds. The keys are the beginnings of metric names, the values
descriptions.
"""


class TopicSensors(NamedTuple):
    """The sensors of a topic: sent records and bytes, compression rate, retries and failures."""

    records: Sensor
    bytes: Sensor
    compression: Sensor
    retries: Sensor
    errors: Sensor


class ProducerMetrics:
    """The metrics of one producer, and those of its topics, which are created with their first batch."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self._topics: dict[str, TopicSensors] = {}
        self._batch_size = self._avg_and_max("batch-size", "size of a batch on the wire in bytes")
        self._queue_time = self._avg_and_max("record-queue-time", "time of a batch in the accumulator in ms")
        self._latency = self._avg_and_max("request-latency", "time of a request in ms")
        self._record_size = self._avg_and_max("record-size", "size of the largest record of a batch in bytes")
        self._throttled = self._avg_and_max("produce-throttle-time", "time a broker delayed a request in ms")
        self._compression = metrics.sensor("compression-rate")
        self._compression.add(self._name("compression-rate-avg", "The average compression rate of batches."), Avg())
        self._records = self._meter("record-send", "records sent")
        self._records.add(self._name("records-per-request-avg", "The average number of records in a request."), Avg())
        self._retries = self._meter("record-retry", "record retries")
        self._errors = self._meter("record-error", "records that failed")
        self._splits = self._meter("batch-split", "split batches")
        self.exhausted: Sensor = self._meter("buffer-exhausted", "records dropped because buffer.memory was exhausted")
        self._waited = metrics.sensor("bufferpool-wait-time")
        self._waited.add(
            self._name("bufferpool-wait-time-ns-total", "Nanoseconds spent waiting for memory."), CumulativeSum()
        )
        self._seconds_waited = metrics.sensor("bufferpool-wait-seconds")
        self._seconds_waited.add(
            self._name("bufferpool-wait-ratio", "The fraction of time spent waiting for memory."), Rate()
        )
        self._timers = {name: self._timer(name, of) for name, of in TIMED.items()}

    def _name(self, name: str, description: str) -> MetricName:
        return self.metrics.name(name, GROUP, description)

    def _avg_and_max(self, name: str, of: str) -> Sensor:
        sensor = self.metrics.sensor(name)
        sensor.add(self._name(f"{name}-avg", f"The average {of}."), Avg())
        sensor.add(self._name(f"{name}-max", f"The highest {of}."), Max())
        return sensor

    def _meter(self, name: str, of: str) -> Sensor:
        sensor = self.metrics.sensor(name)
        sensor.add_meter(
            Meter(
                self._name(f"{name}-rate", f"The number of {of} per second."),
                self._name(f"{name}-total", f"The number of {of}."),
            )
        )
        return sensor

    def _timer(self, name: str, of: str) -> Sensor:
        sensor = self.metrics.sensor(name)
        sensor.add(self._name(f"{name}-time-ns-total", f"The total time of {of} in ns."), CumulativeSum())
        return sensor

    # Gauges

    def watch_memory(self, pool: BufferPool) -> None:
        """Add gauges for the memory of the pool."""
        self._gauge("buffer-total-bytes", "The total memory for records in bytes.", lambda: pool.total)
        self._gauge("buffer-available-bytes", "The available memory for records in bytes.", lambda: pool.available)
        self._gauge("waiting-threads", "The number of callers that wait for memory.", lambda: pool.queued)

    def watch_requests(self, in_flight: Gauge, metadata_age: Gauge) -> None:
        """Add gauges for requests in flight and the age of the metadata in seconds."""
        self._gauge("requests-in-flight", "The number of requests in flight.", in_flight)
        self._gauge("metadata-age", "The age of the metadata in seconds.", metadata_age)

    def _gauge(self, name: str, description: str, source: Gauge) -> None:
        self.metrics.add_metric(self._name(name, description), source)

    # Recording

    def record_sent(self, batches: list[ProducerBatch], now: float) -> None:
        """Record a produce request with these encoded batches."""
        records = 0
        for batch in batches:
            count, size, rate = batch.count, batch.size, batch.compression_rate
            records += count
            topic = self._topic(batch.tp.topic)
            topic.records.record(count, now)
            topic.bytes.record(size, now)
            topic.compression.record(rate, now)
            self._batch_size.record(size, now)
            self._compression.record(rate, now)
            self._queue_time.record((now - batch.created) * 1000, now)
            self._record_size.record(batch.largest_record, now)
        self._records.record(records, now)

    def record_latency(self, latency_ms: float, throttle_ms: int, now: float) -> None:
        """Record the response to a produce request: its latency, and the throttle time that it contains."""
        self._latency.record(latency_ms, now)
        self._throttled.record(throttle_ms, now)

    def record_retry(self, batch: ProducerBatch) -> None:
        """Record the retry of a batch."""
        self._retries.record(batch.count)
        self._topic(batch.tp.topic).retries.record(batch.count)

    def record_failure(self, topic: str | None, count: int) -> None:
        """Record `count` failed records. `topic` is None if they failed before they were in a batch."""
        self._errors.record(count)
        if topic is not None:
            self._topic(topic).errors.record(count)

    def record_split(self) -> None:
        """Record the split of a batch."""
        self._splits.record()

    def values(self, raw: bool) -> dict[Any, Any]:
        """Return the metrics: `{group: {name: value}}`, or with `raw` `{MetricName: KafkaMetric}`."""
        return dict(self.metrics.metrics) if raw else dict(self.metrics.values())

    @contextmanager
    def waiting_for_memory(self) -> Iterator[None]:
        """Context manager: measure how long a caller waits for memory."""
        begin = time.monotonic()
        try:
            yield
        finally:
            seconds = time.monotonic() - begin
            self._waited.record(seconds * 1e9)
            self._seconds_waited.record(seconds)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Context manager: measure the time of an operation. `name` is a key of TIMED."""
        begin = time.monotonic_ns()
        try:
            yield
        finally:
            self._timers[name].record(time.monotonic_ns() - begin)

    # Topics

    def _topic(self, topic: str) -> TopicSensors:
        sensors = self._topics.get(topic)
        if sensors is None:
            self._forget_idle_topics()
            sensors = self._topics[topic] = self._of_new_topic(topic)
        return sensors

    def _of_new_topic(self, topic: str) -> TopicSensors:
        compression = self.metrics.sensor(f"topic.{topic}.compression-rate")
        of = "The average compression rate of batches."
        compression.add(self.metrics.name("compression-rate", TOPIC_GROUP, of, topic=topic), Avg())
        return TopicSensors(
            self._topic_meter(topic, "record-send", "records sent"),
            self._topic_meter(topic, "byte", "bytes sent"),
            compression,
            self._topic_meter(topic, "record-retry", "record retries"),
            self._topic_meter(topic, "record-error", "records that failed"),
        )

    def _topic_meter(self, topic: str, name: str, of: str) -> Sensor:
        sensor = self.metrics.sensor(f"topic.{topic}.{name}")
        rate = self.metrics.name(f"{name}-rate", TOPIC_GROUP, f"The number of {of} per second.", topic=topic)
        total = self.metrics.name(f"{name}-total", TOPIC_GROUP, f"The number of {of}.", topic=topic)
        sensor.add_meter(Meter(rate, total))
        return sensor

    def _forget_idle_topics(self) -> None:
        now = self.metrics.clock.monotonic()
        for topic, sensors in list(self._topics.items()):
            if sensors.records.idle_seconds(now) > TOPIC_SECONDS:
                del self._topics[topic]
                for sensor in sensors:
                    self.metrics.remove_sensor(sensor.name)
