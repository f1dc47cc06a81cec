"""The Structured Streaming job: `python -m ottla_pipelines.refine.job --run DIR --bootstrap-servers HOST:PORT`.

It ends when all events of the replay have been processed and committed. It may be killed at any time and started again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.errors import KafkaError
from ottla.spark.checkpoints import remove_torn_starts
from ottla.spark.session import FIRST_COMPILER_ONLY, local_session
from ottla_pipelines.ingest.nycflights import table
from ottla_pipelines.progress import report
from ottla_pipelines.refine.batches import Batches, Refiner
from ottla_pipelines.refine.counts import CountRefiner
from ottla_pipelines.refine.flights import FlightRefiner
from ottla_pipelines.refine.store import Store
from ottla_pipelines.run import Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MAX_OFFSETS = 60_000
"""The approximate maximum number of offsets in a micro-batch. It is large enough that the fixed cost of one or two
seconds hardly matters, and small enough that progress can be seen.
"""
_POLL_S = 0.2

SHORT_JOB = {
    # A job of a minute on two cores spends as much time on compiling and planning as on its data. For all flights of
    # the year, the JVM used 67 s of CPU time with these configs and 84 s without.
    "spark.driver.extraJavaOptions": f"{FIRST_COMPILER_ONLY} -XX:+UseParallelGC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}


def refiner_of(run: Run, spark: SparkSession, store: Store) -> Refiner:
    """Return the pipeline of the run."""
    if run.input:
        return CountRefiner()
    return FlightRefiner(spark, store, table("airlines.csv"), table("planes.csv"))


def start(run: Run, spark: SparkSession, store: Store, bootstrap_servers: str) -> StreamingQuery:
    """Start the query, which continues from its checkpoint if there is one."""
    events = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", ",".join(topic.name for topic in run.topics))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", MAX_OFFSETS)
        .load()
    )
    topic = {"kafka.bootstrap.servers": bootstrap_servers, "topic": run.dataset.topic} if run.table_format else None
    batches = Batches(refiner_of(run, spark, store), store, run.datasets, run.checkpoint, topic)

    def commit(batch: DataFrame, batch_id: int) -> None:
        batches(batch, batch_id)
        report_totals(store)

    remove_torn_starts(run.checkpoint)
    writer = events.writeStream.foreachBatch(commit).option("checkpointLocation", str(run.checkpoint))
    return writer.trigger(processingTime="1 second").queryName(run.noun).start()


def report_totals(store: Store) -> None:
    """Report the totals that have been committed."""
    count, records, rows = store.totals()
    report(batches=count, read=records, rows=rows)


def is_done(run: Run, store: Store) -> bool:
    """Return whether the replay is complete and all of its events have been committed."""
    ends = run.end_offsets()
    if ends is None:
        return False
    progress = store.progress()
    return all(tp in progress and progress[tp].next_offset >= end for tp, end in ends.items() if end)


def work(run: Run, bootstrap_servers: str) -> None:
    """Run the query until all events have been committed. Raises the error of the query."""
    with Store.open(run.database_url) as store:
        store.create()
        spark = local_session("ottla-demo", warehouse=run.directory / "warehouse", config=SHORT_JOB)
        report(spark=spark.version)
        report_totals(store)
        query = start(run, spark, store, bootstrap_servers)
        while not is_done(run, store):
            if not query.isActive:
                # Raises the error of the query.
                query.awaitTermination()
            time.sleep(_POLL_S)
        query.stop()
        # The last commit may have been seen here before the query reported it.
        report_totals(store)
        spark.stop()


def main(arguments: list[str] | None = None) -> int:
    """Run the job, and return the exit code."""
    parser = argparse.ArgumentParser(prog="ottla_pipelines.refine.job", description=__doc__)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--bootstrap-servers", required=True)
    args = parser.parse_args(arguments)
    try:
        work(Run.load(args.run), args.bootstrap_servers)
    except KafkaError as error:
        print(f"spark: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
