"""The common parts of the exactly-once sinks: tasks, markers, and Spark's two kinds of writers.

A task's rows and a marker with the micro-batch's id are stored in one transaction of the target. When Spark runs a
micro-batch again after a crash, the task finds the marker and does not write the rows again.

This requires that each task has the same rows when a micro-batch runs again. Spark guarantees that if the rows depend
only on the sources, and are divided into the same tasks. It is not the case with `rand()`, with the current time, or
with another number of tasks. Two checks find many of these cases, and raise an error: a task must have as many rows as
its marker says, and after all tasks have ended, no marker of the micro-batch may belong to a task that has no rows now.
The rows are not compared, because their order within a task may differ after a shuffle, and `rand()` in a column may be
intended.

A task does not know the number of tasks (Spark's TaskContext lacks it in Python); only the driver does, at the end. The
second check therefore runs after the rows have been written. A Python process of the driver makes it once per run of a
query, if Spark reports the run, because later micro-batches of the run are new.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ottla.errors import IllegalStateError
from ottla.spark.environment.python_workers import SentToWorkers, freeze_loaded_modules
from ottla.spark.environment.spark_versions import DataSourceStreamArrowWriter

log: Final = logging.getLogger("ottla.spark")

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"
"""The job property in which Spark stores the run id of a streaming query."""
KEPT: Final = ", which stay written"
MOST_RUNS: Final = 1000

_last_runs: dict[str, str | None] = {}
"""The run that was last checked, by target. Spark uses the driver's Python process for several micro-batches; a new
process checks again.
"""


class Task(NamedTuple):
    """The identity of a task: a partition of a micro-batch of a query, or of a batch job."""

    query: str
    batch_id: int
    partition: int
    run: str | None = None
    """Spark's run id, which changes when the query is restarted. None if Spark does not report it, or for a batch job
    without a sinkId.
    """


class Marker(NamedTuple):
    """A marker, which is committed together with the rows: the micro-batch that a task has written, and the number of
    rows.
    """

    batch_id: int
    rows: int


class Written(WriterCommitMessage):
    """The result of a task, which Spark sends to the driver."""

    def __init__(self, task: Task, rows: int, already_committed: bool = False) -> None:
        self.task = task
        self.rows = rows
        self.known = already_committed
        """Whether an earlier attempt has already written the rows."""


class StaleTask(NamedTuple):
    """The number of rows of a micro-batch that were written by tasks which have no rows when it runs again, and these
    tasks.
    """

    rows: int
    tasks: list[int]
    remedy: str
    """Instructions for deleting the markers of these tasks, so that the query can continue."""


class Sink(Protocol):
    """The target of the rows. Spark serializes it for the workers."""

    sink_id: str | None
    """The name of a write in foreachBatch, which then happens exactly once per micro-batch; None otherwise."""
    batch_id: int | None
    """The id of the micro-batch if the user sets it because Spark does not report it."""

    def write(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Written:
        """Store a task's rows and its marker in one transaction, unless the marker says that they have been stored. A
        task without rows needs no marker.
        """
        ...

    def place(self, task: Task) -> str:
        """Return a name of the target that is the same for all tasks of a query."""
        ...

    def stale_task(self, task: Task, tasks: set[int]) -> StaleTask | None:
        """Return the tasks other than `tasks` that have written rows of the micro-batch of `task`, and the number of
        these rows. Return None if there are none, if writing them again changes nothing, or if the markers
        cannot be read.
        """
        ...


class StreamWriter(SentToWorkers, DataSourceStreamArrowWriter):
    """The writer of `df.writeStream`."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of one task. Runs in a worker."""
        freeze_loaded_modules()
        context = _context()
        # The checkpoint stores the query's id.
        query, batch_id = context.getLocalProperty(QUERY_ID), int(context.getLocalProperty(BATCH_ID))
        return self.sink.write(Task(query, batch_id, context.partitionId(), _run_of(context)), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Log the number of rows, and call `check_tasks`, which may raise IllegalStateError."""
        _log_commit(messages, f"The tasks of micro-batch {batchId} have committed")
        check_tasks(self.sink, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Log the failure. Rows of tasks that have committed remain. When the micro-batch runs again, these tasks find
        their markers.
        """
        _log_commit(messages, f"Micro-batch {batchId} failed; its tasks have committed", KEPT)


class BatchWriter(SentToWorkers, DataSourceArrowWriter):
    """The writer of `df.write`. A retried task does not write its rows twice; with a sinkId, neither does
    foreachBatch.
    """

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.job: str = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of one task. Runs in a worker."""
        freeze_loaded_modules()
        return self.sink.write(self._task(_context()), iterator)

    def _task(self, context: Any) -> Task:
        sink_id, batch_id, partition = self.sink.sink_id, self.sink.batch_id, context.partitionId()
        if sink_id is None:
            return Task(self.job, 0, partition)
        if batch_id is not None:
            return Task(sink_id, batch_id, partition, _run_of(context))
        query = context.getLocalProperty(QUERY_ID)
        if query is None:
            # Also with Spark Connect, where foreachBatch writes through requests of its own.
            raise IllegalStateError(
                f"sinkId {sink_id!r}: Spark does not report the micro-batch to this write, so it cannot be done once"
                " for each. In foreachBatch set the option batchId to the id that the function is given, and a sinkId"
                " that no other query has; elsewhere leave sinkId out"
            )
        return Task(f"{query}-{sink_id}", int(context.getLocalProperty(BATCH_ID)), partition, _run_of(context))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log the number of rows and, with a sinkId, call `check_tasks`, which may raise IllegalStateError."""
        _log_commit(messages, "The tasks of a batch have committed")
        if self.sink.sink_id is not None:
            check_tasks(self.sink, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log the failure. Rows of tasks that have committed remain."""
        _log_commit(messages, "A batch failed; its tasks have committed", KEPT)


def _context() -> Any:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "writes run in tasks"
    return context


def _run_of(context: Any) -> str | None:
    """Return the run id, which is Spark's job group if that is a UUID. Other job groups were set by the user, and may
    be the same in each run.
    """
    group = context.getLocalProperty(RUN_ID)
    try:
        return None if group is None else str(uuid.UUID(group))
    except ValueError:
        return None


def _log_commit(messages: Sequence[Any], what: str, outcome: str = "") -> None:
    """Log how many rows the tasks have committed, of which query, and how many of them in an earlier attempt.
    `what` and `outcome`: the beginning and the end of the line.
    """
    written = [message for message in messages if message is not None]
    rows, skipped = sum(m.rows for m in written), sum(m.rows for m in written if m.known)
    earlier = f", {skipped} of them in an earlier attempt" if skipped else ""
    query = f" of query {written[0].task.query}" if written else ""
    log.info("%s %d rows%s%s%s", what, rows, query, earlier, outcome)


def check_tasks(sink: Sink, messages: Sequence[Any]) -> None:
    """Raise IllegalStateError if rows of this micro-batch were written by tasks of an earlier run that have no rows
    now. Do nothing if no task has rows, or if this run is the one that was last checked for the target.
    """
    filled: list[Written] = [message for message in messages if message is not None and message.rows]
    if not filled:
        return
    task = filled[0].task
    place = sink.place(task)
    if task.run is not None and _last_runs.get(place) == task.run:
        return
    left = sink.stale_task(task, {message.task.partition for message in filled})
    if left is not None:
        raise IllegalStateError(
            f"micro-batch {task.batch_id} of query {task.query} was interrupted, and has run again with other tasks:"
            f" {left.rows} rows were written by tasks that have no rows now ({', '.join(map(str, left.tasks))}), and"
            " again by others. Do not change the number of tasks (minPartitions, maxRecordsPerPartition, repartition,"
            " cores) while a micro-batch is incomplete. To continue although these rows exist twice,"
            f" {left.remedy}"
        )
    if len(_last_runs) >= MOST_RUNS:
        _last_runs.clear()
    _last_runs[place] = task.run


def recognized(task: Task, before: Marker, rows: int, other_name: str) -> Written:
    """Return the result for a micro-batch that an earlier attempt has written. Raises IllegalStateError if the earlier
    attempt wrote a different number of rows, or if the marker is of a later micro-batch.

    `other_name` is the option that gives the query another identity, for the message.
    """
    if before.batch_id == task.batch_id and rows != before.rows:
        raise IllegalStateError(
            f"micro-batch {task.batch_id} of query {task.query}, partition {task.partition}, had {before.rows} rows"
            f" when it was written and has {rows} now: the query is not a function of its sources (rand(), the current"
            " time), or has other tasks than when it was interrupted (minPartitions, maxRecordsPerPartition,"
            " repartition, the number of cores: restore their values), so it cannot be written exactly once"
        )
    if before.batch_id > task.batch_id:
        raise IllegalStateError(
            f"query {task.query} has written micro-batch {before.batch_id} already, and starts again at"
            f" {task.batch_id}: its checkpoint is older than the written rows; use a new checkpoint or another"
            f" {other_name}"
        )
    log.info(
        "Query or batch job %s, micro-batch %d, partition %d: not writing the rows (%d) again, because an earlier "
        "attempt has written them",
        task.query,
        task.batch_id,
        task.partition,
        rows,
    )
    return Written(task, rows, True)
