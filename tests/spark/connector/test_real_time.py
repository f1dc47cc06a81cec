"""Spark's own connector in real-time mode: rows come out while their micro-batch still runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from tests.spark.connector.jobs import Jobs
from tests.spark.connector.table import noted, often

from ottla import KafkaConsumer, KafkaProducer, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_SECONDS = 60
LATENCY_SECONDS = 20
"""Milliseconds on a quiet machine; far less than a micro-batch on a busy one."""
START_SECONDS = 120


@pytest.fixture
def one_partition(spark: SparkSession) -> Iterator[None]:
    """Stages of a real-time query run at once: one task for the source and one behind the shuffle are two cores."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    assert before is not None
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


@noted("real-time mode", "rows and counts from topic to topic, one at a time")
@pytest.mark.parametrize("counted", often(False, True))
@pytest.mark.usefixtures("one_partition")
def test_rows_do_not_wait_for_their_micro_batch(counted: bool, theirs: Jobs, tmp_path: Path) -> None:
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
            assert arrived(consumer, START_SECONDS) == b"FIRST"
            for n in range(5):
                producer.send(source, b"row %d" % n).get(30)
                assert arrived(consumer, LATENCY_SECONDS) == b"ROW %d" % n
            assert query.lastProgress is None, "the first micro-batch has ended"
        finally:
            query.stop()


def arrived(consumer: KafkaConsumer, seconds: float) -> bytes | None:
    """The next record's value."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=500, max_records=1).values():
            value: bytes = records[0].value
            return value
    return None
