"""Fixtures of the unit tests."""

from __future__ import annotations

import contextlib
import importlib
import logging
import pkgutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.unit.slow_disk import SlowDisk

from ottla import logs, page_cache
from ottla.broker import handlers as broker_handlers
from ottla.net.server import connection

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


def pytest_collection_finish(session: pytest.Session) -> None:
    """Import what tests import when they run, once instead of in each forked process."""
    if not session.config.getoption("forks", 0):
        return
    handlers = [
        module.name for module in pkgutil.iter_modules(broker_handlers.__path__, f"{broker_handlers.__name__}.")
    ]
    for name in (*handlers, "sqlalchemy", "polars", "confluent_kafka", "uvicorn", "pyiceberg.catalog.sql"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


@pytest.fixture(autouse=True)
def unlimited_log() -> Iterator[None]:
    """Start the windows of rate-limited log lines again, and restore the levels that a command has set, so that no test
    loses lines because of earlier ones.
    """
    loggers = [logging.getLogger(name) for name in logs.LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        for limit in logger.filters:
            if isinstance(limit, logs.RateLimitFilter):
                limit.reset()
    yield
    for logger, level in zip(loggers, levels, strict=True):
        if logger.level != level:
            logger.setLevel(level)


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowDisk]:
    """Return a fake disk whose files the test can evict. The test fails if the event loop waits for the disk."""
    disk = SlowDisk()
    monkeypatch.setattr(page_cache, "os", disk)
    monkeypatch.setattr(page_cache, "RWF_NOWAIT", 8)
    monkeypatch.setattr(connection, "os", disk)
    yield disk
    disk.spins.set()
    assert not disk.waits_on_the_loop


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Return the exporter of the OpenTelemetry spans of this test."""
    trace = pytest.importorskip("opentelemetry.trace")
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    in_memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    provider = sdk.TracerProvider()
    exporter = in_memory.InMemorySpanExporter()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()
