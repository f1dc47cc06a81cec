"""The export of traces: OpenTelemetry's SDK with the exporters that its environment variables name.

    OTEL_SERVICE_NAME=kafka OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 ottla broker server.properties

A tracer provider that the program has set is used instead, such as that of `opentelemetry-instrument ottla broker`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Final, Self

from ottla.errors import StartupError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

log = logging.getLogger("ottla.broker")

EXPORTERS: Final = "opentelemetry_traces_exporter"
"""The group of entry points in which packages with exporters declare them."""
PROTOCOLS: Final = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
DEFAULT_SERVICE: Final = "ottla-broker"


class TraceExport:
    """The tracer provider that the broker has created, if the program had not set one."""

    def __init__(self, provider: TracerProvider | None) -> None:
        self._provider = provider

    @classmethod
    def from_environment(cls) -> Self:
        """Create and set the global tracer provider, unless there is one.

        Raises StartupError if the SDK or an exporter is not installed.
        """
        from opentelemetry import trace

        if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return cls(None)
        try:
            from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as missing:
            raise StartupError(
                f"ottla.tracing.sample.ratio needs an SDK: pip install opentelemetry-sdk ({missing})"
            ) from missing
        service = Resource({SERVICE_NAME: DEFAULT_SERVICE}).merge(OTELResourceDetector().detect())
        provider = TracerProvider(resource=Resource.create(service.attributes))
        for exporter in _exporters():
            provider.add_span_processor(BatchSpanProcessor(exporter))
        trace.set_tracer_provider(provider)
        return cls(provider)

    async def close(self) -> None:
        """Export the last spans and shut down the tracer provider, if the broker has created it."""
        if self._provider is not None:
            await asyncio.to_thread(self._provider.shutdown)


def _exporters() -> Iterator[Any]:
    """Yield the exporters that OTEL_TRACES_EXPORTER names (otlp by default)."""
    installed = {entry.name: entry for entry in entry_points(group=EXPORTERS)}
    for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
        if name.strip() not in ("", "none"):
            yield _exporter(name.strip(), installed).load()()


def _exporter(name: str, installed: dict[str, EntryPoint]) -> EntryPoint:
    names = [name]
    if name == "otlp":
        environment = os.environ
        protocol = environment.get(
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", environment.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
        )
        names = [PROTOCOLS[protocol]] if protocol in PROTOCOLS else list(PROTOCOLS.values())
    entry = next((installed[candidate] for candidate in names if candidate in installed), None)
    if entry is None:
        raise StartupError(
            f"OTEL_TRACES_EXPORTER={name}: no such exporter is installed "
            f"(there are: {', '.join(installed) or 'none'}); for example: "
            "pip install opentelemetry-exporter-otlp-proto-http"
        )
    return entry
