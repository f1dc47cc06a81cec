"""What every exactly-once sink has in common: who a task is, what it writes once, and Spark's two kinds of writers.

A task's rows and a marker with the micro-batch's id are stored together, in one transaction of whatever the sink writes
to. When Spark runs a micro-batch again, after whatever crash, the task finds the marker and leaves the rows alone.

What this rests on: the rows of a task are the same when a micro-batch runs again. Spark gives that for whatever is a
function of its sources and is cut into tasks as before; `rand()`, the current time, or another number of tasks in
between break it. Two things tell, and end in an error instead of silence: a marker has the number of rows, and when all
tasks are done, no marker of the micro-batch may be left that none of them has. What the rows are is not compared: in a
task their order may be another after a shuffle, and `rand()` may be in a column on purpose.

No task knows how many there are (Spark's TaskContext has no such number in Python), only the driver does, at the end.
So what it finds has been written. It looks at the first micro-batch of each run of a query; the others are new.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.errors import IllegalStateError
from ottla.spark.python_workers import SentToWorkers, keep_what_is_loaded

log = logging.getLogger("ottla.spark")

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"
"""Properties that Spark gives the jobs of a streaming query."""
MOST_RUNS: Final = 1000

_last_runs: dict[str, str | None] = {}
"""By place, the run whose first micro-batch was looked at. Spark keeps the driver's Python process while it is in use;
another one looks again."""


class Share(NamedTuple):
    """What one task writes: a partition of a micro-batch of a query (or of a single job)."""

    query: str
    batch_id: int
    partition: int
    run: str | None = None
    """The run of the query, from one start to its end; None where Spark does not tell it."""


class Marker(NamedTuple):
    """What a share's last transaction has left behind."""

    batch_id: int
    rows: int


class Written(WriterCommitMessage):
    """What a task tells the driver."""

    def __init__(self, share: Share, rows: int, already_committed: bool = False) -> None:
        self.share = share
        self.rows = rows
        self.known = already_committed
        """Whether the rows had been written before."""


class StaleTask(NamedTuple):
    """Rows of a micro-batch whose tasks have none of it now."""

    rows: int
    tasks: list[int]
    remedy: str
    """How their markers are removed, which lets the query go on."""


class Sink(Protocol):
    """Where rows go. Travels to the workers."""

    sink_id: str | None
    """In foreachBatch: names the write, which is then done once per micro-batch."""
    batch_id: int | None
    """The micro-batch, where Spark does not tell it."""

    def write(self, share: Share, batches: Iterator[pa.RecordBatch]) -> Written:
        """Store the rows and the marker together, unless the marker is there."""
        ...

    def place(self, share: Share) -> str:
        """What the share's query writes to."""
        ...

    def stale_task(self, share: Share, tasks: set[int]) -> StaleTask | None:
        """What others than `tasks` have written of the share's micro-batch."""
        ...


class StreamWriter(SentToWorkers, DataSourceStreamArrowWriter):
    """`df.writeStream`."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of one task. Runs in a worker."""
        keep_what_is_loaded()
        context = _context()
        # The query's id is kept by the checkpoint.
        query, batch_id = context.getLocalProperty(QUERY_ID), int(context.getLocalProperty(BATCH_ID))
        return self.sink.write(Share(query, batch_id, context.partitionId(), _run_of(context)), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Every task has committed. IllegalStateError where the micro-batch was cut into other tasks before."""
        _log_commit(messages, f"micro-batch {batchId}")
        check_tasks(self.sink, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """What tasks have committed stays; the micro-batch runs again and finds it."""
        _log_commit(messages, f"micro-batch {batchId} failed after")


class BatchWriter(SentToWorkers, DataSourceArrowWriter):
    """`df.write`: tasks that Spark runs again write once. With a sink id, so does foreachBatch."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.job = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of one task. Runs in a worker."""
        keep_what_is_loaded()
        return self.sink.write(self._share(_context()), iterator)

    def _share(self, context: Any) -> Share:
        sink_id, batch_id, partition = self.sink.sink_id, self.sink.batch_id, context.partitionId()
        if sink_id is None:
            return Share(self.job, 0, partition)
        if batch_id is not None:
            return Share(sink_id, batch_id, partition, _run_of(context))
        query = context.getLocalProperty(QUERY_ID)
        if query is None:
            # Through Spark Connect, too, where foreachBatch writes by requests of its own.
            raise IllegalStateError(
                f"sinkId {sink_id!r}: Spark does not tell this write its micro-batch, so it cannot be done once for"
                " each. In foreachBatch set the option batchId to the id that the function is given, and a sinkId that"
                " no other query has; elsewhere leave sinkId out"
            )
        return Share(f"{query}-{sink_id}", int(context.getLocalProperty(BATCH_ID)), partition, _run_of(context))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Every task has committed. IllegalStateError where the micro-batch was cut into other tasks before."""
        _log_commit(messages, "written")
        if self.sink.sink_id is not None:
            check_tasks(self.sink, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """What tasks have committed stays."""
        _log_commit(messages, "failed after")


def _context() -> Any:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "writes run in tasks"
    return context


def _run_of(context: Any) -> str | None:
    """Spark's job group is the run's id, a UUID. What else is there is the user's, the same in every run perhaps."""
    group = context.getLocalProperty(RUN_ID)
    try:
        return None if group is None else str(uuid.UUID(group))
    except ValueError:
        return None


def _log_commit(messages: Sequence[Any], what: str) -> None:
    """Log what the tasks have told."""
    written = [message for message in messages if message is not None]
    rows, skipped = sum(m.rows for m in written), sum(m.rows for m in written if m.known)
    log.info("%s: %d rows%s", what, rows, f", {skipped} of them written before" if skipped else "")


def check_tasks(sink: Sink, messages: Sequence[Any]) -> None:
    """IllegalStateError where tasks of an earlier run have written rows of this micro-batch that others have now."""
    filled: list[Written] = [message for message in messages if message is not None and message.rows]
    if not filled:
        return
    share = filled[0].share
    place = sink.place(share)
    if share.run is not None and _last_runs.get(place) == share.run:
        return
    left = sink.stale_task(share, {message.share.partition for message in filled})
    if left is not None:
        raise IllegalStateError(
            f"micro-batch {share.batch_id} of query {share.query} was interrupted, and has run again in other tasks:"
            f" {left.rows} rows were written by tasks that have none now ({', '.join(map(str, left.tasks))}), and again"
            " by others. What cuts it (minPartitions, maxRecordsPerPartition, repartition, the number of cores) has to"
            f" stay as it was until the micro-batch is done. To go on with these rows there twice, {left.remedy}"
        )
    if len(_last_runs) >= MOST_RUNS:
        _last_runs.clear()
    _last_runs[place] = share.run


def recognized(share: Share, before: Marker, rows: int, other_name: str) -> Written:
    """A micro-batch that was written before; IllegalStateError when it had other rows then, or is an older one.

    `other_name` is the option that gives a query that begins anew another name.
    """
    if before.batch_id == share.batch_id and rows != before.rows:
        raise IllegalStateError(
            f"micro-batch {share.batch_id} of query {share.query}, partition {share.partition}, had {before.rows} rows"
            f" when it was written and has {rows} now: the query is not a function of its sources (rand(), the current"
            " time), or is cut into other tasks than when it was interrupted (minPartitions, maxRecordsPerPartition,"
            " repartition, the number of cores: set them as they were), so it cannot be written exactly once"
        )
    if before.batch_id > share.batch_id:
        raise IllegalStateError(
            f"query {share.query} has written micro-batch {before.batch_id} already and begins again at"
            f" {share.batch_id}: its checkpoint is older than what was written; begin with a new checkpoint or another"
            f" {other_name}"
        )
    log.info("micro-batch %d, partition %d: %d rows are there already", share.batch_id, share.partition, rows)
    return Written(share, rows, True)
