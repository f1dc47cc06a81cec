"""A streaming query that copies a topic, to be killed: `python -m tests.spark.copy_job ADDRESS FROM TO CHECKPOINT`.

Ends when all that was there at its start is copied.
"""

from __future__ import annotations

import sys

from ottla.spark.session import local_session


def main(address: str, source: str, target: str, checkpoint: str) -> None:
    spark = local_session("copy")
    rows = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 3000)
        .load()
    )
    query = (
        rows.selectExpr("key", "upper(cast(value as string)) as value")
        .writeStream.format("ottla")
        .option("kafka.bootstrap.servers", address)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
