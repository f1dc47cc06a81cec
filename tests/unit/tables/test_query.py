"""SQL queries over a table and the log after it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from tests.unit.tables.topics import TableWorld, table_world

from ottla import Broker, NewTopic, TopicPartition
from ottla_tables.columns import record_batch
from ottla_tables.errors import MissingTableError, TableError
from ottla_tables.formats.factory import TableFactory
from ottla_tables.formats.iceberg import open_catalog
from ottla_tables.formats.parquet_table import present_path
from ottla_tables.log import tail
from ottla_tables.query.engine import QueryEngine, _rows


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def engine(world: TableWorld) -> QueryEngine:
    return QueryEngine(world.lookup, world.factory, {"bootstrap.servers": world.servers})


def test_query_during_produce_and_flush_is_exact_to_an_offset(broker: Broker, tmp_path: Path) -> None:
    with table_world(broker, "exact", tmp_path, format="parquet") as world:
        stopping = threading.Event()

        def produce() -> None:
            number = 0
            while not stopping.is_set():
                world.send(*(b"%d" % (number + i) for i in range(50)), partition=number % 2)
                number += 50

        def flush() -> None:
            service = world.service()
            while not stopping.is_set():
                service.write_all()

        threads = [threading.Thread(target=work) for work in (produce, flush)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(5):
                result = engine(world).run(
                    'select partition, count(*), count(distinct "offset"), max("offset") + 1 from exact group by all'
                )
                counts = {partition: numbers for partition, *numbers in result.rows}
                expected = {partition: [end, end, end] for partition, end in result.offsets["exact"].items() if end}
                assert counts == expected
        finally:
            stopping.set()
            for thread in threads:
                thread.join()


def test_query_of_a_field_of_a_topic_without_columns_for_fields_names_the_config(
    broker: Broker, tmp_path: Path
) -> None:
    with table_world(broker, "flat", tmp_path, format="parquet") as world:
        world.send(b'{"item": "tea"}')
        with pytest.raises(TableError, match="topic flat has ottla.table.schema=bytes, .* with json or registry"):
            engine(world).run("select item from flat")


def test_query_of_a_missing_field_does_not_blame_the_schema(broker: Broker, tmp_path: Path) -> None:
    with table_world(broker, "fields", tmp_path, format="parquet", schema="json") as world:
        world.send(b'{"item": "tea"}')
        with pytest.raises(TableError) as failed:
            engine(world).run("select items from fields")
        assert "ottla.table.schema" not in str(failed.value)


def test_query_joins_topics_with_and_without_a_table(broker: Broker, tmp_path: Path) -> None:
    with table_world(broker, "left.one", tmp_path, format="delta") as world:
        world.admin.create_topics([NewTopic("right-one", 1, 1)], wait_for_metadata=True)
        world.send(b"1", b"2")
        world.write()
        world.transaction([b"3"], commit=False)
        world.transaction([b"4"])
        world.producer.send("right-one", b"4", headers=[("h", b"x")])
        world.producer.flush()
        result = engine(world).run(
            "select decode(l.value), r.headers[1].key from left_one l "
            'left join "right-one" r on l.value = r.value order by 1'
        )
        assert list(result.rows) == [("1", None), ("2", None), ("4", "h")]
        with pytest.raises(TableError, match="^topic right_on does not exist; did you mean right_one[?]$"):
            engine(world).run("select * from right_on")


def test_query_of_upserts_has_the_last_row_of_each_key(broker: Broker, tmp_path: Path) -> None:
    with table_world(broker, "latest", tmp_path, format="iceberg", schema="json", mode="upsert") as world:
        for key, number in ((b"a", 1), (b"b", 2), (b"c", 3)):
            world.send(b'{"n": %d}' % number, key=key)
        world.write()
        world.send(b'{"n": 4, "new": true}', b'{"n": 5, "new": true}', b"bad", key=b"a")
        world.send(None, key=b"b")
        result = engine(world).run("select decode(key), n, new from latest order by all")
        assert list(result.rows) == [("a", 5, True), ("c", 3, None)]


def test_slow_reader_of_the_log_tail_does_not_time_out(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with table_world(broker, "slow", tmp_path, format="parquet") as world:
        now = 0.0
        monkeypatch.setattr(tail, "time", SimpleNamespace(monotonic=lambda: now))
        world.send(b"1", b"2", b"3")
        tp = TopicPartition("slow", 0)
        values = []
        configs = {"bootstrap.servers": world.servers, "max.poll.records": 1}
        for number, columns in tail.read_tail(configs, {tp: 0}, {tp: 3}):
            values += record_batch(columns, number).column("value").to_pylist()
            now += 2 * tail.STALL_SECONDS  # such as a job of Spark that writes the rows
        assert values == [b"1", b"2", b"3"]


def test_query_without_the_table_files_raises_table_error_if_records_are_deleted(
    broker: Broker, tmp_path: Path
) -> None:
    with table_world(broker, "away", tmp_path / "writer", format="parquet") as world:
        world.send(b"1", b"2", b"3")
        engine_without_table = QueryEngine(
            world.lookup, TableFactory(tmp_path / "other", {}), {"bootstrap.servers": world.servers}
        )
        query = "select decode(value) from away order by all"
        assert list(engine_without_table.run(query).rows) == [("1",), ("2",), ("3",)], "the log has all records"
        world.write()
        world.admin.delete_records({TopicPartition("away", 0): 3})
        world.send(b"4")
        assert list(engine(world).run(query).rows) == [("1",), ("2",), ("3",), ("4",)]
        with pytest.raises(TableError, match="the topic away has no table, and its log begins at offset 3 of away-0"):
            engine_without_table.run(query)
        assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("table_format", ["iceberg", "delta", "parquet"])
def test_query_changes_neither_catalog_nor_table(broker: Broker, tmp_path: Path, table_format: str) -> None:
    def check(*expected: tuple[int]) -> None:
        before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
        query = f'select n from "{world.topic}" order by 1'
        assert list(engine(world).run(query).rows) == list(expected)
        assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before

    configs: Any = {"format": table_format, "schema": "json", "mode": "upsert"}
    with table_world(broker, f"untouched-{table_format}", tmp_path, **configs) as world:
        world.send(b'{"n": 1}', key=b"a")
        check((1,))  # there is no catalog
        with table_world(broker, f"other-{table_format}", tmp_path, **configs) as other:
            other.send(b'{"n": 1}')
            other.write()
        check((1,))  # there is a catalog without the table
        world.write()
        if table_format == "parquet":  # as if the writer was killed while it committed
            (file,) = world.snapshot().files
            Path(file.path).rename(file.path + ".uncommitted")
        world.send(b'{"n": 2}', key=b"b")
        check((1,), (2,))


def test_catalog_config_accepts_properties_of_pyiceberg(tmp_path: Path) -> None:
    own = f"sqlite:///{tmp_path / 'own' / 'catalog.db'}"
    properties = {"type": "sql", "uri": own, "init_catalog_tables": "true"}
    other = f"sqlite:///{tmp_path / 'other' / 'catalog.db'}"
    with pytest.raises(MissingTableError):
        open_catalog(other, properties, creates=False)
    assert open_catalog(other, properties).properties["uri"] == own
    assert open_catalog(other, properties, creates=False).list_namespaces() == []
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


def test_file_committed_or_merged_since_the_table_was_loaded_is_found(tmp_path: Path) -> None:
    names = [tmp_path / f"f.parquet{suffix}" for suffix in (".uncommitted", "", ".removed")]
    for name in names:
        name.touch()
        assert {present_path(str(earlier)) for earlier in names[: names.index(name) + 1][:2]} == {str(name)}
        name.unlink()


def test_error_after_the_first_rows_is_a_table_error() -> None:
    numbers = "select case when i = 900000 then cast('x' || i as int) else i end from range(1000000) t(i)"
    rows = _rows(duckdb.connect().execute(numbers))
    assert next(rows) == (0,)
    with pytest.raises(TableError, match="x900000"):
        list(rows)
