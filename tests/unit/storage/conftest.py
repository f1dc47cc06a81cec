"""Fixtures for tests of storage: batches, and a log that can be opened again as after a restart."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.clock import ManualClock
from ottla.config.topic import LogConfig
from ottla.model import TopicPartition
from ottla.records import compression
from ottla.records.builder import BatchBuilder
from ottla.records.decoder import Record, decode_records
from ottla.storage.log import Log
from ottla.storage.recovery import open_log

TP = TopicPartition("orders", 0)
NOW = 1_700_000_000_000
Row = bytes | None | tuple[bytes | None, bytes | None] | tuple[int, bytes | None, bytes | None]


def batch(
    *rows: Row,
    timestamp: int = NOW,
    codec: int = compression.NONE,
    base_offset: int = 0,
    **options: Any,
) -> memoryview:
    """Return a writable batch of rows: a value, (key, value), or (timestamp, key, value)."""
    builder = BatchBuilder(bytearray(200_000), codec, base_offset=base_offset)
    for row in rows:
        match row:
            case (when, key, value):
                assert builder.append(when, key, value)
            case (key, value):
                assert builder.append(timestamp, key, value)
            case value:
                assert builder.append(timestamp, None, value)
    return memoryview(bytearray(builder.close(**options)))


def contents(log: Log) -> list[Record]:
    return [r for header, data in log.batches_from(0) for r in decode_records(data, 0, header)]


def values(log: Log) -> list[bytes | None]:
    return [r.value for r in contents(log)]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def make_log(tmp_path: Path, clock: ManualClock) -> Callable[..., Log]:
    """A function that opens the log in the directory of the test; it may be called again, as after a restart."""

    def make(*, clean: bool = False, recovery_point: int = 0, log_start_offset: int = 0, **config: Any) -> Log:
        return open_log(
            tmp_path / str(TP),
            TP,
            LogConfig(**{"file_delete_delay_ms": 1000, **config}),
            clock=clock,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
        )

    return make
