from __future__ import annotations

from tests.unit.metrics.protobuf import labels, metrics

from ottla.clock import ManualClock
from ottla.metrics.metrics import Metrics
from ottla.metrics.otlp import Exporter, telemetry_name
from ottla.metrics.stats import Avg, CumulativeSum, Value

DELTA, CUMULATIVE = "sum 1", "sum 2"


def registry() -> Metrics:
    made = Metrics(clock=ManualClock(), tags={"client-id": "me"})
    sensor = made.sensor("s")
    sensor.add(made.name("send-total", "producer-topic-metrics", topic="t", node_id="n1"), CumulativeSum())
    sensor.add(made.name("size-avg", "producer-metrics"), Avg())
    sensor.add(made.name("last", "producer-metrics"), Value())
    made.add_metric(made.name("version", "app-info"), lambda: "1.0")
    made.sensor("unused").add(made.name("idle-avg", "producer-metrics"), Avg())
    return made


def test_names_are_those_of_kafkas_telemetry() -> None:
    name = Metrics().name("record-send-total", "producer-topic-metrics")
    assert telemetry_name(name) == "org.apache.kafka.producer.topic.record.send.total"


def test_totals_are_sums_and_the_rest_gauges() -> None:
    made = registry()
    made.sensor("s").record(3)
    actual = metrics(Exporter(made, {}).encoded([""], delta=False))
    assert actual == {
        "org.apache.kafka.kafka.count.count": ("gauge", 6.0, {}),
        "org.apache.kafka.producer.topic.send.total": (CUMULATIVE, 3.0, {"topic": "t", "node_id": "n1"}),
        "org.apache.kafka.producer.size.avg": ("gauge", 3.0, {}),
        "org.apache.kafka.producer.last": ("gauge", 3.0, {}),
    }


def test_sums_may_be_what_came_since_the_last_time() -> None:
    made = registry()
    exporter = Exporter(made, {})
    name = "org.apache.kafka.producer.topic.send.total"
    for recorded in (3, 4, 0):
        made.sensor("s").record(recorded)
        assert metrics(exporter.encoded([name], delta=True))[name][:2] == (DELTA, recorded)


def test_only_requested_items_are_returned() -> None:
    made = registry()
    made.sensor("s").record(1)
    exporter = Exporter(made, {})
    assert set(metrics(exporter.encoded(["org.apache.kafka.producer.topic."], delta=True))) == {
        "org.apache.kafka.producer.topic.send.total"
    }
    assert exporter.encoded(["org.apache.kafka.consumer."], delta=True) == b""
    assert exporter.encoded([], delta=True) == b""


def test_resource_identifies_the_client() -> None:
    data = Exporter(registry(), {"transactional_id": "x"}).encoded([""], delta=True)
    assert labels(data) == {"transactional_id": "x"}
