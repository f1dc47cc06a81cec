"""The table is whole: no option of the source without a row in it."""

from __future__ import annotations

from tests.spark.connector.sink_table import REFUSED, WRITES
from tests.spark.connector.table import BATCHES, OFTEN, STREAMS, WRONG_BATCHES, WRONG_STREAMS, Named, Row, Stream, Wrong

from ottla.spark.options.options import FORBIDDEN_KAFKA, OPTIONS

ONLY_OURS = {
    "commitGroupId",
    "filterPushdown",
    "ottla.log.dirs",
    "ottla.table",
    "ottla.table.catalog.config",
    "ottla.table.directory",
}
PASSED_ON = {"kafka.isolation.level", "kafka.group.id", *(f"kafka.{name}" for name in FORBIDDEN_KAFKA)}


def test_what_runs_often_is_in_the_tables() -> None:
    rows: list[Named] = [*BATCHES, *STREAMS, *WRONG_BATCHES, *WRONG_STREAMS, *WRITES, *REFUSED]
    assert {row.name for row in rows} >= OFTEN


def test_every_option_has_a_row() -> None:
    rows: list[Row | Stream | Wrong] = [*BATCHES, *STREAMS, *WRONG_BATCHES, *WRONG_STREAMS]
    used = {name for row in rows for name in row.options}
    assert {row.name for row in OPTIONS} - ONLY_OURS | PASSED_ON <= used


def test_every_option_of_streams_has_a_row_that_works() -> None:
    used = {name for row in STREAMS for name in row.options}
    assert {row.name for row in OPTIONS if row.applies_to == "stream"} - ONLY_OURS <= used


def test_every_option_of_batches_has_a_row_that_works() -> None:
    used = {name for row in BATCHES for name in row.options}
    assert {row.name for row in OPTIONS if row.applies_to != "stream"} - ONLY_OURS <= used
