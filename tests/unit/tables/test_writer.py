"""The table writer: records of log segments are written to tables exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.unit.tables.topics import TableWorld, as_record, table_world

from ottla import Broker, NewTopic
from ottla_tables import synced
from ottla_tables.dead_letters import SUFFIX
from ottla_tables.errors import CommitConflictError, TableError
from ottla_tables.formats.table import Commit, Table
from ottla_tables.writer import TableWriter

FORMATS = ("iceberg", "delta", "parquet")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(params=FORMATS)
def world(request: Any, broker: Broker, tmp_path: Path) -> Iterator[TableWorld]:
    with table_world(broker, f"t-{request.param}-{tmp_path.name}", tmp_path, format=request.param) as world:
        yield world


def test_table_has_committed_records_of_all_partitions_exactly_once(world: TableWorld) -> None:
    world.send(b"a", None, b"")
    world.producer.send(world.topic, b"h", key=b"k", partition=1, headers=[("x", b"1"), ("y", None)])
    world.transaction([b"c1", b"c2"])
    world.transaction([b"no"], commit=False)
    world.transaction([b"c3"], partition=1)
    hanging = world.transaction([b"open"], commit=None)
    world.send(b"after an open transaction")
    world.send(b"p1", partition=1)

    assert world.write() == 8
    assert [as_record(row) for row in world.rows()] == world.records()
    assert world.write() == 0, "a new writer continues after the last commit"

    hanging.commit_transaction()
    hanging.close()
    world.send(*(b"%d" % i for i in range(100)))
    assert world.write() == 102
    assert [as_record(row) for row in world.rows()] == world.records()


def test_commit_of_a_stale_writer_raises_commit_conflict(world: TableWorld) -> None:
    world.send(b"a")
    service = world.service()
    service.write_all()
    world.send(b"b")
    (task,) = service._tasks.values()
    ends = task._read_ends()
    writer: TableWriter = task._writer  # type: ignore[assignment]
    world.send(b"c")
    assert world.write() == 2  # by another writer
    with pytest.raises(CommitConflictError):
        writer.flush(ends)
    assert [row["value"] for row in world.rows()] == [b"a", b"b", b"c"]
    world.send(b"d")
    assert service.write_all() == 1, "the writer continues after the rows of the other one"
    world.send(b"e")
    assert world.write() == 1  # by another writer
    writer.table.load()  # as compactions do
    with pytest.raises(CommitConflictError):
        writer.flush(ends._replace(high_watermarks={0: 5}))
    assert [row["value"] for row in world.rows()] == [b"a", b"b", b"c", b"d", b"e"]


def test_records_are_read_again_after_a_leader_change(world: TableWorld) -> None:
    world.send(b"a")
    service = world.service()
    service.write_all()
    (task,) = service._tasks.values()
    world.send(b"b")
    ends = task._read_ends()
    writer: TableWriter = task._writer  # type: ignore[assignment]
    with pytest.raises(TableError, match="a leader has changed"):
        writer.flush(ends._replace(are_current=lambda: False))
    assert [row["value"] for row in world.rows()] == [b"a"]
    assert service.write_all() == 1


def test_log_that_is_shorter_than_the_table_is_reported_once(
    world: TableWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.send(b"a", b"b", b"c")
    service = world.service()
    service.write_all()
    (task,) = service._tasks.values()
    writer: TableWriter = task._writer  # type: ignore[assignment]
    ends = task._read_ends()
    for end in (2, 2, 3, 1):
        writer.report_truncation(ends._replace(high_watermarks={0: end}))
    lines = [record.getMessage() for record in caplog.records if "unclean leader election" in record.getMessage()]
    assert [line.partition(". ")[0] for line in lines] == [
        f"{world.topic}-0: the log ends before offset {end}, but the table has records up to offset 2" for end in (2, 1)
    ]


def test_commit_with_a_lost_response_is_in_the_table_once(world: TableWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.send(b"a")
    service = world.service()
    service.write_all()
    table_class = type(world.table())
    commit = table_class.commit
    for error in (CommitConflictError("a repeated request conflicts with itself"), OSError("timed out"), None):

        def lose(table: Table, change: Commit, error: Exception | None = error) -> None:
            commit(table, change)
            if error is not None:
                raise error

        world.send(b"%r" % error)
        with monkeypatch.context() as patch, suppress(TableError):
            patch.setattr(table_class, "commit", lose)
            service.write_all()
        assert [as_record(row) for row in world.rows()] == world.records()

    def lose_before_another(table: Table, change: Commit) -> None:
        commit(table, change)
        monkeypatch.undo()
        world.send(b"later")
        world.write()
        raise CommitConflictError("a repeated request conflicts with the commit of another writer")

    world.send(b"b")
    monkeypatch.setattr(table_class, "commit", lose_before_another)
    with suppress(TableError):
        service.write_all()
    assert [as_record(row) for row in world.rows()] == world.records()


def test_table_is_not_continued_with_another_topic_of_the_same_name(world: TableWorld) -> None:
    world.send(b"a")
    world.write()
    configs = {"ottla.table.format": world.lookup.topics([world.topic])[0].config.ottla_table_format}
    world.admin.delete_topics([world.topic])
    world.admin.create_topics([NewTopic(world.topic, 2, 1, None, configs)], wait_for_metadata=True)
    with pytest.raises(TableError, match="another ottla.table.location"):
        world.write()


@pytest.mark.parametrize("table_format", FORMATS)
def test_files_are_synced_before_they_are_committed(
    broker: Broker, tmp_path: Path, table_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths: set[Path] = set()
    directories: set[Path] = set()
    monkeypatch.setattr(synced, "sync_file", paths.add)
    monkeypatch.setattr(synced, "sync_directory", directories.add)
    configs: Any = {"format": table_format, "partition_by": "partition,y,x", "schema": "json:x string,y int"}
    with table_world(broker, f"synced-{table_format}", tmp_path, **configs) as world:
        for number in range(2):
            world.send(b'{"x":"a","y":%d}' % number, partition=number)
            assert world.write() == 1
        location = tmp_path / world.topic.replace("-", "_")
        files = {path for path in location.rglob("*") if path.suffix in (".parquet", ".avro", ".json")}
        assert len(files) >= 4
        assert files <= {path.with_name(path.name.removesuffix(".uncommitted")) for path in paths}
        assert {parent for path in files for parent in path.parents if parent.is_relative_to(location)} <= directories


@pytest.mark.parametrize("table_format", FORMATS)
def test_small_files_are_merged_and_old_snapshots_expire(broker: Broker, tmp_path: Path, table_format: str) -> None:
    configs: Any = {"format": table_format, "compact_files": "3", "retention_ms": "0", "partition_by": "partition"}
    with table_world(broker, f"dead-{table_format}", tmp_path / "dead", schema="json:x int", **configs) as world:
        service = world.service()
        for _ in range(4):
            world.send(b"bad")
            service.write_all()
        assert len(world.table(SUFFIX).load().files) == 2
        assert [row["offset"] for row in world.rows(SUFFIX)] == [0, 1, 2, 3]
    with table_world(broker, f"merged-{table_format}", tmp_path / "merged", **configs) as world:
        service = world.service()
        counts = []
        for number in range(5):
            world.send(b"%d" % number)
            world.send(b"%d" % number, partition=1)
            service.write_all()
            counts.append(len(world.snapshot().files))
        assert counts == [2, 4, 2, 4, 2]
        assert [as_record(row) for row in world.rows()] == world.records()
        assert world.write() == 0
        world.send(b"last")
        world.write()  # a new process: its first maintenance deletes old files
        in_use = {Path(file.path.removeprefix("file://")).name for file in world.snapshot().files}
        stored = {path.name for path in (tmp_path / "merged").rglob("ottla-*.parquet")}
        assert in_use <= stored
        assert len(stored) <= len(in_use) + 2, "files of old snapshots remain"
