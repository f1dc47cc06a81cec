"""Metrics of clients: names, sensors, recording levels and reporters."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ottla.clock import ManualClock
from ottla.metrics.metric import KafkaMetric, MetricConfig, MetricName, RecordingLevel
from ottla.metrics.metrics import Metrics
from ottla.metrics.stats import Avg, CumulativeSum, Max, Meter


class Reporter:
    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def configure(self, configs: Any) -> None:
        pass

    def init(self, metrics: Metrics) -> None:
        self.calls.append(("init", metrics.namespace))

    def metric_change(self, metric: KafkaMetric) -> None:
        self.calls.append(("change", metric.metric_name.name))

    def metric_removal(self, metric: KafkaMetric) -> None:
        self.calls.append(("removal", metric.metric_name.name))

    def close(self) -> None:
        self.calls.append(("close", None))


def registry(**more: Any) -> Metrics:
    return Metrics(MetricConfig(2, 10.0), clock=ManualClock(), tags={"client-id": "me"}, **more)


def test_metric_names_are_compared_by_name_group_and_tags() -> None:
    assert MetricName("a", "g", "one", {"x": "1"}) == MetricName("a", "g", "other", {"x": "1"})
    assert (
        len({MetricName("a", "g"), MetricName("a", "h"), MetricName("b", "g"), MetricName("a", "g", "", {"x": "1"})})
        == 4
    )


def test_sensor_updates_its_metrics_and_its_parents() -> None:
    metrics = registry()
    parent = metrics.sensor("all")
    parent.add(metrics.name("all-total", "g"), CumulativeSum())
    sensor = metrics.sensor("one", parents=[parent])
    sensor.add(metrics.name("avg", "g"), Avg())
    sensor.add(metrics.name("max", "g"), Max())
    sensor.add_meter(Meter(metrics.name("rate", "g"), metrics.name("total", "g")))
    assert metrics.sensor("one") is sensor
    sensor.record(2)
    sensor.record(4)
    actual = metrics.values()["g"]
    assert actual == {"all-total": 6.0, "avg": 3.0, "max": 4.0, "rate": 0.6, "total": 6.0}


def test_values_are_grouped_by_group_and_tags() -> None:
    metrics = registry()
    metrics.add_metric(metrics.name("n", "node-metrics", node_id="node-1"), lambda: 7)
    assert metrics.values() == {"kafka-metrics-count": {"count": 2}, "node-metrics.node-1": {"n": 7}}
    (name,) = [n for n in metrics.metrics if n.name == "n"]
    assert dict(name.tags) == {"client-id": "me", "node-id": "node-1"}


def test_debug_sensor_records_only_at_the_debug_level() -> None:
    for level, expected in ((RecordingLevel.INFO, 0.0), (RecordingLevel.DEBUG, 1.0)):
        metrics = Metrics(MetricConfig(level=level))
        fine = metrics.sensor("fine", RecordingLevel.DEBUG)
        fine.add(metrics.name("total", "g"), CumulativeSum())
        fine.record()
        assert fine.should_record is bool(expected)
        assert metrics.values()["g"]["total"] == expected


def test_reporters_are_notified_of_added_and_removed_metrics() -> None:
    reporter = Reporter()
    metrics = registry(reporters=[reporter], namespace="kafka.test")
    sensor = metrics.sensor("s")
    sensor.add(metrics.name("a", "g"), Avg())
    child = metrics.sensor("c", parents=[sensor])
    child.add(metrics.name("b", "g"), Avg())
    metrics.remove_sensor("s")
    metrics.close()
    metrics.close()
    assert reporter.calls == [
        ("init", "kafka.test"),
        ("change", "count"),
        ("change", "a"),
        ("change", "b"),
        ("removal", "a"),
        ("removal", "b"),
        ("close", None),
    ]


def test_failing_reporter_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    class Bad:
        def init(self, metrics: Metrics) -> None:
            raise RuntimeError("oh")

    metrics = registry(reporters=[Bad()])
    metrics.close()
    assert "Bad failed in init()" in caplog.text


def test_sensor_reports_its_idle_time() -> None:
    clock = ManualClock()
    sensor = Metrics(clock=clock).sensor("s")
    clock.advance(50_000)
    sensor.record()
    clock.advance(20_000)
    assert sensor.idle_seconds(clock.monotonic()) == 20


def test_duplicate_metric_name_raises_value_error() -> None:
    metrics = registry()
    metrics.add_metric(metrics.name("a", "g"), lambda: 1)
    with pytest.raises(ValueError, match="already"):
        metrics.add_metric(metrics.name("a", "g"), lambda: 2)
    assert metrics.remove_metric(metrics.name("a", "g")) is not None
    assert metrics.remove_metric(metrics.name("a", "g")) is None


def test_concurrent_recordings_are_not_lost() -> None:
    metrics = registry()
    sensor = metrics.sensor("s")
    sensor.add(metrics.name("total", "g"), CumulativeSum())

    def record() -> None:
        for _ in range(2000):
            sensor.record()

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert metrics.values()["g"]["total"] == 8000
