"""`format("ottla")` against our broker."""

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.functions import expr

from ottla import NewTopic
from ottla.broker.embedded import Broker
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.producer.producer import KafkaProducer
from ottla.spark.environment.spark_versions import HAS_READ_LIMITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

PARTITIONS = 3
needs_limits = pytest.mark.skipif(not HAS_READ_LIMITS, reason="limits of streams need Spark 4.2")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    # Readers of log directories see the state of the last checkpoint.
    options = {"num.partitions": str(PARTITIONS), "replica.high.watermark.checkpoint.interval.ms": "100"}
    with Broker(options) as started:
        yield started


@pytest.fixture(scope="module")
def producer(broker: Broker) -> Iterator[KafkaProducer]:
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=1) as made:
        yield made


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


Send = Callable[..., None]


@pytest.fixture
def send(producer: KafkaProducer, topic: str) -> Send:
    """Return a function that sends the given numbers of numbered records to the partitions."""
    sent = [0] * PARTITIONS

    def send(*counts: int, timestamp_ms: int | None = None) -> None:
        for partition, count in enumerate(counts):
            for _ in range(count):
                value = b"%d-%d" % (partition, sent[partition])
                time_ms = timestamp_ms if timestamp_ms is not None else 1000 * sent[partition]
                producer.send(topic, value, key=b"k", partition=partition, timestamp_ms=time_ms)
                sent[partition] += 1
        producer.flush()

    return send


Load = Callable[..., "DataFrame"]


@pytest.fixture
def load(spark: "SparkSession", broker: Broker, topic: str) -> Load:
    def load(**options: Any) -> "DataFrame":
        arguments = options if {"assign", "subscribePattern"} & options.keys() else {"subscribe": topic, **options}
        reader = spark.read.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap_servers)
        return reader.options(**arguments).load()

    return load


def values(frame: "DataFrame") -> set[str]:
    return {row["v"] for row in frame.selectExpr("cast(value as string) v").collect()}


def values_of(partition: int, *offsets: int) -> set[str]:
    return {f"{partition}-{n}" for n in range(*offsets)}


def test_batch_reads_every_record_once(load: Load, send: Send) -> None:
    send(50, 30, 0)
    rows = load().collect()
    assert len(rows) == 80
    assert {row["value"].decode() for row in rows} == values_of(0, 50) | values_of(1, 30)
    assert all(f"{r['partition']}-{r['offset']}" == r["value"].decode() for r in rows)


def test_schema_selects_the_columns(
    spark: "SparkSession", broker: Broker, topic: str, send: Send, tmp_path: Path
) -> None:
    send(20)
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, "startingOffsets": "earliest"}
    schema = "offset bigint, value binary"
    rows = spark.read.format("ottla").schema(schema).options(**options).load().orderBy("offset").collect()
    assert [tuple(row) for row in rows] == [(n, b"0-%d" % n) for n in range(20)]
    stream = spark.readStream.format("ottla").schema(schema).options(**options).load()
    writer = stream.writeStream.format("memory").queryName("named").trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination()
    written = spark.table("named").orderBy("offset").collect()  # binary values are bytearrays before Spark 4.1
    assert [(offset, bytes(value)) for offset, value in written] == [tuple(row) for row in rows]


def test_rows_have_the_columns_of_sparks_connector(load: Load, send: Send, topic: str, producer: KafkaProducer) -> None:
    send(1)
    producer.send(topic, None, key=None, partition=1, headers=[("h", b"\x00"), ("n", None)], timestamp_ms=5)
    producer.flush()
    frame = load(includeHeaders="true")
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    plain, headed = sorted(
        frame.withColumn("ms", frame.timestamp.cast("double")).collect(), key=lambda r: r["partition"]
    )
    assert plain["headers"] is None
    assert (headed["key"], headed["value"], headed["ms"]) == (None, None, 0.005)
    assert [(h["key"], h["value"]) for h in headed["headers"]] == [("h", bytearray(b"\x00")), ("n", None)]
    assert (plain["topic"], plain["timestampType"]) == (topic, 0)


def test_starting_and_ending_offsets_bound_a_batch(load: Load, send: Send, topic: str) -> None:
    send(50, 30, 10)
    starting = f'{{"{topic}": {{"0": 10, "1": -2, "2": 10}}}}'
    ending = f'{{"{topic}": {{"0": 20, "1": -1, "2": 10}}}}'
    assert values(load(startingOffsets=starting, endingOffsets=ending)) == values_of(0, 10, 20) | values_of(1, 30)


def test_starting_and_ending_timestamps_bound_a_batch(load: Load, send: Send, topic: str) -> None:
    send(50, 30, 10)
    assert values(load(startingTimestamp="9000", endingTimestamp="20000")) == values_of(0, 9, 20) | values_of(
        1, 9, 20
    ) | values_of(2, 9, 10)
    late = load(startingTimestamp="29000", startingOffsetsByTimestampStrategy="latest")
    assert values(late) == values_of(0, 29, 50) | values_of(1, 29, 30)
    by_time = f'{{"{topic}": {{"0": 48000, "1": 29000, "2": 9000}}}}'
    assert values(load(startingOffsetsByTimestamp=by_time)) == values_of(0, 48, 50) | values_of(1, 29, 30) | values_of(
        2, 9, 10
    )


def test_assign_reads_only_the_given_partitions(load: Load, send: Send, topic: str) -> None:
    send(5, 5, 5)
    assert values(load(assign=f'{{"{topic}": [0, 2]}}')) == values_of(0, 5) | values_of(2, 5)


def test_subscribe_pattern_matches_parts_of_topic_names(load: Load, send: Send, topic: str) -> None:
    send(5)
    assert values(load(subscribePattern=topic[4:])) == values_of(0, 5)


def test_min_partitions_splits_partitions_into_more_tasks(load: Load, send: Send) -> None:
    send(100, 100, 100)
    assert load().rdd.getNumPartitions() == PARTITIONS
    frame = load(minPartitions="6")
    assert frame.rdd.getNumPartitions() == 6
    assert values(frame) == values_of(0, 100) | values_of(1, 100) | values_of(2, 100)


def test_empty_topic_has_no_rows(spark: "SparkSession", broker: Broker, load: Load, topic: str) -> None:
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    assert load().collect() == []
    offline = spark.read.format("ottla").option("ottla.log.dirs", str(broker.data_dir)).option("subscribe", topic)
    assert offline.load().count() == 0


@pytest.mark.skipif(not hasattr(DataSourceReader, "pushFilters"), reason="filters are pushed down since Spark 4.1")
def test_pushed_filters_bound_the_offsets_that_are_read(load: Load, send: Send) -> None:
    send(50, 30, 20)
    some = load(filterPushdown="true").where("partition = 1 and offset >= 25")
    assert values(some) == values_of(1, 25, 30)
    assert some.rdd.getNumPartitions() == 1
    later = load(filterPushdown="true").where("timestamp >= timestamp '1970-01-01 00:00:40'")
    assert values(later) == values_of(0, 40, 50)
    assert later.rdd.getNumPartitions() == 1


def test_pushed_filters_of_one_query_do_not_bound_another(load: Load, send: Send) -> None:
    """Spark has one plan for all queries on a DataFrame, and applies the filters of the last one to it."""
    send(20, 20, 0)
    frame = load().select("partition", "offset")
    first = frame.where("partition = 0")
    few = frame.where("partition = 1 and offset < 5")
    assert [first.count(), frame.count(), few.count(), frame.count()] == [20, 40, 5, 40]
    assert first.union(few).count() == few.union(first).count() == 25
    assert frame.union(few).count() == 45
    assert first.alias("a").join(few.alias("b"), expr("a.offset = b.offset")).count() == 5


def test_log_directories_are_read_without_the_broker(
    spark: "SparkSession", broker: Broker, load: Load, send: Send, topic: str
) -> None:
    send(50, 30, 0)
    offline = spark.read.format("ottla").option("ottla.log.dirs", str(broker.data_dir)).option("subscribe", topic)
    deadline = time.monotonic() + 30
    while offline.load().count() < 80:
        assert time.monotonic() < deadline, "the broker writes no checkpoint"
    assert offline.load().exceptAll(load()).count() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets: a batch cannot start at latest"),
        ({"subscribe": "no-such-topic-here"}, "no such topic: no-such-topic-here"),
        ({"startingOffsets": '{"x": {"0": 1}}'}, "startingOffsets must name exactly the partitions"),
        ({"kafka.group.instance.id": "", "kafka.auto.offset.reset": "none"}, "kafka.auto.offset.reset"),
    ],
)
def test_errors_name_the_invalid_option(load: Load, send: Send, options: dict[str, str], message: str) -> None:
    send(1)
    with pytest.raises(Exception, match=message):  # Spark wraps the error.
        load(**options).collect()


def test_unsupported_options_are_reported_at_load(load: Load) -> None:
    with pytest.raises(Exception, match="minPartitions: '0' is not allowed"):
        load(minPartitions="0")


def test_missing_offsets_fail_unless_fail_on_data_loss_is_false(load: Load, send: Send, topic: str) -> None:
    send(5, 5, 5)
    beyond = f'{{"{topic}": {{"0": 9, "1": -1, "2": -1}}}}'
    with pytest.raises(Exception, match=r"-0: it ends at 5, before the endingOffsets 9.*failOnDataLoss"):
        load(endingOffsets=beyond).collect()
    assert len(values(load(endingOffsets=beyond, failOnDataLoss="false"))) == 15


class Stream:
    """A streaming query that collects its rows, and can be restarted on its checkpoint."""

    def __init__(self, spark: "SparkSession", servers: str, topic: str, directory: Path) -> None:
        self.spark = spark
        self.options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
        self.checkpoint = str(directory / "checkpoint")
        self.batches: list[list[str]] = []
        self.fail_in: int | None = None

    def run(self, **options: str) -> None:
        frame = self.spark.readStream.format("ottla").options(**self.options, **options).load()
        writer = frame.selectExpr("cast(value as string) v").writeStream.foreachBatch(self._collect)
        query = writer.option("checkpointLocation", self.checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()

    def _collect(self, batch: "DataFrame", batch_id: int) -> None:
        if batch_id == self.fail_in:
            self.fail_in = None
            raise RuntimeError("killed")
        rows: list[Row] = batch.collect()
        self.batches.append(sorted(row["v"] for row in rows))

    @property
    def all(self) -> list[str]:
        return sorted(v for batch in self.batches for v in batch)


@pytest.fixture
def stream(spark: "SparkSession", broker: Broker, topic: str, tmp_path: Path) -> Stream:
    return Stream(spark, broker.bootstrap_servers, topic, tmp_path)


@needs_limits
def test_available_now_reads_all_records_in_limited_micro_batches(stream: Stream, send: Send) -> None:
    send(100, 100, 100)
    stream.run(startingOffsets="earliest", maxOffsetsPerTrigger="100")
    assert [len(batch) for batch in stream.batches] == [99, 99, 99, 3]
    assert stream.all == sorted(values_of(0, 100) | values_of(1, 100) | values_of(2, 100))


def test_read_offsets_are_committed_to_a_group(stream: Stream, send: Send, broker: Broker, topic: str) -> None:
    send(50, 30, 0)
    limit = {"maxOffsetsPerTrigger": "30"} if HAS_READ_LIMITS else {}
    stream.run(startingOffsets="earliest", commitGroupId="dashboard", **limit)
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        reported = admin.list_consumer_group_offsets("dashboard")
    assert {tp.partition: at.offset for tp, at in reported.items() if tp.topic == topic} == {0: 50, 1: 30, 2: 0}


def test_restarted_query_resumes_from_its_checkpoint(stream: Stream, send: Send) -> None:
    send(5)
    stream.run(startingOffsets="earliest")
    send(3, 2)
    stream.run(startingOffsets="earliest")
    assert stream.batches[1] == sorted(values_of(0, 5, 8) | values_of(1, 2))
    stream.run(startingOffsets="earliest")
    assert len(stream.batches) == 2


def test_failed_micro_batch_is_retried_with_the_same_rows(stream: Stream, send: Send) -> None:
    send(5)
    stream.run(startingOffsets="earliest")
    send(5)
    stream.fail_in = 1
    with pytest.raises(Exception, match="killed"):  # Spark wraps the error.
        stream.run(startingOffsets="earliest")
    send(5)
    stream.run(startingOffsets="earliest")
    assert stream.batches[1:] == [sorted(values_of(0, 5, 10)), sorted(values_of(0, 10, 15))]


def test_latest_is_resolved_once_if_the_first_micro_batch_fails(
    stream: Stream, send: Send, spark: "SparkSession"
) -> None:
    send(5)
    frame = spark.readStream.format("ottla").options(**stream.options, startingOffsets="latest").load()
    writer = frame.selectExpr("cast(value as string) v").writeStream.foreachBatch(stream._collect)
    stream.fail_in = 0
    query = writer.option("checkpointLocation", stream.checkpoint).start()
    with pytest.raises(Exception, match="killed"):  # Spark wraps the error.
        query.awaitTermination(60)
    send(2)
    stream.run(startingOffsets="latest")
    assert stream.all == sorted(values_of(0, 5, 7))


def test_new_partition_is_read_from_its_beginning(
    stream: Stream, send: Send, broker: Broker, producer: KafkaProducer, topic: str
) -> None:
    send(5)
    stream.run(startingOffsets="earliest")
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_partitions({topic: PARTITIONS + 1})
    # The producer refreshes its metadata until the given partition exists.
    producer.send(topic, b"new-0", partition=PARTITIONS).get(30)
    stream.run(startingOffsets="earliest")
    assert stream.batches[1:] == [["new-0"]]


def test_deleted_topic_fails_the_stream(stream: Stream, send: Send, broker: Broker, topic: str) -> None:
    send(5)
    stream.run(startingOffsets="earliest")
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_topics([topic])
    with pytest.raises(Exception, match=r"-0.*no longer exist.*failOnDataLoss"):  # Spark wraps the error.
        stream.run(startingOffsets="earliest")


def test_ending_offsets_of_a_stream_are_rejected(stream: Stream, send: Send) -> None:
    send(1)
    with pytest.raises(Exception, match="endingOffsets: a stream has no end"):  # Spark wraps the error.
        stream.run(endingOffsets="latest")


def test_arrow_bounds_and_null_checks_are_disabled_in_the_jvm(spark: "SparkSession") -> None:
    assert spark._jvm is not None
    assert spark._jvm.org.apache.arrow.memory.BoundsChecking.BOUNDS_CHECKING_ENABLED is False
    assert spark._jvm.org.apache.arrow.vector.NullCheckingForGet.NULL_CHECKING_ENABLED is False
