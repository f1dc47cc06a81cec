"""Tasks of the topic sink: written records, repeated micro-batches, fencing and rejected rows."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)
from tests.whole_topic import whole_topic

from ottla import Broker, KafkaAdminClient, KafkaProducer, OffsetAndMetadata, TopicPartition
from ottla.client.admin.configs import TOPIC, ConfigResource
from ottla.errors import (
    ConfigurationError,
    IllegalStateError,
    InvalidTransactionTimeoutError,
    MessageTooLargeError,
    ProducerFencedError,
)
from ottla.spark.options.sink_options import CREATION, SinkOptions, check_columns, sink_options
from ottla.spark.sink.row_groups import row_groups
from ottla.spark.sink.topic_sink import TopicSink
from ottla.spark.sink.writer import BatchWriter, StreamWriter, Task, Written

FIRST_RUN, SECOND_RUN = "1ae47a74-5fa1-45bf-af38-1075f617d9ad", "000d783f-ab04-4ffb-98ee-12ff0a8dfea9"
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker({"num.partitions": 3}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return "".join(c if c.isalnum() else "-" for c in request.node.name)


def options_for(bootstrap: str, topic: str | None = None, **kafka: str) -> SinkOptions:
    options = {"kafka.bootstrap.servers": bootstrap, **{f"kafka.{k.replace('_', '.')}": v for k, v in kafka.items()}}
    return sink_options(options if topic is None else {**options, "topic": topic})


def write_task(task: Task, options: SinkOptions, batches: Iterator[Any]) -> Written:
    return TopicSink(options).write(task, batches)


def batch(**columns: Any) -> Any:
    types = {"partition": pa.int32(), "headers": HEADERS, "topic": pa.string(), "key": pa.binary()}
    return pa.RecordBatch.from_pydict(
        {name: pa.array(values, types.get(name, pa.binary())) for name, values in columns.items()}
    )


def read(bootstrap: str, topic: str) -> list[Any]:
    """Return the records that a read_committed consumer reads."""
    return whole_topic(bootstrap, topic, 3, isolation_level="read_committed")


def test_rows_are_written_with_key_value_partition_and_headers(bootstrap: str, topic: str) -> None:
    rows = batch(
        key=[b"k", None, b"z"],
        value=[b"1", None, b"3"],
        partition=[2, 1, None],
        headers=[[{"key": "h", "value": b"x"}], None, None],
    )
    assert write_task(Task("q", 0, 0), options_for(bootstrap, topic), iter([rows])).rows == 3
    actual = read(bootstrap, topic)
    assert {(r.key, r.value, tuple(r.headers)) for r in actual} == {
        (b"k", b"1", (("h", b"x"),)),
        (None, None, ()),
        (b"z", b"3", ()),
    }
    assert {r.key: r.partition for r in actual if r.key != b"z"} == {b"k": 2, None: 1}


def test_column_topic_determines_the_topic(bootstrap: str, topic: str) -> None:
    rows = batch(value=[b"a", b"b", b"c"], topic=[f"{topic}-1", f"{topic}-2", f"{topic}-1"])
    write_task(Task("q2", 0, 0), options_for(bootstrap), iter([rows]))
    assert [r.value for r in read(bootstrap, f"{topic}-1")] == [b"a", b"c"]
    assert [r.value for r in read(bootstrap, f"{topic}-2")] == [b"b"]


def test_repeated_micro_batch_is_recognised(bootstrap: str, topic: str) -> None:
    options = options_for(bootstrap, topic)
    repeated = [Task("again", 4, 1), Task("again", 4, 1), Task("again", 5, 1), Task("again", 5, 1)]
    written = [write_task(task, options, iter([batch(value=[b"%d" % task.batch_id] * 10)])) for task in repeated]
    assert [(w.rows, w.known) for w in written] == [(10, False), (10, True), (10, False), (10, True)]
    assert len(read(bootstrap, topic)) == 20


def test_other_tasks_and_queries_have_separate_markers(bootstrap: str, topic: str) -> None:
    options = options_for(bootstrap, topic)
    for task in (Task("own", 0, 0), Task("own", 0, 1), Task("other", 0, 0)):
        assert not write_task(task, options, iter([batch(value=[b"v"])])).known
    assert len(read(bootstrap, topic)) == 3


def test_missing_topic_is_created_with_the_configs_of_the_options(bootstrap: str, topic: str) -> None:
    creation = {"partitions": "2", "replication.factor": "1", "ottla.table.format": "iceberg"}
    options = {"topic": topic, **{f"{CREATION}{name}": value for name, value in creation.items()}}
    for batch_id in range(2):  # the second one finds the topic
        sink = sink_options({"kafka.bootstrap.servers": bootstrap, **options})
        write_task(Task(FIRST_RUN, batch_id, 0), sink, iter([batch(value=["a"])]))
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        assert len(admin.describe_topics([topic])[topic].partitions) == 2
        resource = ConfigResource(TOPIC, topic)
        assert admin.describe_configs([resource])[resource]["ottla.table.format"].value == "iceberg"


def test_equal_task_names_for_two_topics_write_both(bootstrap: str, topic: str) -> None:
    """A copied checkpoint does so, or two writes in a foreachBatch with the same sinkId."""
    for name in (f"{topic}-1", f"{topic}-2", f"{topic}-1"):
        write_task(Task("twice", 0, 0), options_for(bootstrap, name), iter([batch(value=[b"v"])]))
    assert [len(read(bootstrap, f"{topic}-{i}")) for i in (1, 2)] == [1, 1]


def test_repeated_micro_batch_with_fewer_tasks_is_rejected(bootstrap: str, topic: str) -> None:
    """Its rows would be in the topic twice, so the query fails."""
    options = options_for(bootstrap, topic)
    writer = StreamWriter(TopicSink(options))
    for task in (1, 12):  # of many, before all of them were killed
        write_task(Task("fewer", 4, task, FIRST_RUN), options, iter([batch(value=[b"v"] * 10)]))
    repeated = [Task("fewer", 4, task, SECOND_RUN) for task in range(2)]
    for _ in range(2):
        written = [write_task(task, options, iter([batch(value=[b"v"] * 10)])) for task in repeated]
        with pytest.raises(IllegalStateError, match=r"micro-batch 4 of query fewer .* 10 rows .* \(12\)") as error:
            writer.commit(written, 4)
    assert f"--bootstrap-server {bootstrap} --delete" in str(error.value)
    group = re.findall(r"--group (\S+)", str(error.value))
    assert group == [TopicSink(options).name(Task("fewer", 4, 12))]
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.delete_consumer_groups(group)
    writer.commit(written, 4)


def test_repeated_task_without_its_earlier_rows_is_rejected(bootstrap: str, topic: str) -> None:
    options = options_for(bootstrap, topic)
    write_task(Task("emptied", 0, 1, FIRST_RUN), options, iter([batch(value=[b"v"])]))
    rows = {0: [batch(value=[b"v"])], 1: []}
    written = [write_task(Task("emptied", 0, task, SECOND_RUN), options, iter(rows[task])) for task in rows]
    with pytest.raises(IllegalStateError, match=r"1 rows were written by tasks that have no rows now \(1\)"):
        StreamWriter(TopicSink(options)).commit(written, 0)


def test_repeated_micro_batch_with_the_same_tasks_is_accepted(bootstrap: str, topic: str) -> None:
    """Its rows may differ, for instance by a column with rand(). Tasks of an older micro-batch are ignored."""
    options = options_for(bootstrap, topic)
    writer = StreamWriter(TopicSink(options))
    older = [write_task(Task("same", 0, t, FIRST_RUN), options, iter([batch(value=[b"v"])])) for t in range(4)]
    writer.commit(older, 0)
    write_task(Task("same", 1, 1, FIRST_RUN), options, iter([batch(value=[b"%f" % random.random()])]))
    repeated = [Task("same", 1, task, SECOND_RUN) for task in range(2)]
    written = [write_task(task, options, iter([batch(value=[b"%f" % random.random()])])) for task in repeated]
    writer.commit([*written, Written(Task("same", 1, 2, SECOND_RUN), 0)], 1)
    assert [message.known for message in written] == [False, True]
    assert len(read(bootstrap, topic)) == 6


def test_earlier_tasks_are_looked_up_in_the_first_micro_batch_of_a_run(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = options_for(bootstrap, topic)
    writer = StreamWriter(TopicSink(options))
    arguments = []
    original = KafkaAdminClient.list_consumer_groups

    def recording(self: KafkaAdminClient) -> Any:
        arguments.append(batch_id)
        return original(self)

    monkeypatch.setattr(KafkaAdminClient, "list_consumer_groups", recording)
    for batch_id, run in enumerate([FIRST_RUN, FIRST_RUN, SECOND_RUN, SECOND_RUN, None, None]):
        tasks = [Task("first", batch_id, task, run) for task in range(2 + batch_id)]
        writer.commit([write_task(task, options, iter([batch(value=[b"v"])])) for task in tasks], batch_id)
    # If the run is unknown, every micro-batch may be its first one.
    assert arguments == [0, 2, 4, 5]


def test_commit_without_rows_sends_no_request() -> None:
    sink = TopicSink(options_for("127.0.0.1:1", "t"))
    StreamWriter(sink).commit([Written(Task("q", 0, 0, FIRST_RUN), 0)], 0)


def test_commit_continues_if_the_driver_cannot_reach_the_brokers(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = TopicSink(options_for("127.0.0.1:1", "t", request_timeout_ms="200"))
    short_timeouts = {**sink.options.connection, "default.api.timeout.ms": "500"}
    monkeypatch.setattr(sink, "_admin", lambda: KafkaAdminClient(short_timeouts))
    StreamWriter(sink).commit([Written(Task("q", 0, 0, FIRST_RUN), 5)], 0)
    assert "Could not check whether" in caplog.text


def test_batch_write_without_sink_id_does_not_look_up_other_tasks(bootstrap: str, topic: str) -> None:
    """Only writes with a sinkId are repeated."""
    BatchWriter(TopicSink(options_for("127.0.0.1:1", topic))).commit([Written(Task("job", 0, 0), 5)])
    named = TopicSink(replace(options_for(bootstrap, topic), sink_id="copy"))
    write_task(Task("q-copy", 3, 7, FIRST_RUN), named.options, iter([batch(value=[b"v"])]))
    with pytest.raises(IllegalStateError, match=r"\(7\)"):
        BatchWriter(named).commit([Written(Task("q-copy", 3, 0, SECOND_RUN), 5)])


def test_marker_is_read_with_require_stable(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without require_stable, Apache Kafka returns the offset before a pending commit (KIP-447)."""
    arguments = []
    original = KafkaAdminClient.list_consumer_group_offsets

    def recording(self: KafkaAdminClient, *args: Any, **options: Any) -> Any:
        arguments.append(options)
        return original(self, *args, **options)

    monkeypatch.setattr(KafkaAdminClient, "list_consumer_group_offsets", recording)
    write_task(Task("stable", 0, 0), options_for(bootstrap, topic), iter([batch(value=[b"v"])]))
    assert arguments == [{"require_stable": True}]


def test_failed_task_is_aborted_and_can_be_repeated(bootstrap: str, topic: str) -> None:
    options = options_for(bootstrap, topic)

    def failing_rows() -> Iterator[Any]:
        yield batch(value=[b"half"])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_task(Task("failing", 0, 0), options, failing_rows())
    assert not write_task(Task("failing", 0, 0), options, iter([batch(value=[b"whole"])])).known
    assert [r.value for r in read(bootstrap, topic)] == [b"whole"]


def test_earlier_attempt_of_a_task_is_fenced(bootstrap: str, topic: str) -> None:
    options = options_for(bootstrap, topic)
    name = TopicSink(options).name(Task("zombie", 0, 0))
    with KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name) as zombie:
        zombie.init_transactions()
        zombie.begin_transaction()
        zombie.send(topic, b"zombie").get(10)
        write_task(Task("zombie", 0, 0), options, iter([batch(value=[b"attempt 2"])]))
        with pytest.raises(ProducerFencedError):
            zombie.commit_transaction()
    assert [r.value for r in read(bootstrap, topic)] == [b"attempt 2"]


def test_repeated_micro_batch_with_another_row_count_is_an_error(bootstrap: str, topic: str) -> None:
    options = options_for(bootstrap, topic)
    write_task(Task("changed", 7, 0), options, iter([batch(value=[b"v"] * 3)]))
    with pytest.raises(IllegalStateError, match="had 3 rows .* has 2 now"):
        write_task(Task("changed", 7, 0), options, iter([batch(value=[b"v"] * 2)]))
    with pytest.raises(IllegalStateError, match="starts again at 6"):
        write_task(Task("changed", 6, 0), options, iter([batch(value=[b"v"] * 3)]))


def test_record_that_is_too_large_fails_the_task(bootstrap: str, topic: str) -> None:
    options = options_for(bootstrap, topic, max_request_size="1000")
    with pytest.raises(MessageTooLargeError, match=r"max\.request\.size"):
        write_task(Task("large", 0, 0), options, iter([batch(value=[b"fits", bytes(5000)])]))
    assert read(bootstrap, topic) == []


def test_record_with_headers_that_is_too_large_fails_the_task(bootstrap: str, topic: str) -> None:
    """The record was never in a batch, but the commit has to fail as well."""
    options = options_for(bootstrap, topic, max_request_size="1000")
    headers = [[{"key": "h", "value": b"x"}]] * 2
    with pytest.raises(MessageTooLargeError, match=r"max\.request\.size"):
        write_task(Task("large", 0, 0), options, iter([batch(value=[b"fits", bytes(5000)], headers=headers)]))
    assert read(bootstrap, topic) == []


def test_invalid_utf8_in_string_columns_is_written_unchanged(bootstrap: str, topic: str) -> None:
    text = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())
    headers = pa.array([[{"key": "h", "value": b"x"}]], HEADERS)
    for partition, columns in enumerate(([text, text], [text, text, headers])):
        rows = pa.RecordBatch.from_arrays(columns, ["key", "value", "headers"][: len(columns)])
        write_task(Task("raw", 0, partition), options_for(bootstrap, topic), iter([rows]))
    assert [(r.key, r.value) for r in read(bootstrap, topic)] == [(b"\xff\xfe", b"\xff\xfe")] * 2


@pytest.mark.parametrize("headers", [[None], [{"key": None, "value": b"x"}]])
def test_null_headers_are_rejected(bootstrap: str, topic: str, headers: list[Any]) -> None:
    with pytest.raises(ConfigurationError, match="the column headers has null"):
        write_task(Task("null", 0, 0), options_for(bootstrap, topic), iter([batch(value=[b"v"], headers=[headers])]))
    assert read(bootstrap, topic) == []


def test_writes_with_ambiguous_names_have_separate_markers(bootstrap: str, topic: str) -> None:
    for query, name in ((f"q-{topic}", "b-c"), (f"q-{topic}-b", "c")):
        written = write_task(Task(query, 0, 0), options_for(bootstrap, name), iter([batch(value=[b"v"])]))
        assert not written.known


def test_task_beyond_its_transaction_timeout_is_explained(topic: str) -> None:
    frequent_cleanup = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 50, "num.partitions": 3}
    with Broker(frequent_cleanup) as broker:
        options = options_for(broker.bootstrap_servers, topic, transaction_timeout_ms="200")

        def slow() -> Iterator[Any]:
            yield batch(value=[b"early"])
            with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
                while admin.describe_transactions([name])[name].state != "CompleteAbort":
                    time.sleep(0.05)
            yield batch(value=[b"late"])

        name = TopicSink(options).name(Task("long", 0, 0))
        with pytest.raises(ProducerFencedError, match=r"longer than kafka\.transaction\.timeout\.ms \(200\)"):
            write_task(Task("long", 0, 0), options, slow())
        assert read(broker.bootstrap_servers, topic) == []


def test_transaction_timeout_above_the_brokers_limit_is_reported(bootstrap: str, topic: str) -> None:
    options = options_for(bootstrap, topic, transaction_timeout_ms="2000000")
    with pytest.raises(InvalidTransactionTimeoutError, match=r"kafka\.transaction\.timeout\.ms is 2000000"):
        write_task(Task("q", 0, 0), options, iter([batch(value=[b"v"])]))


def test_offsets_that_are_not_markers_are_reported(bootstrap: str, topic: str) -> None:
    options = options_for(bootstrap, topic)
    task = Task("reset", 0, 0)
    write_task(task, options, iter([batch(value=[b"v"])]))
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(0, "")}
        admin.alter_consumer_group_offsets(TopicSink(options).name(task), offsets)
    with pytest.raises(IllegalStateError, match="not markers of this sink.* transactionalIdPrefix"):
        write_task(Task("reset", 1, 0), options, iter([batch(value=[b"v"])]))


def test_task_without_rows_does_not_connect() -> None:
    options = options_for("127.0.0.1:1", "t")
    assert write_task(Task("q", 0, 0), options, iter([batch(value=[])])).rows == 0


@pytest.mark.parametrize(
    ("column", "remedy"),
    [
        ({"topic": ["t", None]}, "null as its topic"),
        ({"topic": ["t", "t"], "partition": [0, -5]}, "-5"),
        ({"topic": ["t", "t"], "partition": [None, -1]}, "-1"),
    ],
)
def test_rows_without_topic_or_with_invalid_partition_are_rejected(column: dict[str, Any], remedy: str) -> None:
    with pytest.raises(ConfigurationError, match=remedy):
        list(row_groups(batch(value=[b"a", b"b"], **column), None))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "kafka.bootstrap.servers is required"),
        ({"kafka.bootstrap.servers": "h:1", "kafka.key.serializer": "x"}, "cast the column key"),
        ({"kafka.bootstrap.servers": "h:1", "kafka.transactional.id": "x"}, "transactionalIdPrefix"),
        ({"kafka.bootstrap.servers": "h:1", "topic": " "}, "topic: it is empty"),
        ({"kafka.bootstrap.servers": "h:1", "batchId": "3"}, r"batchId \(3\) needs the option sinkId"),
        ({"kafka.bootstrap.servers": "h:1", f"{CREATION}partitions": "4"}, "needs the option topic"),
        (
            {"kafka.bootstrap.servers": "h:1", "topic": "t", f"{CREATION}partitions": "0"},
            "partitions: '0' is not",
        ),
        ({"kafka.bootstrap.servers": "h:1", "sinkId": "x", "batchId": "last"}, "batchId: 'last'"),
    ],
)
def test_invalid_sink_options_are_rejected(options: dict[str, str], match: str) -> None:
    with pytest.raises(ConfigurationError, match=match):
        sink_options(options)


@pytest.mark.parametrize(
    ("columns", "topic", "match"),
    [
        ({"key": BinaryType()}, "t", "the column value is missing"),
        ({"value": BinaryType()}, None, "no topic is named"),
        ({"value": IntegerType()}, "t", "the column value is of type int, not binary or string"),
        ({"value": StringType(), "partition": LongType()}, "t", "the column partition is of type bigint"),
        ({"value": StringType(), "headers": ArrayType(StringType())}, "t", "the column headers is of type"),
    ],
)
def test_columns_of_unsupported_types_are_rejected(columns: dict[str, DataType], topic: str | None, match: str) -> None:
    schema = StructType([StructField(name, kind) for name, kind in columns.items()])
    with pytest.raises(ConfigurationError, match=match):
        check_columns(schema, SinkOptions(topic=topic))
