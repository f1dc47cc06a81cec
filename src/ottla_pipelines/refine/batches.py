"""The processing of a micro-batch that all pipelines share: exactly once, rows to Parquet, results to SQL.

    known id? ── yes → nothing
        │ no
    read the micro-batch once into memory; count the records of each partition
        │
    the pipeline's own work (`Refiner.refine`)
        │
    rows → Parquet, into the directory of this micro-batch, replacing the files of a killed attempt
        │
    results, offsets and the id → SQL, in one transaction

Only directories whose id is in the database count, so a killed attempt's rows are never seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from ottla.model import TopicPartition
from ottla_pipelines.catalog import batch_directory
from ottla_pipelines.refine.store import Read, Results, Rows, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Refined:
    """The results of a pipeline for one micro-batch."""

    rows: DataFrame
    """The rows for Parquet; cached by the pipeline if they are used more than once."""
    adds: Mapping[str, Rows]
    observations: Rows = ()
    frontiers: Rows = ()
    pending: Rows = ()
    cached: Sequence[DataFrame] = ()
    """Other data frames that the pipeline caches in Spark until the results are committed."""
    after: Callable[[], None] = field(default=lambda: None)
    """Called when the results are committed, so that the pipeline can update its state in memory."""


class Refiner(Protocol):
    """The part of the processing that differs between pipelines."""

    dataset: str
    """The name of the pipeline's Parquet dataset."""

    def refine(self, events: DataFrame) -> Refined:
        """Return the results of one micro-batch, whose columns are topic and value (text)."""
        ...


class Batches:
    """The function that Spark calls with each micro-batch (`foreachBatch`)."""

    def __init__(self, refiner: Refiner, store: Store, datasets: Path, checkpoint: Path) -> None:
        self.refiner = refiner
        self.store = store
        self.directory = datasets / refiner.dataset
        self.checkpoint = checkpoint

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Refine and commit one micro-batch, or do nothing if it was committed before."""
        query_id = query_id_of(self.checkpoint)
        if self.store.is_committed(batch_id, query_id):
            return
        cached = batch.select("topic", "partition", "offset", F.col("value").cast("string").alias("value"))
        cached = cached.persist(StorageLevel.MEMORY_AND_DISK)
        reads = reads_of(cached)
        refined = self.refiner.refine(cached.select("topic", "value"))
        rows_out = self._write_rows(refined.rows, batch_id)
        results = Results(reads, rows_out, refined.adds, refined.observations, refined.frontiers, refined.pending)
        self.store.commit(batch_id, query_id, results)
        refined.after()
        # Not in a finally: an error here ends the query, and with it the session that holds these.
        for frame in (refined.rows, *refined.cached, cached):
            frame.unpersist()

    def _write_rows(self, rows: DataFrame, batch_id: int) -> int:
        count = rows.count()
        if count:
            rows.coalesce(1).write.mode("overwrite").parquet(str(batch_directory(self.directory, batch_id)))
        return count


def reads_of(events: DataFrame) -> dict[TopicPartition, Read]:
    """Return the number of records from each partition, and the offset after the last one."""
    grouped = events.groupBy("topic", "partition").agg(F.max("offset").alias("last"), F.count("*").alias("records"))
    return {TopicPartition(r["topic"], r["partition"]): Read(r["last"] + 1, r["records"]) for r in grouped.collect()}


def query_id_of(checkpoint: Path) -> str:
    """Return the id that Spark gave the query when its checkpoint was made; restarts do not change it."""
    return str(json.loads((checkpoint / "metadata").read_text())["id"])
