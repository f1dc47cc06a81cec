"""Events of any file, counted by hour and group."""

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
    """A pipeline without state: every event is counted when it is read."""

    dataset = EVENT_ROWS.name

    def refine(self, events: DataFrame) -> Refined:
        """Return the rows unchanged, and their counts."""
        rows = events.select(F.from_json("value", _SCHEMA).alias("e")).select("e.row", "e.time", "e.group", "e.event")
        rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
        return Refined(rows, {COUNTS.name: [row.asDict() for row in counts(rows).collect()]})


def counts(rows: DataFrame) -> DataFrame:
    """Return the events per hour (UTC; empty for an event without a time) and group."""
    # window() would leave out rows without a time, which are counted as well.
    start = F.coalesce(F.date_format(F.date_trunc("hour", "time"), "yyyy-MM-dd'T'HH:mm:ss'Z'"), F.lit(""))
    return rows.groupBy(start.alias("window_start"), F.col("group").alias("event_group")).agg(
        F.count("*").alias("events")
    )
