"""Traces of OpenTelemetry in the broker: a span for a sampled share of the requests (`ottla.tracing.sample.ratio`).

Kafka has no equivalent. A span begins when the request has been read and ends when its processing ends; it has the API,
the client and the phases of the request. A span of Produce has links to the senders of the first records of
uncompressed batches, if they have put their W3C trace context into the headers of the records (as
`ottla.client.tracing` does). Spans do not contain records.

OpenTelemetry's own environment variables configure the export (`OTEL_SERVICE_NAME`, `OTEL_EXPORTER_OTLP_ENDPOINT`, …).
Only brokers with a ratio above 0 import this module. Other brokers have another dispatcher, so tracing costs them
nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from ottla.broker.apis import BY_KEY
from ottla.broker.broker_context import BrokerContext
from ottla.broker.dispatch import FETCH, PRODUCE, Dispatch
from ottla.broker.monitoring.request_stats import ApiStats, LoopTime
from ottla.broker.quotas.client_quotas import ANONYMOUS
from ottla.errors import CorruptMessageError, MalformedMessageError, StartupError, UnsupportedVersionError, for_code
from ottla.logs import RateLimitFilter
from ottla.net.server.connection import USER, CloseConnectionError, Connection, Reply
from ottla.protocol.header import RequestHeader, decode_request_header, decode_response_header
from ottla.protocol.message import Request, decode, decode_in_slices
from ottla.protocol.messages.produce import ProduceRequest
from ottla.records.batch import HEADER_BYTES, MAGIC, read_header
from ottla.records.compression import NONE
from ottla.records.decoder import first_headers
from ottla.version import __version__

try:
    from opentelemetry import context as otel_context
    from opentelemetry import propagate, trace
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
except ImportError as missing:  # pragma: no cover - with OpenTelemetry in the environment of the tests
    raise StartupError(
        f"ottla.tracing.sample.ratio needs OpenTelemetry: pip install 'ottla[otel]' opentelemetry-sdk ({missing})"
    ) from missing

log = logging.getLogger("ottla.broker.tracing")
log.addFilter(RateLimitFilter())

MAX_NAMES: Final = 16
"""Maximum number of topics and of links in a span."""
MAX_LINKED_BYTES: Final = 1 << 20
"""Maximum size in bytes of a batch that gets a link: if the code is not compiled, all bytes of a batch are copied."""
MAX_RESPONSE_BYTES: Final = 4096
"""Maximum size in bytes of a response that is searched for errors."""
MAX_ITEMS: Final = 1024
SYSTEM: Final = {"messaging.system": "kafka", "rpc.system": "kafka", "network.transport": "tcp"}


class TracedDispatch(Dispatch):
    """Dispatches requests, and creates spans for some of them."""

    def __init__(
        self,
        broker: BrokerContext,
        ratio: float,
        *,
        loop_time: LoopTime | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """`ratio`: the share of requests with a span. `draw`: returns a random number from 0 to less than 1."""
        super().__init__(broker)
        self._ratio, self._draw, self._loop_time = ratio, draw, loop_time
        self._tracer = trace.get_tracer("ottla.broker", __version__)

    def __call__(self, frame: memoryview, connection: Connection) -> Reply | Awaitable[Reply]:
        if self._draw() >= self._ratio:
            return super().__call__(frame, connection)
        began = time.perf_counter()
        try:
            header, pos = decode_request_header(frame)
            span = self._start_span(header, pos, frame, connection)
        except MalformedMessageError:
            return super().__call__(frame, connection)
        except Exception:  # no error of a batch or an exporter may make a request fail
            log.exception(
                "Cannot create the OpenTelemetry span of a request from %s; processing the request without it",
                connection.peer,
            )
            return super().__call__(frame, connection)
        if self._loop_time is not None:
            span.set_attribute("kafka.request.queue_ms", (began - self._loop_time.woken_at) * 1000)
        began = time.perf_counter()
        try:
            reply = super().__call__(frame, connection)
        except BaseException as error:
            _fail(span, error)
            raise
        span.set_attribute("kafka.request.local_ms", (time.perf_counter() - began) * 1000)
        if isinstance(reply, Awaitable):
            return _end_later(span, reply, header)
        _end(span, reply, header)
        return reply

    def _start_span(self, header: RequestHeader, pos: int, frame: memoryview, connection: Connection) -> Span:
        entry = BY_KEY.get(header.api_key)
        name = f"API {header.api_key}" if entry is None else entry.name
        host, _, port = connection.peer.rpartition(":")
        attributes: dict[str, Any] = {
            **SYSTEM,
            "rpc.method": name,
            "messaging.client.id": header.client_id or "",
            "client.address": host,
            "client.port": int(port) if port.isdecimal() else 0,
            "user.name": str(connection.state.get(USER, ANONYMOUS)),
            "kafka.broker.id": self.broker.broker_id,
            "kafka.listener": connection.listener.name,
            "kafka.api.version": header.api_version,
            "kafka.correlation_id": header.correlation_id,
            "kafka.request.bytes": len(frame),
        }
        links: list[Link] = []
        if header.api_key in (PRODUCE, FETCH) and entry is not None:
            request = _decoded(entry.api.request, frame, header.api_version, pos)
            if request is not None:
                attributes |= _topics(request)
            if isinstance(request, ProduceRequest):
                attributes["messaging.operation.name"] = "produce"
                links = list(_links(request))
        # An own context: the request does not belong to a span of the program in which this broker runs.
        return self._tracer.start_span(name, otel_context.Context(), SpanKind.SERVER, attributes, links)


async def _end_later(span: Span, pending: Awaitable[Reply], header: RequestHeader) -> Reply:
    began = time.perf_counter()
    try:
        reply = await pending
    except BaseException as error:
        _fail(span, error)
        raise
    span.set_attribute("kafka.request.remote_ms", (time.perf_counter() - began) * 1000)
    _end(span, reply, header)
    return reply


def _end(span: Span, reply: Reply, header: RequestHeader) -> None:
    try:
        size = sum(chunk.nbytes if hasattr(chunk, "nbytes") else len(chunk) for chunk in reply or ())
        span.set_attribute("kafka.response.bytes", size)
        error = _error_of(reply, header) if reply is not None and size <= MAX_RESPONSE_BYTES else None
        if error is not None:
            span.set_attribute("error.type", error)
            span.set_status(Status(StatusCode.ERROR))
        span.end()
    except Exception:
        log.exception(
            "Cannot complete the OpenTelemetry span of a request (api_key=%d client_id=%s), so the span may be "
            "missing; the request itself is not affected",
            header.api_key,
            header.client_id,
        )


def _fail(span: Span, error: BaseException) -> None:
    """End the span of a request without a response."""
    cancelled = isinstance(error, asyncio.CancelledError)
    span.set_attribute("error.type", "disconnected" if cancelled else type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, str(error) if isinstance(error, CloseConnectionError) else None))
    span.end()


def _error_of(reply: Any, header: RequestHeader) -> str | None:
    """Return the name of an error in a response; None if there is none, or the response cannot be decoded or has
    records from log files.
    """
    entry = BY_KEY.get(header.api_key)
    if entry is None or not all(isinstance(chunk, bytes | bytearray | memoryview) for chunk in reply):
        return None
    encoded = memoryview(b"".join(reply))[4:]
    with suppress(MalformedMessageError):
        _, pos = decode_response_header(encoded, header.api_key, header.api_version)
        stats = ApiStats(entry.name, None)
        stats.count_errors(decode(entry.api.response, encoded, header.api_version, pos))
        return next((for_code(code).name for code in stats.errors if code != 0), None)
    return None


def _decoded(request: type[Request[Any]], frame: memoryview, version: int, pos: int) -> Any:
    """Return the request; None if it cannot be decoded, or has too many items to decode it in one step."""
    steps = decode_in_slices(request, frame, version, pos, MAX_ITEMS)
    try:
        next(steps)
    except StopIteration as done:
        return done.value
    except (MalformedMessageError, UnsupportedVersionError):
        return None
    steps.close()
    return None


def _topics(request: Any) -> dict[str, Any]:
    """Return the first topics of a Produce or Fetch request as attributes: names, or ids if the client uses ids."""
    topics = request.topic_data if isinstance(request, ProduceRequest) else request.topics
    named = [getattr(topic, "name", "") or getattr(topic, "topic", "") or str(topic.topic_id) for topic in topics]
    if len(named) == 1:
        return {"messaging.destination.name": named[0]}
    return {"kafka.topics": named[:MAX_NAMES]} if named else {}


def _links(request: ProduceRequest) -> Iterator[Link]:
    partitions = [partition for topic in request.topic_data for partition in topic.partition_data]
    for partition in partitions[:MAX_NAMES]:
        context = _sender(partition.records)
        if context is not None:
            yield Link(context, {"messaging.destination.partition.id": str(partition.index)})


def _sender(records: Any) -> trace.SpanContext | None:
    """Return the trace context in the headers of the first record; None if there is none, or if the batch is
    compressed, corrupt, of an older format or larger than MAX_LINKED_BYTES.
    """
    if records is None or not HEADER_BYTES < len(records) <= MAX_LINKED_BYTES or records[16] != MAGIC:
        return None
    with suppress(CorruptMessageError):
        header = read_header(records)
        if header.codec != NONE or header.count < 1:
            return None
        carrier = {name: (value or b"").decode("utf-8", "replace") for name, value in first_headers(records, 0, header)}
        sender = trace.get_current_span(propagate.extract(carrier, otel_context.Context())).get_span_context()
        return sender if sender.is_valid else None
    return None
