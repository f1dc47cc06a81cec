"""OpenTelemetry traces: the spans of producer and consumer, and their context in record headers."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from ottla import KafkaConsumer, KafkaProducer
from ottla.aio import KafkaConsumer as AsyncConsumer
from ottla.aio import KafkaProducer as AsyncProducer
from ottla.broker.embedded import Broker
from ottla.client.tracing import (
    TracingConsumerInterceptor,
    TracingProducerInterceptor,
    context_of,
    process_span,
)
from ottla.errors import MessageTooLargeError
from ottla.records.consumer_record import ConsumerRecord


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def send(broker: Broker, topic: str, *values: bytes | None, **options: Any) -> None:
    configs = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "shop"}
    with KafkaProducer(configs, interceptor_classes=[TracingProducerInterceptor], **options) as producer:
        for value in values:
            producer.send(topic, value, headers=[("mine", b"1"), ("traceparent", b"of the first sender")])


def read(broker: Broker, topic: str, number: int, *interceptors: Any) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    with KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        interceptor_classes=list(interceptors),
    ) as consumer:
        while len(records) < number:
            records += [record for part in consumer.poll(10_000).values() for record in part]
    return records


def test_send_span_has_partition_and_offset_and_its_context_is_in_the_headers(
    ottla_broker: Broker, ottla_topic: str, spans: InMemorySpanExporter
) -> None:
    send(ottla_broker, ottla_topic, b"v", None)
    span, tombstone = spans.get_finished_spans()
    assert (span.name, span.kind) == (f"send {ottla_topic}", SpanKind.PRODUCER)
    host, _, port = ottla_broker.bootstrap_servers.rpartition(":")
    assert attributes(span) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": ottla_topic,
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 0,
        "messaging.client.id": "shop",
        "server.address": host,
        "server.port": int(port),
    }
    assert attributes(tombstone)["messaging.kafka.message.tombstone"] is True
    record = read(ottla_broker, ottla_topic, 2)[0]
    headers = dict(record.headers or ())
    assert [name for name, _ in record.headers or ()].count("traceparent") == 1
    assert headers["mine"] == b"1"
    context = span.get_span_context()
    assert context is not None
    expected = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    assert headers["traceparent"] == expected.encode()


def test_poll_span_links_to_send_spans_and_process_span_continues_their_trace(
    ottla_broker: Broker, ottla_topic: str, spans: InMemorySpanExporter
) -> None:
    with trace.get_tracer("test").start_as_current_span("request") as request:
        send(ottla_broker, ottla_topic, b"a", b"b")
    records = read(ottla_broker, ottla_topic, 2, TracingConsumerInterceptor)
    with pytest.raises(KeyError), process_span(records[0], group_id="billing") as process:
        assert trace.get_current_span() is process
        raise KeyError("price")
    by_name = {span.name: span for span in spans.get_finished_spans()}
    sent = [span for span in spans.get_finished_spans() if span.kind is SpanKind.PRODUCER]
    polls = [span for span in spans.get_finished_spans() if span.name == f"poll {ottla_topic}"]
    assert polls[0].kind is SpanKind.CLIENT
    links = [link for span in polls for link in span.links]
    assert [link.context.span_id for link in links] == [span.context.span_id for span in sent if span.context]
    assert attributes(polls[0])["messaging.consumer.group.name"] == "billing"
    assert sum(attributes(span)["messaging.batch.message_count"] for span in polls) == 2
    processed = by_name[f"process {ottla_topic}"]
    assert processed.parent is not None
    assert processed.parent.span_id == links[0].context.span_id
    assert processed.context is not None
    assert processed.context.trace_id == request.get_span_context().trace_id
    assert attributes(processed)["error.type"] == "KeyError"
    assert processed.status.status_code is StatusCode.ERROR


def test_failed_record_ends_its_span_with_the_error(
    ottla_broker: Broker, ottla_topic: str, spans: InMemorySpanExporter
) -> None:
    configs = {"bootstrap.servers": ottla_broker.bootstrap_servers, "max.request.size": 1000}
    with KafkaProducer(configs, interceptor_classes=[TracingProducerInterceptor]) as producer:
        with pytest.raises(MessageTooLargeError):
            producer.send(ottla_topic, b"v" * 2000).get(10)
    (span,) = spans.get_finished_spans()
    assert attributes(span)["error.type"] == "MessageTooLargeError"
    assert span.status.status_code is StatusCode.ERROR
    assert "messaging.kafka.offset" not in attributes(span)


async def test_async_clients_are_traced(ottla_broker: Broker, ottla_topic: str, spans: InMemorySpanExporter) -> None:
    servers = ottla_broker.bootstrap_servers
    producer = AsyncProducer(bootstrap_servers=servers, interceptor_classes=[TracingProducerInterceptor])
    async with producer:
        await producer.send_and_wait(ottla_topic, b"v")
    consumer = AsyncConsumer(
        ottla_topic,
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        interceptor_classes=["ottla.client.tracing.TracingConsumerInterceptor"],
    )
    async with consumer:
        record = await consumer.getone()
    with process_span(record):
        pass
    names = [span.name.split()[0] for span in spans.get_finished_spans()]
    assert sorted(names) == ["poll", "process", "send"]
    assert len({span.context.trace_id for span in spans.get_finished_spans() if span.context}) == 2


def test_record_with_a_missing_or_malformed_context_starts_a_trace(spans: InMemorySpanExporter) -> None:
    malformed: list[list[tuple[str, bytes | None]]] = [[], [("traceparent", b"\xff")], [("traceparent", None)]]
    for headers in malformed:
        record = ConsumerRecord("t", 0, -1, 7, 0, 0, None, None, headers)
        assert not trace.get_current_span(context_of(record)).get_span_context().is_valid
        with process_span(record) as span:
            assert span.is_recording()
        assert spans.get_finished_spans()[-1].parent is None


def test_clients_do_not_import_opentelemetry() -> None:
    code = "import sys, ottla, ottla.aio; sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
