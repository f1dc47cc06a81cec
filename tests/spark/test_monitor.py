"""Monitoring the streaming queries of a session."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla.spark
from ottla import KafkaProducer
from ottla.broker.embedded import Broker
from ottla.metrics.prometheus import PrometheusReporter
from ottla_console.cluster.spark_progress import read_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 100
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Broker({"num.partitions": 2}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def topic(address: str) -> str:
    name = f"watched-{uuid.uuid4().hex[:8]}"
    with KafkaProducer(bootstrap_servers=address) as producer:
        for i in range(RECORDS):
            producer.send(name, b"page %d" % (i % 7), partition=i % 2)
    return name


@pytest.fixture
def state_on_disk(spark: SparkSession) -> Iterator[None]:
    setting = "spark.sql.streaming.stateStore.providerClass"
    spark.conf.set(setting, ROCKSDB)
    yield
    spark.conf.unset(setting)


@pytest.mark.usefixtures("state_on_disk")
def test_monitor_reports_rates_lag_and_state_of_a_query(
    spark: SparkSession, address: str, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest"}
    rows = spark.readStream.format("ottla").options(**options, maxOffsetsPerTrigger="60").load()
    counts = rows.selectExpr("cast(value as string) as page").groupBy("page").count()
    reporter = PrometheusReporter()
    progress = tmp_path / "progress"
    with ottla.spark.monitor(spark, terminal=True, reporters=[reporter], progress_dir=progress) as monitor:
        query = counts.writeStream.outputMode("complete").format("noop").queryName("pages")
        query.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start().awaitTermination()
    [seen] = json.loads(monitor.to_json())["queries"]
    assert (seen["name"], seen["status"], seen["numInputRows"]) == ("pages", "ended", RECORDS)
    assert [batch["rows"] for batch in seen["recent"] if batch["rows"]] == [60, 40]
    assert seen["maxOffsetsBehindLatest"] == {topic: 40}
    assert seen["offsetsBehindLatest"] == {topic: 0}
    assert seen["state"]["rows"] == 7
    assert seen["state"]["memory_bytes"] > 0
    text = reporter.text()
    labels = '{query="pages"}'
    assert f"ottla_spark_streaming_query_metrics_input_rows_total{labels} 100.0" in text
    assert f'ottla_spark_streaming_query_metrics_offsets_behind_latest{{query="pages",topic="{topic}"}} 0.0' in text
    assert f"ottla_spark_streaming_query_metrics_state_rows{labels} 7.0" in text
    assert "pages (ended): batch" in capsys.readouterr().err
    page = monitor.report(tmp_path / "report.html").read_text()
    assert "pages: 100 rows in 2 micro-batches" in page
    assert "pages: rate by micro-batch" in page.partition("<figcaption>")[2]
    [row] = read_progress([progress], 0).queries
    name = spark.conf.get("spark.app.name")  # another test may have got the session by another name
    assert (row.name, row.application, row.status, row.rows, row.behind) == ("pages", name, "ended", 100, 0)
    assert row.state_rows == 7


def test_monitor_reports_a_query_of_sparks_kafka_connector(
    spark: SparkSession, no_connector: str | None, address: str, topic: str, tmp_path: Path
) -> None:
    if no_connector:
        pytest.skip(no_connector)
    options = {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest"}
    rows = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger="60").load()
    with ottla.spark.monitor(spark) as monitor:
        query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
        query.trigger(availableNow=True).start().awaitTermination()
    with monitor.histories.reading() as [seen]:
        assert (seen.status, seen.rows, seen.most_behind, seen.behind) == ("ended", RECORDS, {topic: 40}, {topic: 0})


def test_monitor_reports_the_error_of_a_failed_query(spark: SparkSession, address: str, topic: str) -> None:
    options = {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest"}
    rows = spark.readStream.format("ottla").options(**options).load()
    with ottla.spark.monitor(spark, terminal=False) as monitor:
        query = rows.selectExpr("raise_error('no such page')").writeStream.format("noop").start()
        with pytest.raises(Exception, match="no such page"):
            query.awaitTermination()
    with monitor.histories.reading() as [seen]:
        assert seen.status == "failed"
        assert "no such page" in (seen.error or "")
