"""Export of client metrics in OTLP (KIP-714)."""

from __future__ import annotations

from tests.unit.metrics.protobuf import labels, metrics, start_times

from ottla.clock import ManualClock
from ottla.metrics.metrics import Metrics
from ottla.metrics.otlp import Exporter, telemetry_name
from ottla.metrics.stats import Avg, CumulativeSum, Value

DELTA, CUMULATIVE = "sum 1", "sum 2"


def create_metrics() -> Metrics:
    registry = Metrics(clock=ManualClock(), tags={"client-id": "me"})
    sensor = registry.sensor("s")
    sensor.add(registry.name("send-total", "producer-topic-metrics", topic="t", node_id="n1"), CumulativeSum())
    sensor.add(registry.name("size-avg", "producer-metrics"), Avg())
    sensor.add(registry.name("last", "producer-metrics"), Value())
    registry.add_metric(registry.name("version", "app-info"), lambda: "1.0")
    registry.sensor("unused").add(registry.name("idle-avg", "producer-metrics"), Avg())
    return registry


def test_telemetry_name_is_that_of_kafka() -> None:
    name = Metrics().name("record-send-total", "producer-topic-metrics")
    assert telemetry_name(name) == "org.apache.kafka.producer.topic.record.send.total"


def test_totals_are_exported_as_sums_and_the_rest_as_gauges() -> None:
    registry = create_metrics()
    registry.sensor("s").record(3)
    actual = metrics(Exporter(registry, {}).encoded([""], delta=False))
    assert actual == {
        "org.apache.kafka.kafka.count.count": ("gauge", 6.0, {}),
        "org.apache.kafka.producer.topic.send.total": (CUMULATIVE, 3.0, {"topic": "t", "node_id": "n1"}),
        "org.apache.kafka.producer.size.avg": ("gauge", 3.0, {}),
        "org.apache.kafka.producer.last": ("gauge", 3.0, {}),
    }


def test_delta_sum_has_the_change_since_the_last_export() -> None:
    registry = create_metrics()
    exporter = Exporter(registry, {})
    name = "org.apache.kafka.producer.topic.send.total"
    for recorded in (3, 4, 0):
        registry.sensor("s").record(recorded)
        assert metrics(exporter.encoded([name], delta=True))[name][:2] == (DELTA, recorded)


def test_delta_starts_at_the_last_export_of_the_metric_as_a_delta() -> None:
    registry = create_metrics()
    clock = registry.clock
    assert isinstance(clock, ManualClock)
    started = clock.now_ms()
    exporter = Exporter(registry, {})
    name = "org.apache.kafka.producer.topic.send.total"

    def export(requested: str, *, delta: bool) -> tuple[float, int]:
        registry.sensor("s").record(1)
        clock.advance(1000)
        data = exporter.encoded([requested], delta)
        return (metrics(data)[name][1], start_times(data)[name] - started) if requested == name else (0, 0)

    assert export(name, delta=False) == (1, 0)
    assert export(name, delta=True) == (2, 0)
    assert export(name, delta=False) == (3, 0)
    assert export(name, delta=True) == (2, 2000)
    export("org.apache.kafka.producer.size.avg", delta=True)  # does not include the total
    assert export(name, delta=True) == (2, 4000)


def test_only_requested_metrics_are_exported() -> None:
    registry = create_metrics()
    registry.sensor("s").record(1)
    exporter = Exporter(registry, {})
    assert set(metrics(exporter.encoded(["org.apache.kafka.producer.topic."], delta=True))) == {
        "org.apache.kafka.producer.topic.send.total"
    }
    assert exporter.encoded(["org.apache.kafka.consumer."], delta=True) == b""
    assert exporter.encoded([], delta=True) == b""


def test_resource_identifies_the_client() -> None:
    data = Exporter(create_metrics(), {"transactional_id": "x"}).encoded([""], delta=True)
    assert labels(data) == {"transactional_id": "x"}
