"""Traces of OpenTelemetry: spans for sent, received and processed records. The context of a send travels in the
record's headers.

    KafkaProducer(…, interceptor_classes=[TracingProducerInterceptor])
    KafkaConsumer(…, interceptor_classes=[TracingConsumerInterceptor])
    for record in consumer:
        with process_span(record, group_id="billing"):
            …

The classes are interceptors, so clients without them do no work for traces. Needs `pip install 'ottla[otel]'`, which is
OpenTelemetry's API; the application configures SDK, exporter and propagator (W3C trace context by default). Names and
attributes follow the semantic conventions for messaging and Kafka. Keys and values are not recorded, unless the message
of an exception contains them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from ottla.client.consumer.interceptors import ConsumerInterceptor, Records
from ottla.client.producer.interceptors import ProducerInterceptor
from ottla.model import ProducerRecord, RecordMetadata
from ottla.records.consumer_record import ConsumerRecord
from ottla.version import __version__

try:
    from opentelemetry import context as otel_context
    from opentelemetry import propagate, trace
    from opentelemetry.propagators.textmap import Getter, Setter
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
except ImportError as missing:  # pragma: no cover - with OpenTelemetry in the environment of the tests
    raise ImportError(f"{missing}; traces need `pip install 'ottla[otel]'`") from missing

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.38.0"
SYSTEM: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
OFFSET: Final = "messaging.kafka.offset"
TOMBSTONE: Final = "messaging.kafka.message.tombstone"
GROUP: Final = "messaging.consumer.group.name"
CLIENT_ID: Final = "messaging.client.id"
BATCH_COUNT: Final = "messaging.batch.message_count"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"
MAX_LINKS: Final = 128
"""Maximum number of links of the span of a poll; the default limit of OpenTelemetry's SDKs."""

RecordHeaders = Sequence[tuple[str, bytes | None]]


class TracedHeaders(list[tuple[str, bytes | None]]):
    """The headers of a record that is being sent, together with the record's span."""

    def __init__(self, headers: RecordHeaders, span: Span) -> None:
        super().__init__(headers)
        self.span = span


class _HeaderSetter(Setter[list[tuple[str, bytes | None]]]):
    """Sets a header. An existing header is replaced: a record that is forwarded may have one from an earlier send."""

    def set(self, carrier: list[tuple[str, bytes | None]], key: str, value: str) -> None:
        carrier[:] = [header for header in carrier if header[0] != key]
        carrier.append((key, value.encode()))


class _HeaderGetter(Getter[RecordHeaders]):
    """Reads a header. If there are several with the same name, the last one that is not null counts."""

    def get(self, carrier: RecordHeaders, key: str) -> list[str] | None:
        values = [value.decode("utf-8", "replace") for name, value in carrier if name == key and value is not None]
        return values[-1:] or None

    def keys(self, carrier: RecordHeaders) -> list[str]:
        return [name for name, _ in carrier]


SETTER, GETTER = _HeaderSetter(), _HeaderGetter()


class TracingProducerInterceptor(ProducerInterceptor):
    """Starts a span `send TOPIC` for each record, and ends it with the acknowledgement or failure.

    The span's parent is the span of the caller of send(). This interceptor must be the last one, because others might
    replace the list of headers.
    """

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Read the client id and the address of the first bootstrap server."""
        self._tracer = _tracer()
        self._attributes = {**_client_attributes(configs), OPERATION_NAME: "send", OPERATION_TYPE: "send"}

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Start the span, and return the record with the span's context in its headers."""
        attributes = {**self._attributes, DESTINATION: record.topic}
        if record.value is None:
            attributes[TOMBSTONE] = True
        span = self._tracer.start_span(f"send {record.topic}", kind=SpanKind.PRODUCER, attributes=attributes)
        headers = TracedHeaders(record.headers or (), span)
        propagate.inject(headers, trace.set_span_in_context(span), SETTER)
        return record._replace(headers=headers)

    def on_acknowledgement(
        self, metadata: RecordMetadata, error: BaseException | None, headers: RecordHeaders | None = None
    ) -> None:
        """End the record's span, with the error or, if the offset is known, with the partition and offset."""
        if isinstance(headers, TracedHeaders):
            span = headers.span
            if span.is_recording() and metadata.offset >= 0:
                span.set_attributes({PARTITION: str(metadata.partition), OFFSET: metadata.offset})
            _end(span, error)

    def on_send_error(self, record: ProducerRecord, error: BaseException) -> None:
        """End the span of a record that failed before it was in a batch."""
        if isinstance(record.headers, TracedHeaders):
            _end(record.headers.span, error)


class TracingConsumerInterceptor(ConsumerInterceptor):
    """Creates a span `poll TOPIC` for the records of each topic that a poll returns, with links to the spans of their
    sends (of the first MAX_LINKS records).
    """

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Read the client id, the group and the address of the first bootstrap server."""
        self._tracer = _tracer()
        self._attributes = {**_client_attributes(configs), OPERATION_NAME: "poll", OPERATION_TYPE: "receive"}
        group = _config(configs, "group.id")
        if group:
            self._attributes[GROUP] = str(group)

    def on_consume(self, records: Records) -> Records:
        """Create the span of each topic, and return the records unchanged."""
        by_topic: dict[str, list[ConsumerRecord]] = {}
        for tp, part in records.items():
            by_topic.setdefault(tp.topic, []).extend(part)
        for topic, part in by_topic.items():
            attributes = {**self._attributes, DESTINATION: topic, BATCH_COUNT: len(part)}
            links = [link for record in part[:MAX_LINKS] if (link := _link(record)) is not None]
            self._tracer.start_span(f"poll {topic}", kind=SpanKind.CLIENT, attributes=attributes, links=links).end()
        return records


def context_of(record: ConsumerRecord) -> otel_context.Context:
    """Return the trace context in a record's headers; with the default propagators, an empty one if there is none."""
    return propagate.extract(tuple(record.headers or ()), getter=GETTER)


@contextmanager
def process_span(record: ConsumerRecord, *, group_id: str | None = None) -> Iterator[Span]:
    """Context manager: run a block in a span `process TOPIC`, whose parent is the span of the record's send, if the
    headers name one.

    Spans that the block starts, and the spans of records that it sends, belong to the same trace. An exception is
    recorded in the span.
    """
    attributes: dict[str, Any] = {
        SYSTEM: "kafka",
        OPERATION_NAME: "process",
        OPERATION_TYPE: "process",
        DESTINATION: record.topic,
        PARTITION: str(record.partition),
        OFFSET: record.offset,
    }
    if record.value is None:
        attributes[TOMBSTONE] = True
    if group_id is not None:
        attributes[GROUP] = group_id
    name, tracer = f"process {record.topic}", _tracer()
    with tracer.start_as_current_span(name, context_of(record), SpanKind.CONSUMER, attributes) as span:
        try:
            yield span
        except Exception as error:
            span.set_attribute(ERROR_TYPE, type(error).__qualname__)
            raise


def _tracer() -> trace.Tracer:
    return trace.get_tracer("ottla", __version__, schema_url=SCHEMA_URL)


def _client_attributes(configs: Mapping[str, Any]) -> dict[str, Any]:
    attributes: dict[str, Any] = {SYSTEM: "kafka"}
    client_id = _config(configs, "client.id")
    if client_id:
        attributes[CLIENT_ID] = str(client_id)
    servers = _config(configs, "bootstrap.servers")
    first = servers.split(",")[0] if isinstance(servers, str) else next(iter(servers or ()), None)
    host, colon, port = str(first or "").strip().rpartition(":")
    if colon and port.isdecimal():
        attributes |= {SERVER_ADDRESS: host.strip("[]"), SERVER_PORT: int(port)}
    return attributes


def _config(configs: Mapping[str, Any], name: str) -> Any:
    return configs.get(name, configs.get(name.replace(".", "_")))


def _link(record: ConsumerRecord) -> Link | None:
    sender = trace.get_current_span(propagate.extract(record.headers or (), otel_context.Context(), GETTER))
    context = sender.get_span_context()
    return Link(context, {PARTITION: str(record.partition), OFFSET: record.offset}) if context.is_valid else None


def _end(span: Span, error: BaseException | None) -> None:
    if error is not None:
        span.set_attribute(ERROR_TYPE, type(error).__qualname__)
        span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()
