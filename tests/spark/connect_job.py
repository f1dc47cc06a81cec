"""The client of a Spark Connect server: `python -m tests.spark.connect_job REMOTE ADDRESS TOPIC FOLDER`.

Prints its results as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import ottla.spark


def main(remote: str, address: str, topic: str, folder: str) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(remote).getOrCreate()
    brokers = {"kafka.bootstrap.servers": address}
    rows_without_register = spark.read.format("ottla").options(**brokers, subscribe=topic).load().count()
    ottla.spark.register(spark)
    rows = spark.read.format("ottla").options(**brokers, subscribe=topic).load()
    stream = spark.readStream.format("ottla").options(**brokers, subscribe=topic, startingOffsets="earliest").load()

    def copy(frame: Any, sink: str, name: str, **options: str) -> None:
        query = frame.writeStream.format(sink).options(**options).queryName(name)
        query = query.option("checkpointLocation", str(Path(folder, name)))
        query.trigger(availableNow=True).start().awaitTermination()

    assert "value" in stream.columns  # Planned in a Python worker, whose accumulators must not be sent to the listener.
    with ottla.spark.monitor(spark, terminal=False) as monitor:
        copy(stream.select("key", "value"), "ottla", "topic", **brokers, topic=f"{topic}-copy")
        texts = stream.selectExpr("cast(value as string) as value")
        copy(texts, "ottla.sql", "table", url=f"sqlite:///{folder}/copy.db", dbtable="copy")
    refused, failed, again = (
        written_and_failed(texts, Path(folder), f"{name}.failed", options)
        for name, options in (("unnamed", {}), ("named", {"batchId": "?"}), ("named", {"batchId": "?"}))
    )
    spark.range(10).selectExpr("cast(id as string) as value").write.format("ottla").options(
        **brokers, topic=f"{topic}-batch"
    ).mode("append").save()
    seen = {
        "remote": type(spark).__module__,
        "refused": refused,
        "failed": failed,
        "again": again,
        "rows without register": rows_without_register,
        "rows": rows.count(),
        "filtered": rows.where("partition = 0 and offset < 3").count(),
        "watched": json.loads(monitor.to_json())["queries"],
    }
    print(json.dumps(seen))
    spark.stop()


def written_and_failed(texts: Any, folder: Path, name: str, options: dict[str, str]) -> str:
    """Write in foreachBatch, and fail after the write the first time. Return the error, or an empty string."""
    url = f"sqlite:///{folder}/copy.db"

    def write(rows: Any, batch_id: int) -> None:
        existing = {"batchId": str(batch_id)} if options else {}
        table = {"url": url, "dbtable": "once", "sinkId": "once", **existing}
        rows.write.format("ottla.sql").options(**table).mode("append").save()
        if not (folder / name).exists():
            (folder / name).touch()
            raise RuntimeError("after the write")

    query = texts.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / f"{name}.checkpoint"))
    try:
        query.trigger(availableNow=True).start().awaitTermination()
    except Exception as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
