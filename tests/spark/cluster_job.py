"""A job for a cluster: `ottla spark-submit --master spark://… cluster_job.py ADDRESS TOPIC DATABASE FOLDER`.

Writes its results to FOLDER/seen.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def where(_: int) -> str:
    import ottla.records

    return f"{ottla.__file__} {ottla.records.COMPILED}"


def copy(rows: Any, sink: str, options: dict[str, str], checkpoint: Path) -> None:
    query = rows.writeStream.format(sink).options(**options).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()


def main(address: str, topic: str, database: str, folder: str) -> None:
    spark = SparkSession.builder.appName("cluster").getOrCreate()
    source = {"kafka.bootstrap.servers": address, "subscribe": topic}
    seen = {
        "ottla": sorted(set(spark.sparkContext.parallelize(range(4), 4).map(where).collect())),
        "rows": spark.read.format("ottla").options(**source).load().count(),
    }
    everything = spark.readStream.format("ottla").options(**source, startingOffsets="earliest")
    rows = everything.option("maxOffsetsPerTrigger", 2000).load().selectExpr("key", "value")
    copy(rows, "ottla", {"kafka.bootstrap.servers": address, "topic": f"{topic}-copy"}, Path(folder, "topic"))
    texts = everything.load().selectExpr("cast(key as string) as key", "cast(value as string) as value")
    copy(texts, "ottla.sql", {"url": f"sqlite:///{database}", "dbtable": "copy"}, Path(folder, "table"))
    # A batch of Arrow data through the sink, in several tasks.
    batch = spark.range(0, 20_000, 1, 4).selectExpr("cast(id as string) as value")
    target = {"kafka.bootstrap.servers": address, "topic": f"{topic}-batch"}
    batch.write.format("ottla").options(**target).mode("append").save()
    Path(folder, "seen.json").write_text(json.dumps(seen))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
