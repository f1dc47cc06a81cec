"""OpenTelemetry tracing: the spans of requests in the broker, and their export."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from ottla import Broker, KafkaAdminClient, KafkaConsumer, KafkaProducer
from ottla.broker.monitoring import trace_export
from ottla.broker.monitoring.trace_export import TraceExport
from ottla.client.tracing import TracingProducerInterceptor
from ottla.errors import StartupError, UnknownTopicOrPartitionError

TRACED = {"ottla.tracing.sample.ratio": "1", "ottla.event.loop.stall.ms": "0"}


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_request_spans_have_client_phases_errors_and_links_to_producer_spans(spans: InMemorySpanExporter) -> None:
    with Broker(TRACED) as broker:
        servers = broker.bootstrap_servers
        configs = {"bootstrap.servers": servers, "client.id": "shop"}
        with KafkaProducer(configs, interceptor_classes=[TracingProducerInterceptor]) as producer:
            producer.send("orders", b"v" * 100).get(10)
        with KafkaProducer(configs, compression_type="gzip") as producer:  # without links
            producer.send("orders", b"v").get(10)
        with KafkaConsumer("orders", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            assert next(consumer).value == b"v" * 100
        with KafkaAdminClient(bootstrap_servers=servers) as admin, pytest.raises(UnknownTopicOrPartitionError):
            admin.delete_topics(["missing"])
    finished = spans.get_finished_spans()
    (sender,) = [span for span in finished if span.name == "send orders"]
    produced, compressed = [span for span in finished if span.name == "Produce"]
    assert produced.kind is SpanKind.SERVER
    assert produced.parent is None
    assert sender.context is not None
    (link,) = produced.links
    assert (link.context.trace_id, link.context.span_id) == (sender.context.trace_id, sender.context.span_id)
    assert dict(link.attributes or {}) == {"messaging.destination.partition.id": "0"}
    assert not compressed.links
    attributes_of_produce = attributes(produced)
    expected = {
        "messaging.system": "kafka",
        "rpc.method": "Produce",
        "messaging.client.id": "shop",
        "messaging.destination.name": "orders",
        "client.address": "127.0.0.1",
        "user.name": "ANONYMOUS",
        "kafka.broker.id": 0,
        "kafka.listener": "PLAINTEXT",
    }
    assert {key: attributes_of_produce.get(key) for key in expected} == expected
    assert attributes_of_produce["kafka.request.bytes"] > 200
    assert attributes_of_produce["kafka.request.local_ms"] > 0
    fetches = [attributes(span) for span in finished if span.name == "Fetch"]
    assert all("messaging.destination.name" in fetch or "kafka.topics" not in fetch for fetch in fetches)
    assert any(fetch.get("kafka.response.bytes", 0) > 100 for fetch in fetches)
    assert any("kafka.request.remote_ms" in fetch for fetch in fetches)
    (deletion,) = [span for span in finished if span.name == "DeleteTopics"]
    assert attributes(deletion)["error.type"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert deletion.status.status_code is StatusCode.ERROR
    assert produced.status.status_code is StatusCode.UNSET


async def test_spans_are_sent_to_the_exporter_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    providers: list[TracerProvider] = []
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "set_tracer_provider", providers.append)
    exporter = InMemorySpanExporter()
    installed = SimpleNamespace(name="memory", load=lambda: lambda: exporter)
    monkeypatch.setattr(trace_export, "entry_points", lambda group: [installed])
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "memory")
    export = TraceExport.from_environment()
    providers[0].get_tracer("test").start_span("Produce").end()
    await export.close()
    (span,) = exporter.get_finished_spans()
    assert span.name == "Produce"
    assert span.resource.attributes["service.name"] == "ottla-broker"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders-cluster")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    await TraceExport.from_environment().close()
    assert providers[1].resource.attributes["service.name"] == "orders-cluster"
    monkeypatch.delenv("OTEL_TRACES_EXPORTER")
    with pytest.raises(StartupError, match=r"no such exporter is installed \(there are: memory\); for example: pip"):
        TraceExport.from_environment()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", providers[0])
    await TraceExport.from_environment().close()
    assert len(providers) == 2, "the provider of the program is used"
