"""Tables with columns for fields of the values: declared and inferred JSON, text, dead letters and upserts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.tables.topics import table_world

from ottla import Broker
from ottla.client.admin.configs import TOPIC, ConfigResource
from ottla.config.topic import table_schema
from ottla.errors import ConfigurationError
from ottla.table_fields import TYPES
from ottla_tables.columns import RECORD
from ottla_tables.dead_letters import SUFFIX, DeadLetters
from ottla_tables.errors import TableError
from ottla_tables.query.engine import QueryEngine
from ottla_tables.values.json_fields import JsonConverter, declared_schema
from ottla_tables.writer import Ends, TableWriter

FORMATS = ("iceberg", "delta", "parquet")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.mark.parametrize("table_format", FORMATS)
def test_inferred_schema_adds_fields_and_bad_values_are_dead_letters(
    broker: Broker, tmp_path: Path, table_format: str
) -> None:
    with table_world(broker, f"json-{table_format}", tmp_path, format=table_format, schema="json") as world:
        world.send(b'{"id": 1, "at": "2026-01-01T00:00:00Z", "offset": 9}', b"bad", None)
        service = world.service()
        assert service.write_all() == 3
        world.send(
            b'{"id": 2, "tags": ["a"], "n": {"x": 1.5}}', b'{"id": "no number"}', b'{"id": 3}{"id": 4}', b'{"a":'
        )
        assert service.write_all() == 4
        rows = [{name: v for name, v in row.items() if v is not None} for row in world.rows()]
        fields = [{name: row[name] for name in row if name not in ("partition", "timestamp")} for row in rows]
        assert fields == [
            {"offset": 0, "id": 1, "at": "2026-01-01T00:00:00Z", "value_offset": 9},
            {"offset": 2},
            {"offset": 3, "id": 2, "tags": ["a"], "n": {"x": 1.5}},
        ]
        dead = [(row["offset"], row["value"]) for row in world.rows(SUFFIX)]
        assert dead == [(1, b"bad"), (4, b'{"id": "no number"}'), (5, b'{"id": 3}{"id": 4}'), (6, b'{"a":')]


@pytest.mark.parametrize("table_format", FORMATS)
def test_columns_are_widened_to_types_that_are_declared_later(
    broker: Broker, tmp_path: Path, table_format: str
) -> None:
    name, big, is_delta = f"wide-{table_format}", 1 << 40, table_format == "delta"
    configs: Any = {"format": table_format, "partition_by": "n", "mode": "upsert"}
    with table_world(broker, name, tmp_path, schema="json:n int,f float", **configs) as world:
        for key, value in ((b"a", 1), (b"b", 1), (b"c", 1), (b"d", big)):
            world.send(b'{"n": %d, "f": 1.5}' % value, key=key)
        world.write()
        declared = {"ottla.table.schema": "json:n bigint,f double"}
        world.admin.incremental_alter_configs({ConfigResource(TOPIC, name): declared})
        world.send(b'{"n": %d, "f": 0.1}' % big, key=b"a")
        world.send(b'{"n": 2, "f": 2.5}', key=b"c")
        expected = [(b"a", 1, 1.5) if is_delta else (b"a", big, 0.1), (b"b", 1, 1.5), (b"c", 2, 2.5)]
        engine = QueryEngine(world.lookup, world.factory, {"bootstrap.servers": world.servers})
        query = f'select key, n, f from "{name}" order by 1'
        assert list(engine.run(query).rows) == expected, "the newer rows are in the log"
        world.write()
        assert sorted((row["key"], row["n"], row["f"]) for row in world.rows()) == expected
        assert list(engine.run(query).rows) == expected
        assert [row["offset"] for row in world.rows(SUFFIX)] == ([3, 4] if is_delta else [3])
        if table_format == "iceberg":
            table: Any = world.table()
            assert table._table.scan(f"n == {big}").to_arrow().select(["key", "f"]).to_pydict() == {
                "key": [b"a"],
                "f": [0.1],
            }


def test_fields_with_names_of_record_columns_get_their_own_columns(broker: Broker, tmp_path: Path) -> None:
    with table_world(broker, "names", tmp_path, format="delta", schema="json") as world:
        values: list[dict[str, Any]] = [
            {"value_offset": 1, "value_total": 2, "KEY": 3},
            {"offset": 4, "value_offset": 5, "value_value_offset": 6, "value": 7, "headers": 8, "value_total": 9},
            {"Value_Total": 10},
            {"part": {"x": 11, "X": 12}},
            {"a\0b": 13},
            {"l.element": 14, "l": [15]},
        ]
        for value in values:
            world.send(json.dumps(value).encode())
            assert world.write() == 1  # by another writer, which knows the names of the columns only
        record_columns = ("offset", "partition", "timestamp", "key")
        rows = [{n: v for n, v in row.items() if n not in record_columns and v is not None} for row in world.rows()]
        assert rows == [
            {"value_value_offset": 1, "value_total": 2, "value_KEY": 3},
            {
                **{"value_offset": 4, "value_value_offset": 5, "value_value_value_offset": 6},
                **{"value_value": 7, "value_headers": 8, "value_total": 9},
            },
        ]
        assert [row["error"] for row in world.rows(SUFFIX)] == [
            "the fields value_total and Value_Total differ in case only",
            "the fields part.x and part.X differ in case only",
            "the name of the field 'a\\x00b' has a NUL character",
            "the fields l.element and l.element have the same path",
        ]


def test_record_is_in_one_table_after_a_crash_between_the_commits(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with table_world(broker, "crash", tmp_path, format="parquet", schema="json:id bigint") as world:
        world.send(b'{"id": 1}', b"bad", b'{"id": 2.5}', b'{"id": 3}')
        commit = DeadLetters.commit

        def crash(self: DeadLetters, offsets: dict[int, int]) -> None:
            commit(self, offsets)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(DeadLetters, "commit", crash)
            world.write()
        assert [row["offset"] for row in world.rows(SUFFIX)] == [1, 2]
        assert world.write() == 4
        assert [row["id"] for row in world.rows()] == [1, 3]
        assert [row["offset"] for row in world.rows(SUFFIX)] == [1, 2]
        records = TableWriter._records

        def fail(self: TableWriter, ends: Ends) -> Any:
            yield from records(self, ends)
            raise OSError("the registry does not respond")

        world.send(b"bad")
        with monkeypatch.context() as patch, pytest.raises(TableError, match="does not respond"):
            patch.setattr(TableWriter, "_records", fail)
            world.write()
        assert not list(tmp_path.rglob("*.uncommitted")), "an outage must not fill the disk with dead letters"


@pytest.mark.parametrize("table_format", FORMATS)
def test_upserts_have_the_last_value_of_each_key(broker: Broker, tmp_path: Path, table_format: str) -> None:
    name = f"upsert-{table_format}"
    with table_world(broker, name, tmp_path, format=table_format, schema="json", mode="upsert") as world:
        latest: dict[bytes, int | None] = {}
        for turn in range(3):
            for number in range(5 * turn, 5 * turn + 10):
                key = b"k%d" % (number % 8)
                latest[key] = None if number % 5 == 4 else number
                value = None if latest[key] is None else json.dumps({"n": number}).encode()
                world.send(value, key=key, partition=number % 2)
            assert world.write() == 10
        assert world.write() == 0
        rows = [(row["key"], row["n"]) for row in world.rows()]
        assert sorted(rows) == sorted((key, n) for key, n in latest.items() if n is not None)


def test_text_values_are_strings_and_invalid_utf8_is_a_dead_letter(broker: Broker, tmp_path: Path) -> None:
    with table_world(broker, "text", tmp_path, format="parquet", schema="text") as world:
        world.send("ä".encode(), b"\xff", None, key=b"k")
        world.write()
        assert [(row["key"], row["value"]) for row in world.rows()] == [("k", "ä"), ("k", None)]
        assert [row["error"] for row in world.rows(SUFFIX)] == ["Invalid UTF8 payload"]


def test_decimals_and_dates_are_exact_and_invalid_values_are_dead_letters() -> None:
    converter = JsonConverter(declared_schema("price decimal(10, 2), day date, at timestamp"), RECORD)
    values = [
        '{"price": "12345678.90", "day": "2026-02-28", "at": "2026-02-28T01:02:03.123456Z"}',
        '{"price": 0.1, "day": null}',
        '{"price": "0.001"}',
        '{"price": "NaN"}',
        '{"day": "2026-02-30"}',
        '{"day": 1}',
    ]
    columns = {"offset": range(6), "partition": [0] * 6, "value": [text.encode() for text in values]}
    records = pa.RecordBatch.from_pydict({f.name: columns.get(f.name, [None] * 6) for f in RECORD}, RECORD)
    rows = converter.convert(records)
    at = datetime(2026, 2, 28, 1, 2, 3, 123456, UTC)
    assert [tuple(row.values())[4:] for row in rows.batch.to_pylist()] == [
        (Decimal("12345678.90"), date(2026, 2, 28), at),
        (Decimal("0.10"), None, None),
        (None, date(1970, 1, 2), None),
    ]
    assert rows.dead.column("offset").to_pylist() == [2, 3, 4]


@pytest.mark.parametrize("declaration", ["id number", "id int(4)", "id decimal", "id decimal(39,0)", "id decimal(3,4)"])
def test_declaration_without_a_known_type_is_rejected(declaration: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"'{declaration}' is not NAME TYPE")):
        declared_schema(declaration)
    with pytest.raises(ValueError, match="is not NAME TYPE"):
        table_schema(f"json:{declaration}")


def test_every_type_of_a_declaration_has_a_column() -> None:
    declaration = ", ".join(f"f{i} {kind}" for i, kind in enumerate(TYPES))
    assert len(declared_schema(declaration)) == len(TYPES)
    assert table_schema(f"json:{declaration}") == f"json:{declaration}"


def test_fields_that_differ_in_case_only_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="the field ID is declared twice"):
        declared_schema("id int,ID bigint")


def test_values_that_are_too_deep_or_have_too_many_fields_are_dead_letters(broker: Broker, tmp_path: Path) -> None:
    with table_world(broker, "deep", tmp_path, format="parquet", schema="json") as world:
        deep = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        wide = json.dumps({f"f{i}": i for i in range(3000)}).encode()
        flat = json.dumps({"b": [{"c": "[[[["}] * 50}).encode()
        world.send(deep, wide, flat)
        world.write()
        assert [row["offset"] for row in world.rows()] == [2]
        assert [row["error"].partition(" more than ")[2] for row in world.rows(SUFFIX)] == [
            "32 levels deep",
            "2000 fields",
        ]
