"""The Prometheus and the logging reporter."""

from __future__ import annotations

import logging
import threading

import pytest

from ottla.metrics.log_reporter import LoggingReporter
from ottla.metrics.metrics import Metrics
from ottla.metrics.prometheus import PrometheusReporter
from ottla.metrics.stats import Avg, CumulativeSum


def test_prometheus_names_are_those_of_the_jmx_exporter_of_kafka() -> None:
    reporter = PrometheusReporter()
    for client in ("a", 'b"\n'):
        metrics = Metrics(reporters=[reporter], namespace="kafka.producer", tags={"client-id": client})
        sensor = metrics.sensor("s")
        sensor.add(metrics.name("send-total", "producer-topic-metrics", "Sent.", topic="t"), CumulativeSum())
        sensor.add(metrics.name("size-avg", "producer-metrics", "Size.\nMean."), Avg())
        metrics.add_metric(metrics.name("version", "app-info"), lambda: "1.0")
        if client == "a":
            sensor.record(2)
    assert reporter.text() == (
        "# HELP kafka_producer_kafka_metrics_count_count Number of metrics.\n"
        "# TYPE kafka_producer_kafka_metrics_count_count gauge\n"
        'kafka_producer_kafka_metrics_count_count{client_id="a"} 4.0\n'
        'kafka_producer_kafka_metrics_count_count{client_id="b\\"\\n"} 4.0\n'
        "# HELP kafka_producer_producer_metrics_size_avg Size.\\nMean.\n"
        "# TYPE kafka_producer_producer_metrics_size_avg gauge\n"
        'kafka_producer_producer_metrics_size_avg{client_id="a"} 2.0\n'
        'kafka_producer_producer_metrics_size_avg{client_id="b\\"\\n"} NaN\n'
        "# HELP kafka_producer_producer_topic_metrics_send_total Sent.\n"
        "# TYPE kafka_producer_producer_topic_metrics_send_total counter\n"
        'kafka_producer_producer_topic_metrics_send_total{client_id="a",topic="t"} 2.0\n'
        'kafka_producer_producer_topic_metrics_send_total{client_id="b\\"\\n",topic="t"} 0.0\n'
    )


def test_prometheus_drops_closed_clients_when_another_one_is_added() -> None:
    reporter = PrometheusReporter()
    for _ in range(2):
        metrics = Metrics(reporters=[reporter], tags={"client-id": "same"})
        metrics.close()
        assert reporter.text().count('{client_id="same"}') == 1


def test_logging_reporter_logs_metrics_with_values_and_leaves_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.metrics")
    before = set(threading.enumerate())
    metrics = Metrics(reporters=[LoggingReporter()])
    for name, value in (("a", 7.0), ("b", 0.0), ("c", float("nan"))):
        metrics.add_metric(metrics.name(name, "g"), lambda value=value: value)  # type: ignore[misc]
    metrics.close()
    assert "g a=7.0" in caplog.messages
    Metrics(reporters=[LoggingReporter()], tags={"client-id": "demo"}).close()
    assert any(message.startswith("kafka-metrics-count client-id=demo count=") for message in caplog.messages)
    assert set(threading.enumerate()) == before
