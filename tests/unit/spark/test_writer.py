"""The query, micro-batch and run that a write belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from ottla.errors import IllegalStateError
from ottla.spark.sink import writer
from ottla.spark.sink.writer import BATCH_ID, QUERY_ID, RUN_ID, BatchWriter, Task, Written


class Context:
    """A fake of Spark's TaskContext with local properties."""

    def __init__(self, **properties: str) -> None:
        names = {QUERY_ID: "query", BATCH_ID: "batch_id", RUN_ID: "run"}
        self.properties = {name: properties.get(keyword) for name, keyword in names.items()}

    def partitionId(self) -> int:  # noqa: N802 - the name is Spark's
        return 5

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - the name is Spark's
        return self.properties[name]


class RecordingSink:
    """A sink that only records its tasks."""

    def __init__(self, sink_id: str | None, batch_id: int | None = None) -> None:
        self.sink_id = sink_id
        self.batch_id = batch_id
        self.written: list[Task] = []

    def write(self, task: Task, batches: Iterator[Any]) -> Written:
        self.written.append(task)
        return Written(task, 0)

    def place(self, task: Task) -> str:
        raise NotImplementedError

    def stale_task(self, task: Task, tasks: set[int]) -> None:
        raise NotImplementedError


def task_of_write(monkeypatch: pytest.MonkeyPatch, sink: RecordingSink, context: Context) -> Task:
    monkeypatch.setattr(writer, "_context", lambda: context)
    BatchWriter(sink).write(iter(()))
    return sink.written.pop()


def test_write_with_sink_id_belongs_to_the_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    context = Context(query="q", batch_id="7")
    assert task_of_write(monkeypatch, RecordingSink("copy"), context) == Task("q-copy", 7, 5)
    assert task_of_write(monkeypatch, RecordingSink("q-of-mine", 8), context) == Task("q-of-mine", 8, 5)
    assert task_of_write(monkeypatch, RecordingSink("q-of-mine", 8), Context()) == Task("q-of-mine", 8, 5)


def test_write_with_sink_id_but_without_batch_id_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated micro-batch would write it twice, without an error."""
    with pytest.raises(IllegalStateError, match="sinkId 'copy': .* set the option batchId"):
        task_of_write(monkeypatch, RecordingSink("copy"), Context())


def test_writes_without_sink_id_have_unique_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (task_of_write(monkeypatch, RecordingSink(None), Context()) for _ in range(2))
    assert first.query != second.query
    assert first[1:] == second[1:] == (0, 5, None)


def test_task_has_the_run_id_of_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    run = "1ae47a74-5fa1-45bf-af38-1075f617d9ad"
    assert task_of_write(monkeypatch, RecordingSink("copy"), Context(query="q", batch_id="7", run=run)).run == run
    # A job group that the user has set is the same in every run.
    assert (
        task_of_write(monkeypatch, RecordingSink("copy"), Context(query="q", batch_id="7", run="nightly")).run is None
    )
