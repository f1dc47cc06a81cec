"""A streaming query that copies a topic and is killed: `python -m tests.spark.copy_job ADDRESS FROM TO CHECKPOINT`.

TO is a topic, or the URL of a database with a table `copy`. Two optional arguments, MIN_PARTITIONS and
BLOCKED: the number of tasks, and how many of them block before they write.

Ends when all records that existed at its start are copied.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import pyarrow as pa

from ottla.spark.environment.spark_versions import HAS_READ_LIMITS
from ottla.spark.session import local_session

# For few rows, generating and compiling code would take most of the time.
QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
}


def block_first_tasks(tasks: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that passes rows through, except in the first tasks, which block forever."""

    def block_or_pass(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.partitionId() < tasks:
            threading.Event().wait()
        yield from batches

    return block_or_pass


def main(
    address: str, source: str, target: str, checkpoint: str, min_partitions: str = "1", blocked: str = "0"
) -> None:
    # A blocked task occupies a core.
    spark = local_session("copy", cores=2 + int(blocked), config=QUICK)
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
    if int(blocked):
        copies = copies.mapInArrow(block_first_tasks(int(blocked)), copies.schema)
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
