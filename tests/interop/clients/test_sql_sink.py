"""`format("ottla.sql")` with each database: what a task writes, and what it does if it runs again."""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from scripts import databases

pytest.importorskip("pyspark")
pytest.importorskip("sqlalchemy")

import pyarrow as pa
import sqlalchemy as sa
from pyspark.sql import types as spark_types

from ottla.errors import ConfigurationError, IllegalStateError, KafkaError
from ottla.spark.sink.sql_rows import rows_of
from ottla.spark.sink.sql_sink import SqlSink, sql_options
from ottla.spark.sink.sql_types import column_types
from ottla.spark.sink.writer import StreamWriter, Task

pytestmark = pytest.mark.interop

SCHEMA = spark_types.StructType(
    [
        spark_types.StructField("name", spark_types.StringType()),
        spark_types.StructField("visits", spark_types.LongType()),
    ]
)


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "mysql"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('sql') / 'test.db'}"
        return
    pytest.importorskip({"postgresql": "psycopg", "mysql": "pymysql"}[request.param])
    reason = databases.missing(request.param)
    if reason is not None:
        pytest.skip(reason)
    with databases.running(request.param) as running:
        yield running


@pytest.fixture
def table(request: pytest.FixtureRequest) -> str:
    return "".join(c if c.isalnum() else "_" for c in request.node.name)[:60]


def sink(url: str, table: str, keys: str = "", schema: Any = SCHEMA) -> SqlSink:
    options = sql_options({"url": url, "dbtable": table, "keyColumns": keys})
    made = SqlSink(options, column_types(schema, options.keys))
    made.make_tables()
    return made


def rows(**columns: list[Any]) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict(columns)])


def stored(made: SqlSink) -> list[tuple[Any, ...]]:
    engine = made._engine()
    with contextlib.closing(engine.connect()) as connection:
        table = made._table(sa.MetaData())
        actual = [tuple(row) for row in connection.execute(sa.select(table))]
    engine.dispose()
    return sorted(actual, key=repr)


def execute(made: SqlSink, text: str) -> None:
    engine = made._engine()
    with engine.begin() as connection:
        connection.execute(sa.text(text))
    engine.dispose()


def test_rows_of_a_task_are_appended_once(url: str, table: str) -> None:
    made = sink(url, table)
    reported = [made.write(Task(table, batch, 0), rows(name=["a", "b"], visits=[1, None])) for batch in (0, 0, 1, 1)]
    assert [w.known for w in reported] == [False, True, False, True]
    assert stored(made) == sorted([("a", 1), ("b", None)] * 2, key=repr)


def test_micro_batch_retried_with_fewer_tasks_is_rejected(url: str, table: str) -> None:
    made = sink(url, table)
    for task in (0, 5):  # of many; then all tasks were killed
        made.write(Task(table, 4, task), rows(name=["a"], visits=[1]))
    reported = [made.write(Task(table, 4, task), rows(name=["a"], visits=[1])) for task in range(2)]
    for writer in (StreamWriter(made), StreamWriter(made)):
        with pytest.raises(
            IllegalStateError, match=r"1 rows were written by tasks that have no rows now \(5\)"
        ) as error:
            writer.commit(reported, 4)
    execute(made, str(error.value)[str(error.value).index("DELETE FROM") :])
    StreamWriter(made).commit(reported, 4)


def test_mysql_session_uses_strict_mode(url: str, table: str) -> None:
    if sa.make_url(url).get_backend_name() != "mysql":
        pytest.skip("other databases do not truncate values")
    # As if the server's own sql_mode lacked STRICT_TRANS_TABLES.
    made = sink(f"{url}{'&' if '?' in url else '?'}sql_mode=NO_ENGINE_SUBSTITUTION", table, "name")
    for long in ("a" * 300, "ä" * 256):
        with pytest.raises(ConfigurationError, match="rejects a row"):
            made.write(Task(table, 0, 0), rows(name=[long], visits=[1]))
    assert stored(made) == []


def test_keyed_rows_of_other_tasks_may_be_written_again(url: str, table: str) -> None:
    made = sink(url, table, "name")
    made.write(Task(table, 4, 5), rows(name=["a"], visits=[1]))
    StreamWriter(made).commit([made.write(Task(table, 4, 0), rows(name=["a"], visits=[1]))], 4)
    assert stored(made) == [("a", 1)]


def test_rows_with_an_existing_key_are_updated(url: str, table: str) -> None:
    made = sink(url, table, "name")
    made.write(Task(table, 0, 0), rows(name=["a", "b", "a"], visits=[1, 2, 3]))
    made.write(Task(table, 1, 0), rows(name=["b", "c"], visits=[20, 30]))
    assert stored(made) == [("a", 3), ("b", 20), ("c", 30)]


def test_one_sink_id_for_two_tables_writes_both(url: str, table: str) -> None:
    first, second = sink(url, f"{table}_1"), sink(url, f"{table}_2")
    for made in (first, second, first):
        made.write(Task(table, 0, 0), rows(name=["a"], visits=[1]))
    assert stored(first) == stored(second) == [("a", 1)]


def test_table_name_may_include_the_schema(url: str, table: str) -> None:
    schema = {"sqlite": "main", "postgresql": "public"}.get(sa.make_url(url).get_backend_name())
    plain, named = sink(url, table, "name"), sink(url, f"{schema or sa.make_url(url).database}.{table}", "name")
    named.write(Task(table, 0, 0), rows(name=["a"], visits=[1]))
    assert stored(plain) == stored(named) == [("a", 1)]


def test_key_columns_without_unique_index_are_rejected(url: str, table: str) -> None:
    """MySQL would append the rows; the others would fail in the tasks."""
    sink(url, table)
    with pytest.raises(ConfigurationError, match=f"keyColumns: the table {table} has no primary key .* of just visits"):
        sink(url, table, "visits")
    made = sink(url, f"{table}_2", "visits")
    with pytest.raises(ConfigurationError, match="of just name, visits"):
        sink(url, f"{table}_2", "name,visits")
    engine = made._engine()
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE UNIQUE INDEX {table}_i ON {table} (visits)"))
    engine.dispose()
    sink(url, table, "visits")


def test_table_without_transactions_is_rejected(url: str, table: str) -> None:
    if sa.make_url(url).get_backend_name() != "mysql":
        pytest.skip("other databases have transactions in all tables")
    made = sink(url, table)
    execute(made, f"alter table {table} engine=MyISAM")
    with pytest.raises(ConfigurationError, match=rf"{table} has the engine MyISAM.*alter table {table} engine=InnoDB"):
        sink(url, table)


def test_keys_that_differ_in_case_are_distinct(url: str, table: str) -> None:
    made = sink(url, table, "name")
    made.write(Task(table, 0, 0), rows(name=["/a", "/A"], visits=[1, 2]))
    assert stored(made) == [("/A", 2), ("/a", 1)]


def test_keys_that_differ_in_a_trailing_space_are_distinct(url: str, table: str) -> None:
    made = sink(url, table, "name")
    made.write(Task(table, 0, 0), rows(name=["a", "a "], visits=[1, 2]))
    assert stored(made) == [("a ", 2), ("a", 1)]


def test_rows_of_key_columns_only_are_not_truncated(url: str, table: str) -> None:
    """MySQL's INSERT IGNORE would truncate the keys, and store one row instead of two."""
    made = sink(url, table, "name", spark_types.StructType([SCHEMA["name"]]))
    for batch in (0, 1):
        made.write(Task(table, batch, 0), rows(name=["a", "b"]))
    long = ["x" * 255 + "a", "x" * 255 + "b"]
    if sa.make_url(url).get_backend_name() == "sqlite":  # ignores lengths
        made.write(Task(table, 2, 0), rows(name=long))
        assert stored(made) == [("a",), ("b",), *((key,) for key in long)]
        return
    with pytest.raises(ConfigurationError, match=f"dbtable: the table {table} rejects a row: .*too long"):
        made.write(Task(table, 2, 0), rows(name=long))
    assert stored(made) == [("a",), ("b",)]


def test_null_key_is_rejected(url: str, table: str) -> None:
    """A unique index allows any number of nulls: each micro-batch would append the row."""
    made = sink(url, f"{table}_0")
    execute(made, f"CREATE TABLE {table} (name VARCHAR(50), visits BIGINT, UNIQUE (name))")
    made = sink(url, table, "name")
    with pytest.raises(ConfigurationError, match="keyColumns: a row has null in the column name"):
        made.write(Task(table, 0, 0), rows(name=["a", None], visits=[1, 2]))
    assert stored(made) == []


def test_sink_ids_that_differ_in_case_or_spaces_are_distinct(url: str, table: str) -> None:
    made = sink(url, table)
    reported = [made.write(Task(query, 0, 0), rows(name=["a"], visits=[1])) for query in ("q-a", "q-A", "q-A ", "q-a")]
    assert [w.known for w in reported] == [False, False, False, True]
    assert len(stored(made)) == 3
    execute(made, "DELETE FROM ottla_sink_batches")


def test_table_without_the_columns_is_rejected(url: str, table: str) -> None:
    made = sink(url, f"{table}_0")
    execute(made, f"CREATE TABLE {table} (visits BIGINT, other INT)")
    with pytest.raises(ConfigurationError, match=rf"dbtable: the table {table} has no column name \(it has visits, o"):
        sink(url, table)


def test_row_that_the_table_rejects_is_reported(url: str, table: str) -> None:
    made = sink(url, f"{table}_0")
    execute(made, f"CREATE TABLE {table} (name VARCHAR(50), visits BIGINT NOT NULL)")
    with pytest.raises(ConfigurationError, match=f"dbtable: the table {table} rejects a row: .*visits"):
        sink(url, table).write(Task(table, 0, 0), rows(name=["a"], visits=[None]))


def test_missing_schema_is_reported(url: str, table: str) -> None:
    with pytest.raises(ConfigurationError, match=r"(?s)dbtable: cannot .*absent"):
        sink(url, f"absent.{table}")


def test_key_column_named_twice_is_used_once(url: str, table: str) -> None:
    made = sink(url, table, "name,name")
    for batch in (0, 1):
        made.write(Task(table, batch, 0), rows(name=["a"], visits=[batch]))
    assert stored(made) == [("a", 1)]


def test_timestamps_do_not_depend_on_the_session_time_zone(url: str, table: str) -> None:
    """On 1 November 2026 the hour from 1 to 2 occurs twice in New York."""
    schema = spark_types.StructType([spark_types.StructField("at", spark_types.TimestampType())])
    made = sink(url, table, "at", schema)
    hours = [dt.datetime(2026, 11, 1, hour, 30, tzinfo=dt.UTC) for hour in (5, 6)]
    batch = pa.RecordBatch.from_arrays([pa.array(hours, pa.timestamp("us", "America/New_York"))], ["at"])
    made.write(Task(table, 0, 0), iter([batch]))
    actual = [at.astimezone(dt.UTC) if at.tzinfo else at.replace(tzinfo=dt.UTC) for (at,) in stored(made)]
    assert actual == hours


def test_long_text_is_not_truncated(url: str, table: str) -> None:
    made = sink(url, table)
    made.write(Task(table, 0, 0), rows(name=["x" * 100_000], visits=[1]))
    assert len(stored(made)[0][0]) == 100_000


def test_failed_task_writes_no_rows(url: str, table: str) -> None:
    made = sink(url, table)

    def breaking() -> Iterator[pa.RecordBatch]:
        yield from rows(name=["half"], visits=[1])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        made.write(Task(table, 0, 0), breaking())
    assert stored(made) == []
    made.write(Task(table, 0, 0), rows(name=["whole"], visits=[1]))
    assert stored(made) == [("whole", 1)]


def test_concurrent_attempts_of_a_task_write_once(url: str, table: str) -> None:
    made = sink(url, table)
    reported: list[bool] = []

    def attempt() -> None:
        reported.append(made.write(Task(table, 0, 0), rows(name=["a"] * 500, visits=[1] * 500)).known)

    attempts = [threading.Thread(target=attempt) for _ in range(4)]
    for thread in attempts:
        thread.start()
    for thread in attempts:
        thread.join()
    assert sorted(reported) == [False, True, True, True]
    assert len(stored(made)) == 500


def test_concurrent_tasks_that_update_the_same_rows_do_not_fail(url: str, table: str) -> None:
    made = sink(url, table, "name")
    names = [f"n{i}" for i in range(300)]

    def task(partition: int) -> None:
        mine = names if partition % 2 else names[::-1]
        made.write(Task(table, 0, partition), rows(name=mine, visits=[partition] * len(mine)))

    tasks = [threading.Thread(target=task, args=(p,)) for p in range(4)]
    for thread in tasks:
        thread.start()
    for thread in tasks:
        thread.join()
    engine = made._engine()
    with engine.connect() as connection:
        done = connection.execute(
            sa.text("SELECT count(*) FROM ottla_sink_batches WHERE query = :q"), {"q": table}
        ).scalar()
    assert done == 4
    assert [name for name, _ in stored(made)] == sorted(names)


def test_retried_micro_batch_with_other_rows_is_an_error(url: str, table: str) -> None:
    made = sink(url, table)
    made.write(Task(table, 3, 0), rows(name=["a"], visits=[1]))
    with pytest.raises(IllegalStateError, match="had 1 rows .* has 2 now"):
        made.write(Task(table, 3, 0), rows(name=["a", "b"], visits=[1, 2]))


def test_values_of_every_type_are_preserved(url: str, table: str) -> None:
    kinds: dict[str, tuple[Any, Any]] = {
        "flag": (spark_types.BooleanType(), True),
        "small": (spark_types.ShortType(), -5),
        "whole": (spark_types.IntegerType(), 2**31 - 1),
        "large": (spark_types.LongType(), 2**63 - 1),
        "ratio": (spark_types.DoubleType(), 0.1),
        "raw": (spark_types.BinaryType(), b"\x00\xff"),
        "day": (spark_types.DateType(), dt.date(2026, 2, 28)),
        "at": (spark_types.TimestampNTZType(), dt.datetime(2026, 2, 28, 1, 2, 3, 456789)),
        "price": (spark_types.DecimalType(12, 2), Decimal("1234567890.12")),
        "text": (spark_types.StringType(), "ü" * 300),
    }
    schema = spark_types.StructType([spark_types.StructField(name, kind) for name, (kind, _) in kinds.items()])
    made = sink(url, table, schema=schema)
    made.write(Task(table, 0, 0), rows(**{name: [value] for name, (_, value) in kinds.items()}))
    (actual,) = stored(made)
    assert dict(zip(kinds, actual, strict=True)) == {name: value for name, (_, value) in kinds.items()}


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "url is required"),
        ({"url": "sqlite:///x"}, "dbtable is required"),
        ({"url": "nonsense", "dbtable": "t"}, "expected a URL"),
        ({"url": "mysql://me:secret@host:port/d", "dbtable": "t"}, r"^(?!.*secret).* expected a URL"),
        ({"url": "oracle://h/d", "dbtable": "t"}, "oracle is not supported"),
        ({"url": "sqlite://", "dbtable": "t"}, "url: sqlite:// is in memory"),
        ({"url": "sqlite:///:memory:", "dbtable": "t"}, "is in memory"),
        ({"url": "sqlite:///x", "dbtable": "t", "sinkId": "s" * 161}, "sinkId: it has 161 characters, but at most 160"),
        ({"url": "sqlite:///x", "dbtable": "t" * 129}, "dbtable: it has 129 characters"),
    ],
)
def test_invalid_options_are_reported(options: dict[str, str], match: str) -> None:
    with pytest.raises(ConfigurationError, match=match):
        sql_options(options)


def test_unsupported_columns_and_databases_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="keyColumns: no such column: x"):
        column_types(SCHEMA, ("x",))
    nested = spark_types.StructType([spark_types.StructField("a", spark_types.ArrayType(spark_types.LongType()))])
    with pytest.raises(ConfigurationError, match="the column a is of type array<bigint>, which has no SQL type"):
        column_types(nested, ())
    with pytest.raises(ConfigurationError, match="url: cannot use sqlite"):
        sink(f"sqlite:///{tmp_path}/absent/x.db", "t")
    (tmp_path / "text.db").write_text("no database" * 100)
    with pytest.raises(ConfigurationError, match="url: cannot use sqlite.* not a database"):
        sink(f"sqlite:///{tmp_path}/text.db", "t")
    with pytest.raises(ConfigurationError, match="dbtable: cannot create or use t: duplicate column name: V"):
        twice = spark_types.StructType([spark_types.StructField(name, spark_types.LongType()) for name in "vV"])
        sink(f"sqlite:///{tmp_path}/x.db", "t", schema=twice)


def test_database_error_is_reported_without_rows(tmp_path: Path) -> None:
    made = sink(f"sqlite:///{tmp_path}/x.db", "t")
    execute(made, "CREATE VIEW seen AS SELECT name, visits FROM t")
    with pytest.raises(KafkaError, match=r"^dbtable: cannot write seen of sqlite:.*: cannot modify seen") as raised:
        sink(made.options.url, "seen").write(Task("q", 0, 0), rows(name=["secret"], visits=[1]))
    assert "secret" not in f"{raised.value} {raised.value.__cause__}"


def test_values_that_no_database_accepts_are_reported() -> None:
    no_text = pa.Array.from_buffers(pa.string(), 2, pa.array([b"ok", b"\xff\xfe"]).buffers())
    late = pa.array([253_402_300_800_000_000], pa.timestamp("us", "UTC"))
    for column, match in ((no_text, "the column c has text that is not UTF-8"), (late, "the years 1 to 9999")):
        with pytest.raises(ConfigurationError, match=match):
            rows_of(pa.RecordBatch.from_arrays([column], ["c"]), ())
