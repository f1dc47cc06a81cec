"""Writing with `format("ottla")`, exactly once: a Kafka transaction for each task of each micro-batch.

A task writes its rows in a transaction of its own, whose id names query and partition, and commits with it a marker: an
offset of a consumer group that carries the micro-batch's id. When Spark runs a micro-batch again, after whatever crash,
the task first takes its transactional id over, which rolls back what was left open, and then asks for the marker: where
it has this micro-batch, the rows are in the topic already. So records and marker come and go together.

What this rests on: the rows of a task are the same when a micro-batch runs again. Spark gives that for whatever is a
function of its sources; `rand()` or the current time in a query breaks it. The marker has the number of rows, so that
a difference there ends in an error instead of silence.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.client.admin import KafkaAdminClient
from ottla.client.producer import KafkaProducer
from ottla.client.producer_core import ProducerRecord
from ottla.errors import IllegalStateError
from ottla.model import OffsetAndMetadata, TopicPartition
from ottla.spark.parts import Part, parts_of
from ottla.spark.sink_options import SinkOptions

log = logging.getLogger("ottla.spark")

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""Properties that Spark gives the jobs of a streaming query."""


class Share(NamedTuple):
    """What one task writes: a partition of a micro-batch of a query (or of a single job)."""

    query: str
    batch_id: int
    partition: int

    def name(self, prefix: str) -> str:
        """Its transactional id, and the group that keeps its marker."""
        return f"{prefix}-{self.query}-{self.partition}"


class Written(WriterCommitMessage):
    """What a task tells the driver."""

    def __init__(self, rows: int, known: bool) -> None:
        self.rows = rows
        self.known = known
        """Whether the rows were in the topic already."""


class _Writer:
    """What both writers share. Travels to the workers."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self.job = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of one task. Runs in a worker."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "writes run in tasks"
        return write_share(self.share(context), self.options, iterator)

    def share(self, context: Any) -> Share:
        """Who the task is."""
        raise NotImplementedError

    def tell(self, messages: list[Any], what: str) -> None:
        """Log what the tasks have told."""
        told = [message for message in messages if message is not None]
        rows, known = sum(m.rows for m in told), sum(m.rows for m in told if m.known)
        log.info("%s: %d rows%s", what, rows, f", {known} of them written before" if known else "")


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """`df.writeStream.format("ottla")`."""

    def share(self, context: Any) -> Share:
        """By the query's id, which the checkpoint keeps, and the micro-batch's."""
        return Share(context.getLocalProperty(QUERY_ID), int(context.getLocalProperty(BATCH_ID)), context.partitionId())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing is left to do: every task has committed with its marker."""
        self.tell(messages, f"micro-batch {batchId}")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What tasks have committed stays; the micro-batch runs again and finds it."""
        self.tell(messages, f"micro-batch {batchId} failed after")


class BatchWriter(_Writer, DataSourceArrowWriter):
    """`df.write.format("ottla")`: tasks that Spark runs again write once. With `sinkId`, so does foreachBatch."""

    def share(self, context: Any) -> Share:
        """By a number of this job; in foreachBatch with a sinkId, by the query and the micro-batch."""
        query, sink_id = context.getLocalProperty(QUERY_ID), self.options.sink_id
        if query is None or sink_id is None:
            return Share(self.job, 0, context.partitionId())
        return Share(f"{query}-{sink_id}", int(context.getLocalProperty(BATCH_ID)), context.partitionId())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing is left to do."""
        self.tell(messages, "written")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What tasks have committed stays: a Kafka transaction cannot be taken back."""
        self.tell(messages, "failed after")


def write_share(share: Share, options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Write a task's rows and its marker in one transaction, unless the marker is there."""
    name = share.name(options.prefix)
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return Written(0, known=False)
    with KafkaProducer({**options.kafka, "transactional.id": name}) as producer:
        # First of all: an earlier attempt that still runs is fenced, and one that died half-way is rolled back.
        producer.init_transactions()
        before = _marker(name, options)
        if before is not None and before[0] >= share.batch_id:
            return _recognized(share, before, first.num_rows + sum(batch.num_rows for batch in filled))
        with producer.transaction():
            rows, place = _send(producer, chain([first], filled), options.topic)
            marker = OffsetAndMetadata(share.batch_id, json.dumps({"rows": rows}))
            producer.send_offsets_to_transaction({place: marker}, name)
    return Written(rows, known=False)


def _send(producer: KafkaProducer, batches: Iterable[pa.RecordBatch], topic: str | None) -> tuple[int, TopicPartition]:
    """Send all rows; how many, and a partition that exists, for the marker. The commit waits for their outcomes."""
    rows, written = 0, ""
    for batch in batches:
        rows += batch.num_rows
        for part in parts_of(batch, topic):
            written = part.topic
            if part.headers is not None and part.headers.null_count < len(part.headers):
                _send_rows(producer, part)
            else:
                producer.send_batch(part.topic, part.values, part.keys, partition=part.partition)
    return rows, TopicPartition(written, 0)


def _send_rows(producer: KafkaProducer, part: Part) -> None:
    """Rows with headers go one by one."""
    keys = part.keys if part.keys is not None else [None] * len(part.values)
    assert part.headers is not None
    for key, value, headers in zip(keys, part.values, part.headers, strict=True):
        pairs = [(pair["key"], pair["value"]) for pair in headers.as_py() or ()]
        plain_key = None if key is None else key.as_py()
        producer.send(ProducerRecord(part.topic, value.as_py(), plain_key, pairs, part.partition))


def _marker(group: str, options: SinkOptions) -> tuple[int, int] | None:
    """The last micro-batch that this share has written, and how many rows it had."""
    with KafkaAdminClient(options.connection) as admin:
        found = admin.list_consumer_group_offsets(group)
    markers = [(at.offset, int(json.loads(at.metadata)["rows"])) for at in found.values()]
    return max(markers) if markers else None


def _recognized(share: Share, before: tuple[int, int], rows: int) -> Written:
    """A micro-batch that was written before; IllegalStateError when it had other rows then."""
    batch_id, written = before
    if batch_id == share.batch_id and rows != written:
        raise IllegalStateError(
            f"micro-batch {share.batch_id} of query {share.query}, partition {share.partition}, had {written} rows when"
            f" it was written and has {rows} now: the query is not a function of its sources (rand(), the current time,"
            " another number of partitions), so it cannot be written exactly once"
        )
    if batch_id > share.batch_id:
        raise IllegalStateError(
            f"query {share.query} has written micro-batch {batch_id} already and begins again at {share.batch_id}:"
            " its checkpoint is older than the topic; begin with a new checkpoint or another transactionalIdPrefix"
        )
    log.info("micro-batch %d, partition %d: %d rows are there already", share.batch_id, share.partition, rows)
    return Written(rows, known=True)
