"""The exactly-once processing of a micro-batch, which the pipelines of the demo share.

    id committed? ── yes → do nothing
       │ no
    read the micro-batch into memory; count the records of each partition
       │
    compute the results of the pipeline (`Refiner.refine`)
       │
    write the rows as Parquet to the directory of this micro-batch, replacing the files of an interrupted attempt
       │
    with a topic: write the rows to it in one transaction, which an interrupted attempt may have committed already
       │
    write results, offsets and the id to SQL in one transaction

Only directories of micro-batches whose id is in the database are read, so that rows of an interrupted attempt are
ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from ottla.model import TopicPartition
from ottla_pipelines.catalog import batch_directory
from ottla_pipelines.refine.store import Read, Results, Rows, Store

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TIMESTAMPS: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
"""The format of timestamps in JSON. Spark's default format has only milliseconds."""


@dataclass(frozen=True)
class Refined:
    """The results of a pipeline for one micro-batch."""

    rows: DataFrame
    """The rows to write. The pipeline persists them, or the DataFrame that they are selected from."""
    adds: Mapping[str, Rows]
    observations: Rows = ()
    frontiers: Rows = ()
    pending: Rows = ()
    cached: Sequence[DataFrame] = ()
    """Other DataFrames that the pipeline has persisted; they are released after the commit."""
    after: Callable[[], None] = field(default=lambda: None)
    """A function that is called after the commit, to update state in memory."""


class Refiner(Protocol):
    """The part of the processing that is different for each pipeline."""

    dataset: str
    """The name of the pipeline's Parquet dataset."""

    def refine(self, events: DataFrame) -> Refined:
        """Return the results of a micro-batch. `events` has the columns topic and value (string)."""
        ...


class Batches:
    """A function for `foreachBatch` that processes each micro-batch exactly once."""

    def __init__(
        self, refiner: Refiner, store: Store, datasets: Path, checkpoint: Path, topic: Mapping[str, str] | None = None
    ) -> None:
        self.refiner = refiner
        self.store = store
        self.directory = datasets / refiner.dataset
        self.checkpoint = checkpoint
        self.topic = topic
        """The options of the sink that writes the rows to a topic; None for no topic."""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Process and commit a micro-batch, or do nothing if it is committed already."""
        query_id = query_id_of(self.checkpoint)
        if self.store.is_committed(batch_id, query_id):
            return
        cached = batch.select("topic", "partition", "offset", F.col("value").cast("string").alias("value"))
        cached = cached.persist(StorageLevel.MEMORY_AND_DISK)
        reads = reads_of(cached)
        refined = self.refiner.refine(cached.select("topic", "value"))
        rows_out = self._write_rows(refined.rows, batch_id)
        if rows_out and self.topic is not None:
            self._send_rows(refined.rows, self.topic)
        results = Results(reads, rows_out, refined.adds, refined.observations, refined.frontiers, refined.pending)
        self.store.commit(batch_id, query_id, results)
        refined.after()
        # Not in a finally block: after an error the query and its session end, which releases these DataFrames.
        for frame in (refined.rows, *refined.cached, cached):
            frame.unpersist()

    def _write_rows(self, rows: DataFrame, batch_id: int) -> int:
        count = rows.count()
        if count:
            rows.coalesce(1).write.mode("overwrite").parquet(str(batch_directory(self.directory, batch_id)))
        return count

    def _send_rows(self, rows: DataFrame, options: Mapping[str, str]) -> None:
        json_rows = rows.select(F.col("row").cast("string").alias("key"), _as_json(rows).alias("value"))
        # One task: an interrupted micro-batch is recognized only if it has the same tasks when it runs again.
        json_rows.coalesce(1).write.format("ottla").options(**options, sinkId=self.refiner.dataset).mode(
            "append"
        ).save()


def _as_json(rows: DataFrame) -> Column:
    return F.to_json(F.struct(*(F.col(name) for name in rows.columns)), {"timestampFormat": TIMESTAMPS})


def reads_of(events: DataFrame) -> dict[TopicPartition, Read]:
    """Return the number of records of each partition, and the offset after its last record."""
    grouped = events.groupBy("topic", "partition").agg(F.max("offset").alias("last"), F.count("*").alias("records"))
    return {TopicPartition(r["topic"], r["partition"]): Read(r["last"] + 1, r["records"]) for r in grouped.collect()}


def query_id_of(checkpoint: Path) -> str:
    """Return the id of the query that a checkpoint belongs to. Restarts do not change it."""
    return str(json.loads((checkpoint / "metadata").read_text())["id"])
