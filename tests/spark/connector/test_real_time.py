"""Spark's Kafka connector in real-time mode: rows are written while their micro-batch still runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from tests.spark.connector.jobs import Jobs
from tests.spark.connector.table import compatibility, first_or_all

from ottla import KafkaConsumer, KafkaProducer, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_SECONDS = 60
LATENCY_SECONDS = 20
"""Milliseconds on a quiet machine; far less than a micro-batch on a busy one."""
START_SECONDS = 120


@pytest.fixture
def one_partition(spark: SparkSession) -> Iterator[None]:
    """Stages of a real-time query run at the same time: a source task and one after the shuffle need two cores."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    assert before is not None
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


@compatibility("real-time mode", "rows and counts from topic to topic, one at a time")
@pytest.mark.parametrize("counted", first_or_all(False, True))
@pytest.mark.usefixtures("one_partition")
def test_real_time_query_writes_rows_before_the_micro_batch_ends(counted: bool, theirs: Jobs, tmp_path: Path) -> None:
    source, target = f"r{uuid4().hex[:8]}", f"r{uuid4().hex[:8]}"
    with (
        KafkaProducer(bootstrap_servers=theirs.servers) as producer,
        KafkaConsumer(bootstrap_servers=theirs.servers) as consumer,
    ):
        for topic in (source, target):
            producer.send(topic, b"first").get(30)
        consumer.assign([TopicPartition(target, 0)])
        consumer.seek(TopicPartition(target, 0), 1)
        rows = theirs.stream_of({"subscribe": source, "startingOffsets": "earliest"})
        rows = rows.selectExpr("upper(cast(value as string)) as value")
        if counted:
            rows = rows.groupBy("value").count().select("value")
        query = (
            rows.writeStream.format("kafka")  # type: ignore[call-overload]
            .option("kafka.bootstrap.servers", theirs.servers)
            .option("topic", target)
            .option("checkpointLocation", str(tmp_path))
            .outputMode("update")
            .trigger(realTime=f"{BATCH_SECONDS} seconds")
            .start()
        )
        try:
            assert next_value(consumer, START_SECONDS) == b"FIRST"
            for n in range(5):
                producer.send(source, b"row %d" % n).get(30)
                assert next_value(consumer, LATENCY_SECONDS) == b"ROW %d" % n
            assert query.lastProgress is None, "the first micro-batch has ended"
        finally:
            query.stop()


def next_value(consumer: KafkaConsumer, seconds: float) -> bytes | None:
    """Return the value of the next record."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=500, max_records=1).values():
            value: bytes = records[0].value
            return value
    return None
