"""A streaming query that copies a topic, to be killed: `python -m tests.spark.copy_job ADDRESS FROM TO CHECKPOINT`.

TO is a topic, or the URL of a database with a table `copy`. Two more arguments, MIN_PARTITIONS and HELD: so many tasks,
of which the first ones, HELD of them, never come to write.

Ends when all that was there at its start is copied.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa

from ottla.spark.environment.spark_versions import HAS_READ_LIMITS
from ottla.spark.session import local_session

# Of few rows, most of the time would go into compiling code for them.
QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
}


def holding(tasks: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Passes rows on, but not those of the first tasks."""

    def held(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.partitionId() < tasks:
            threading.Event().wait()
        yield from batches

    return held


def main(address: str, source: str, target: str, checkpoint: str, min_partitions: str = "1", held: str = "0") -> None:
    # Who is held has a core of its own.
    spark = local_session("copy", cores=2 + int(held), config=QUICK)
    rows = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .options(**({"maxOffsetsPerTrigger": "1500"} if HAS_READ_LIMITS else {}))
        .option("minPartitions", min_partitions)
        .load()
    )
    sink = ("ottla", {"kafka.bootstrap.servers": address, "topic": target})
    if "://" in target:
        sink = ("ottla.sql", {"url": target, "dbtable": "copy"})
    copies = rows.selectExpr("cast(key as string) as key", "upper(cast(value as string)) as value")
    if int(held):
        copies = copies.mapInArrow(holding(int(held)), copies.schema)
    query = (
        copies.writeStream.format(sink[0])
        .options(**sink[1])
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
