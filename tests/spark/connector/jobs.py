"""Jobs with the same code for both connectors, and their results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

QUERY_SECONDS = 60


@dataclass
class JobResult:
    """The result of a job."""

    schema: str = ""
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    tasks: int = 0
    batches: list[list[tuple[Any, ...]]] = field(default_factory=list)
    """Rows of each micro-batch that had any."""
    offsets: list[Any] = field(default_factory=list)
    """The end offsets of each micro-batch."""


@dataclass(frozen=True)
class Jobs:
    """Runs jobs with one of the formats."""

    spark: SparkSession
    format: str
    servers: str

    def batch(self, options: Mapping[str, str], but: str = "") -> JobResult:
        """Read a batch, without the column `but`."""
        reader = self.spark.read.format(self.format).option("kafka.bootstrap.servers", self.servers)
        frame = reader.options(**options).load().drop(but)
        rows = frame.selectExpr(*columns(frame), "spark_partition_id()").collect()
        actual = sorted((plain(row) for row in rows), key=place)
        return JobResult(schema_of(frame), [row[:-1] for row in actual], len({row[-1] for row in actual}))

    def stream(self, options: Mapping[str, str], checkpoint: Path) -> JobResult:
        """Run a streaming query from its checkpoint until it has read all available records."""
        seen = JobResult()

        def collect(batch: DataFrame, _: int) -> None:
            rows = sorted((plain(row) for row in batch.selectExpr(*columns(batch)).collect()), key=place)
            if rows:
                seen.batches.append(rows)

        before = len(offsets_in(checkpoint))
        frame = self.stream_of(options)
        seen.schema = schema_of(frame)
        query = (
            frame.writeStream.foreachBatch(collect)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(QUERY_SECONDS), "the query does not end"
        finally:
            query.stop()
        seen.offsets = offsets_in(checkpoint)[before:]
        return seen

    def stream_of(self, options: Mapping[str, str]) -> DataFrame:
        """Return the frame of `spark.readStream`."""
        reader = self.spark.readStream.format(self.format).option("kafka.bootstrap.servers", self.servers)
        return reader.options(**options).load()

    def write(self, frame: DataFrame, options: Mapping[str, str]) -> None:
        """Write a batch."""
        writer = frame.write.format(self.format).option("kafka.bootstrap.servers", self.servers)
        writer.options(**options).mode("append").save()

    def write_stream(
        self, frame: DataFrame, options: Mapping[str, str], checkpoint: Path, mode: str = "append"
    ) -> StreamingQuery:
        """Start a query that writes all available rows."""
        writer = frame.writeStream.format(self.format).option("kafka.bootstrap.servers", self.servers)
        writer = writer.options(**options).option("checkpointLocation", str(checkpoint)).outputMode(mode)
        return writer.trigger(availableNow=True).start()


def offsets_in(checkpoint: Path) -> list[Any]:
    """Return the end offsets of each micro-batch in a checkpoint."""
    files = sorted((f for f in (checkpoint / "offsets").glob("*") if f.name.isdigit()), key=lambda f: int(f.name))
    return [json.loads(f.read_text().splitlines()[-1]) for f in files]


def columns(frame: DataFrame) -> list[str]:
    """Return expressions of all columns, with the timestamp as a number."""
    return [f"unix_micros({name}) as {name}" if name == "timestamp" else name for name in frame.columns]


def schema_of(frame: DataFrame) -> str:
    return frame.schema.json()


def plain(row: Any) -> tuple[Any, ...]:
    """Return a row with values that can be compared."""
    return tuple(_plain(value) for value in row)


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, (list, tuple)):
        return tuple(_plain(each) for each in value)
    return value


def place(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return topic, partition and offset of a row."""
    return row[2:5]
