"""Metrics of the producer: Kafka's names, and their values."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.unit.client.scripted import SILENCE, ScriptedBroker

from ottla import KafkaProducer
from ottla.clock import ManualClock
from ottla.errors import BufferExhaustedError, KafkaTimeoutError
from ottla.metrics.metric import KafkaMetric, MetricName
from ottla.net.client.channel_metrics import LEFT_OUT
from ottla.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

COMMON = """
connection-close-rate connection-close-total connection-count connection-creation-rate connection-creation-total
failed-authentication-rate failed-authentication-total failed-reauthentication-rate failed-reauthentication-total
incoming-byte-rate incoming-byte-total io-ratio io-time-ns-avg io-time-ns-total io-wait-ratio io-wait-time-ns-avg
io-wait-time-ns-total network-io-rate network-io-total outgoing-byte-rate outgoing-byte-total
reauthentication-latency-avg reauthentication-latency-max request-rate request-size-avg request-size-max request-total
response-rate response-total
select-rate select-total successful-authentication-no-reauth-total successful-authentication-rate
successful-authentication-total successful-reauthentication-rate successful-reauthentication-total
"""
PRODUCER = """
batch-size-avg batch-size-max batch-split-rate batch-split-total buffer-available-bytes buffer-exhausted-rate
buffer-exhausted-total buffer-total-bytes bufferpool-wait-ratio bufferpool-wait-time-ns-total compression-rate-avg
flush-time-ns-total metadata-age metadata-wait-time-ns-total produce-throttle-time-avg produce-throttle-time-max
record-error-rate record-error-total record-queue-time-avg record-queue-time-max record-retry-rate record-retry-total
record-send-rate record-send-total record-size-avg record-size-max records-per-request-avg request-latency-avg
request-latency-max requests-in-flight txn-abort-time-ns-total txn-begin-time-ns-total txn-commit-time-ns-total
txn-init-time-ns-total txn-send-offsets-time-ns-total waiting-threads
"""
NODE = """
incoming-byte-rate incoming-byte-total outgoing-byte-rate outgoing-byte-total request-latency-avg request-latency-max
request-rate request-size-avg request-size-max request-total response-rate response-total
"""
TOPIC = """
byte-rate byte-total compression-rate record-error-rate record-error-total record-retry-rate record-retry-total
record-send-rate record-send-total
"""


def producer(broker: ScriptedBroker, **options: Any) -> KafkaProducer:
    settings: dict[str, Any] = {"linger_ms": 0, "client_id": "me", "retry_backoff_ms": 1}
    return KafkaProducer(bootstrap_servers=broker.address, **{**settings, **options})


def failure(code: int, throttle_ms: int = 0) -> ProduceResponse:
    response = PartitionProduceResponse(index=0, error_code=code, base_offset=-1)
    return ProduceResponse(
        responses=[TopicProduceResponse(name="t", partition_responses=[response])], throttle_time_ms=throttle_ms
    )


def test_producer_metrics_have_kafkas_names_except_those_left_out(broker: ScriptedBroker) -> None:
    with producer(broker) as p:
        p.send("t", b"v").get(10)
        result = p.metrics()
    assert set(result["producer-metrics"]) | set(LEFT_OUT) == set(COMMON.split()) | set(PRODUCER.split())
    assert not set(result["producer-metrics"]) & set(LEFT_OUT)
    assert set(result["producer-node-metrics.node-7"]) == set(NODE.split())
    assert set(result["producer-topic-metrics.t"]) == set(TOPIC.split())
    assert set(result["app-info"]) == {"version", "commit-id", "start-time-ms"}
    assert result["kafka-metrics-count"]["count"] == sum(map(len, result.values()))


def test_raw_metrics_are_kafka_metrics_by_metric_name(broker: ScriptedBroker) -> None:
    with producer(broker) as p:
        p.send("t", b"v").get(10)
        name = MetricName("record-send-total", "producer-topic-metrics", tags={"client-id": "me", "topic": "t"})
        metric = p.metrics(raw=True)[name]
    assert isinstance(metric, KafkaMetric)
    assert metric.value() == 1.0


def test_sent_records_are_counted_per_batch_and_request(broker: ScriptedBroker) -> None:
    with producer(broker, linger_ms=60_000, compression_type="gzip") as p:
        for size in (10, 500, 20):
            p.send("t", bytes(size))
        p.flush(10)
        result = p.metrics()
        overall, topic, node = (
            result["producer-metrics"],
            result["producer-topic-metrics.t"],
            result["producer-node-metrics.node-7"],
        )
    assert overall["record-send-total"] == topic["record-send-total"] == 3
    assert overall["records-per-request-avg"] == 3
    assert overall["record-send-rate"] == pytest.approx(3 / 30, rel=0.1)
    batch = len(broker.topics["t"][0][0])
    assert overall["batch-size-avg"] == overall["batch-size-max"] == topic["byte-total"] == batch
    assert overall["compression-rate-avg"] == topic["compression-rate"] < 0.5
    assert 500 < overall["record-size-max"] < 520
    assert overall["request-latency-max"] == node["request-latency-max"] > 0
    assert node["outgoing-byte-total"] > batch
    assert overall["outgoing-byte-total"] > node["outgoing-byte-total"], "the bootstrap connection counts as well"
    assert overall["connection-count"] >= 1
    assert overall["flush-time-ns-total"] > 0
    assert overall["metadata-wait-time-ns-total"] > 0


def test_retries_errors_splits_and_throttling_are_counted(broker: ScriptedBroker) -> None:
    with producer(broker, linger_ms=60_000) as p:
        broker.on(ProduceRequest, lambda _: failure(6, throttle_ms=77))
        p.send("t", b"1")
        p.flush(10)
        broker.on(ProduceRequest, lambda _: failure(10))
        p.send("t", b"2")
        p.send("t", b"3")
        p.flush(10)
        broker.on(ProduceRequest, lambda _: failure(29))
        p.send("t", b"4")
        p.flush(10)
        result = p.metrics()
    assert (
        result["producer-metrics"]["record-retry-total"]
        == result["producer-topic-metrics.t"]["record-retry-total"]
        == 1
    )
    assert (
        result["producer-metrics"]["record-error-total"]
        == result["producer-topic-metrics.t"]["record-error-total"]
        == 1
    )
    assert result["producer-metrics"]["batch-split-total"] == 1
    assert result["producer-metrics"]["produce-throttle-time-max"] == 77


def test_buffer_memory_metrics_measure_usage_and_exhaustion(broker: ScriptedBroker) -> None:
    broker.on(ProduceRequest, lambda _: SILENCE, times=100)
    p = producer(broker, buffer_memory=20_000, batch_size=10_000, max_block_ms=1000)
    for _ in range(2):
        p.send("t", bytes(9_000))
    with pytest.raises(BufferExhaustedError):
        p.send("t", bytes(9_000))
    result = p.metrics()["producer-metrics"]
    assert result["buffer-total-bytes"] == 20_000
    assert result["buffer-available-bytes"] == 0
    assert result["waiting-threads"] == 0
    assert result["buffer-exhausted-total"] == 1
    assert result["record-error-total"] == 1
    assert result["bufferpool-wait-time-ns-total"] > 40_000_000
    assert 0 < result["bufferpool-wait-ratio"] < 1
    p.close(timeout=0)
    assert p.metrics()["producer-metrics"]["record-error-total"] == 3, "the records pending at close have failed"


def test_failed_send_counts_as_a_record_error(broker: ScriptedBroker) -> None:
    with producer(broker, max_block_ms=1000) as p:
        with pytest.raises(KafkaTimeoutError):
            p.send("missing", b"v")
        assert p.send("t", bytes(2_000_000)).exception(10) is not None
        assert p.metrics()["producer-metrics"]["record-error-total"] == 2


def test_metadata_age_is_the_time_since_the_last_update(broker: ScriptedBroker) -> None:
    clock = ManualClock()
    with producer(broker, clock=clock) as p:
        assert p.partitions_for("t") == {0}
        assert math.isnan(p.metrics()["producer-metrics"]["batch-size-avg"])
        assert p.metrics()["producer-metrics"]["metadata-age"] == 0
        clock.advance(7_000)
        assert p.metrics()["producer-metrics"]["metadata-age"] == 7


def test_metrics_of_unused_topics_are_removed(broker: ScriptedBroker) -> None:
    clock = ManualClock()
    broker.add_topic("u")
    with producer(broker, clock=clock) as p:
        p.send("t", b"v").get(10)
        clock.advance(3_601_000)
        p.send("u", b"v").get(10)
        assert {group for group in p.metrics() if "topic" in group} == {"producer-topic-metrics.u"}


@pytest.mark.option("metric.reporters")
def test_metric_reporter_is_configured_and_closed_with_the_producer(broker: ScriptedBroker) -> None:
    seen: list[Any] = []

    class Reporter:
        def configure(self, configs: Any) -> None:
            seen.append((configs["client.id"], configs["acks"]))

        def close(self) -> None:
            seen.append("closed")

    with producer(broker, metric_reporters=[Reporter, "prometheus"], acks="all") as p:
        p.send("t", b"v").get(10)
    assert seen == [("me", "all"), "closed"]


@pytest.mark.option("metrics.num.samples", "metrics.sample.window.ms")
def test_averages_expire_after_all_sample_windows(broker: ScriptedBroker) -> None:
    clock = ManualClock()
    with producer(broker, clock=clock, metrics_num_samples=3, metrics_sample_window_ms=1000) as p:
        p.send("t", b"v").get(10)
        clock.advance(2_999)
        assert p.metrics()["producer-metrics"]["batch-size-avg"] > 0
        clock.advance(1)
        assert math.isnan(p.metrics()["producer-metrics"]["batch-size-avg"])
        assert p.metrics()["producer-metrics"]["record-send-total"] == 1


@pytest.mark.option("metrics.recording.level")
def test_metrics_recording_level_is_applied(broker: ScriptedBroker) -> None:
    with producer(broker, metrics_recording_level="debug") as p:
        assert p._core.metrics.metrics.config.level.name == "DEBUG"
