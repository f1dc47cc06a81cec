"""The table is complete: every option of the source has a row."""

from __future__ import annotations

from tests.spark.connector.sink_table import INVALID_WRITES, WRITES
from tests.spark.connector.table import (
    ALWAYS,
    BATCHES,
    INVALID_BATCHES,
    INVALID_STREAMS,
    STREAMS,
    InvalidRead,
    Named,
    Row,
    Stream,
)

from ottla.spark.options.options import FORBIDDEN_KAFKA, OPTIONS

OTTLA_ONLY = {
    "commitGroupId",
    "filterPushdown",
    "ottla.log.dirs",
    "ottla.table",
    "ottla.table.catalog.config",
    "ottla.table.directory",
}
PASSED_ON = {"kafka.isolation.level", "kafka.group.id", *(f"kafka.{name}" for name in FORBIDDEN_KAFKA)}


def test_rows_that_always_run_exist() -> None:
    rows: list[Named] = [*BATCHES, *STREAMS, *INVALID_BATCHES, *INVALID_STREAMS, *WRITES, *INVALID_WRITES]
    assert {row.name for row in rows} >= ALWAYS


def test_every_option_has_a_row() -> None:
    rows: list[Row | Stream | InvalidRead] = [*BATCHES, *STREAMS, *INVALID_BATCHES, *INVALID_STREAMS]
    used = {name for row in rows for name in row.options}
    assert {row.name for row in OPTIONS} - OTTLA_ONLY | PASSED_ON <= used


def test_every_stream_option_has_a_valid_row() -> None:
    used = {name for row in STREAMS for name in row.options}
    assert {row.name for row in OPTIONS if row.applies_to == "stream"} - OTTLA_ONLY <= used


def test_every_batch_option_has_a_valid_row() -> None:
    used = {name for row in BATCHES for name in row.options}
    assert {row.name for row in OPTIONS if row.applies_to != "stream"} - OTTLA_ONLY <= used
