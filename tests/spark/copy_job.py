"""A streaming query that copies a topic, to be killed: `python -m tests.spark.copy_job ADDRESS FROM TO CHECKPOINT`.

TO is a topic, or the URL of a database with a table `copy`.

Ends when all that was there at its start is copied.
"""

from __future__ import annotations

import sys

from ottla.spark.session import local_session

# Of few rows, most of the time would go into compiling code for them.
QUICK = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def main(address: str, source: str, target: str, checkpoint: str) -> None:
    spark = local_session("copy", config=QUICK)
    rows = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 1500)
        .load()
    )
    sink = ("ottla", {"kafka.bootstrap.servers": address, "topic": target})
    if "://" in target:
        sink = ("ottla.sql", {"url": target, "dbtable": "copy"})
    query = (
        rows.selectExpr("cast(key as string) as key", "upper(cast(value as string)) as value")
        .writeStream.format(sink[0])
        .options(**sink[1])
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
