"""`format("ottla")` as sink: an interrupted micro-batch that is retried."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from ottla import KafkaAdminClient
from ottla.errors import IllegalStateError
from ottla.spark.options.sink_options import sink_options
from ottla.spark.sink.topic_sink import TopicSink
from ottla.spark.sink.writer import StreamWriter, Task

pytestmark = pytest.mark.interop


def rows() -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"value": pa.array([b"v"] * 10)})])


def test_micro_batch_retried_with_fewer_tasks_is_rejected_until_markers_are_deleted(address: str) -> None:
    query, topic = uuid.uuid4().hex, f"sink-{uuid.uuid4().hex[:8]}"
    sink = TopicSink(sink_options({"kafka.bootstrap.servers": address, "topic": topic}))
    writer = StreamWriter(sink)
    for batch_id in (0, 1):
        writer.commit([sink.write(Task(query, batch_id, task, "first"), rows()) for task in range(3)], batch_id)
    sink.write(Task(query, 2, 2, "first"), rows())
    reported = [sink.write(Task(query, 2, task, "second"), rows()) for task in range(2)]
    with pytest.raises(IllegalStateError, match=r"10 rows were written by tasks that have no rows now \(2\)"):
        writer.commit(reported, 2)
    with KafkaAdminClient(bootstrap_servers=address) as admin:
        admin.delete_consumer_groups([sink.name(Task(query, 2, 2))])
    writer.commit(reported, 2)
    assert all(sink.write(Task(query, 2, task, "third"), rows()).known for task in range(2))
