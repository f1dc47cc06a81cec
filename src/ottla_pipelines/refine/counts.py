"""The pipeline of `--input`: events of a file, counted by hour and group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from ottla_pipelines.catalog import COUNTS, EVENT_ROWS
from ottla_pipelines.refine.batches import Refined

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SCHEMA = "seq bigint, row int, time timestamp, group string, event string"


class CountRefiner:
    """A pipeline without state that counts events by hour and group."""

    dataset = EVENT_ROWS.name

    def refine(self, events: DataFrame) -> Refined:
        """Return all rows, and the number of events by hour and group."""
        rows = events.select(F.from_json("value", _SCHEMA).alias("e")).select("e.row", "e.time", "e.group", "e.event")
        rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
        return Refined(rows, {COUNTS.name: [row.asDict() for row in counts(rows).collect()]})


def counts(rows: DataFrame) -> DataFrame:
    """Return the number of events by hour (UTC; empty string for events without a time) and group."""
    # window() would drop rows without a time, which must be counted, too.
    start = F.coalesce(F.date_format(F.date_trunc("hour", "time"), "yyyy-MM-dd'T'HH:mm:ss'Z'"), F.lit(""))
    return rows.groupBy(start.alias("window_start"), F.col("group").alias("event_group")).agg(
        F.count("*").alias("events")
    )
