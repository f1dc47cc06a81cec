"""Tables with columns of a schema registry: Avro, Protobuf and JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from random import Random
from struct import pack
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer
from fastavro.utils import generate_many
from tests.unit.registry.registries import serve_registry
from tests.unit.tables.topics import TableWorld, table_world

from ottla import Broker
from ottla.config.topic import table_schema
from ottla.errors import ConfigurationError
from ottla.protocol.wire import write_uvarint
from ottla.serdes import AvroSerializer, RegisteredSchema, Schema, SchemaRegistryClient, SchemaRegistryError
from ottla.serdes.framing import header
from ottla_tables.columns import RECORD
from ottla_tables.dead_letters import SUFFIX
from ottla_tables.errors import TableError
from ottla_tables.query.engine import QueryEngine
from ottla_tables.values import avro_batches
from ottla_tables.values.avro_values import AvroValues
from ottla_tables.values.factory import ConverterFactory
from ottla_tables.values.registry_fields import RegistryConverter
from ottla_tables.values.rows import Rows

FORMATS = ("iceberg", "delta", "parquet")
AT = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def registry(broker: Broker) -> Iterator[SchemaRegistryClient]:
    with serve_registry(broker.bootstrap_servers) as url:
        yield SchemaRegistryClient(url)


def url_of(registry: SchemaRegistryClient) -> str:
    return registry._urls[0]


def fields(world: TableWorld, suffix: str = "") -> list[dict[str, Any]]:
    """Return the rows of the table, without what the broker chooses and without nulls."""
    omitted = ("partition", "timestamp")
    return [{n: v for n, v in row.items() if n not in omitted and v is not None} for row in world.rows(suffix)]


def record(*fields: tuple[Any, ...]) -> str:
    """Return an Avro record with fields of a name, a type and perhaps a default."""
    names = ("name", "type", "default")
    return json.dumps(
        {"type": "record", "name": "Order", "fields": [dict(zip(names, f, strict=False)) for f in fields]}
    )


INNER: dict[str, Any] = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]}
WIDER: dict[str, Any] = {
    **INNER,
    "fields": [{"name": "x", "type": "long"}, {"name": "y", "type": ["null", "string"], "default": None}],
}
FIRST = record(
    ("id", "int"),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
    ("at", ["null", {"type": "long", "logicalType": "timestamp-millis"}]),
    ("day", {"type": "int", "logicalType": "date"}),
    ("uid", {"type": "string", "logicalType": "uuid"}),
    ("offset", "long"),
    ("inner", INNER),
    ("inners", {"type": "array", "items": ["null", "Inner"]}),
    ("by", {"type": "map", "values": "double"}),
    ("color", {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}),
    ("either", ["null", "long", "string", "Inner"]),
    ("nothing", "null"),
)
SECOND = record(("id", "long"), ("inner", WIDER), ("note", "string", "none"), ("price", ["null", "float"], None))


@pytest.mark.parametrize("table_format", FORMATS)
def test_avro_fields_are_columns_and_newer_schemas_add_columns(
    broker: Broker, registry: SchemaRegistryClient, tmp_path: Path, table_format: str
) -> None:
    topic = f"avro-{table_format}"
    with table_world(
        broker, topic, tmp_path, format=table_format, schema=f"registry:{url_of(registry)}", mode="upsert"
    ) as world:
        assert world.write() == 0, "there is no schema yet"
        registry._send("PUT", f"/config/{topic}-value", dict, {"compatibility": "NONE"})
        value = {
            **{"id": 1, "price": Decimal("12.34"), "at": AT, "day": date(2026, 1, 2), "offset": 7, "inner": {"x": 1}},
            **{"uid": "8f4e5b7c-0000-4000-8000-000000000000", "inners": [{"x": 2}, None], "by": {"a": 1.5}},
            **{"color": "BLUE", "either": {"x": 3}, "nothing": None},
        }
        first = AvroSerializer(registry, FIRST).serialize(topic, value)
        other = AvroSerializer(registry, FIRST).serialize(topic, {**value, "id": 2, "at": None, "either": "text"})
        assert first is not None
        garbage = [b"text", header(999_999) + b"x", first[:-1], first + b"\0", b"\0\0\0"]
        for key, data in ((b"a", first), (b"b", other), (b"c", first), *((b"d", bad) for bad in garbage)):
            world.send(data, key=key)
        world.send(None, key=b"c")
        assert world.write() == 9
        row: dict[str, Any] = {
            **value,
            **{"value_offset": 7, "offset": 0, "key": b"a", "by": [("a", 1.5)]},
            "either": {"long": None, "string": None, "Inner": {"x": 3}},
        }
        del row["nothing"]
        second_row = {
            **row,
            "key": b"b",
            "id": 2,
            "offset": 1,
            "either": {**row["either"], "string": "text", "Inner": None},
        }
        del second_row["at"]
        assert fields(world) == [row, second_row]
        assert [dead["offset"] for dead in fields(world, SUFFIX)] == [3, 4, 5, 6, 7]

        newer, large = AvroSerializer(registry, SECOND).serialize, 5 if table_format == "delta" else 1 << 40
        world.send(newer(topic, {"id": 3, "inner": {"x": 4, "y": "new"}, "note": "hi", "price": 0.5}), first, key=b"a")
        world.send(newer(topic, {"id": 1 << 40, "inner": {"x": 4}, "note": "hi"}), key=b"e")
        world.send(newer(topic, {"id": 4, "inner": {"x": large, "y": "z"}, "note": "hi", "price": None}), key=b"f")
        query = f'select decode(key), id, ("inner").y, note from {topic.replace("-", "_")} order by 1'
        expected: list[Any] = [("b", 2, None, None), ("e", 1 << 40, None, "hi"), ("f", 4, "z", "hi")]
        if table_format == "delta":
            del expected[1]
        engine = QueryEngine(world.lookup, world.factory, {"bootstrap.servers": world.servers})
        assert [row for row in engine.run(query).rows if row[0] != "a"] == expected
        assert world.write() == 4
        assert [row for row in engine.run(query).rows if row[0] != "a"] == expected
        unchanged = {
            "key": b"a",
            "id": 3,
            "offset": 9,
            "price": Decimal("0.50"),
            "inner": {"x": 4, "y": "new"},
            "note": "hi",
        }
        assert [row for row in fields(world) if row["key"] == b"a"] == [unchanged], "the last value is a dead letter"
        errors = [row["error"] for row in fields(world, SUFFIX)[5:]]
        assert errors[0] == "schema 1: /price is decimal with scale 2, and in the latest schema None"
        if table_format == "delta":
            assert errors[1].startswith("id: Integer value 1099511627776 not in range"), "the column stays an int"
        else:
            assert len(errors) == 1, "the column gets the wider type"
            wide = [(row["id"], row["inner"]["x"]) for row in fields(world) if row["key"] in (b"e", b"f")]
            assert wide == [(1 << 40, 4), (4, large)]


class MemoryRegistry(SchemaRegistryClient):
    """Has one subject; the number of a version is its id. `failure`: raised instead of a response."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1")
        self.versions: list[Schema] = []
        self.failure: SchemaRegistryError | None = None

    def add(self, text: str, schema_type: str = "AVRO") -> int:
        self.versions.append(Schema(text, schema_type))
        return len(self.versions)

    def schema(self, schema_id: int, subject: str = "") -> Schema:
        if self.failure is not None:
            raise self.failure
        if not 0 < schema_id <= len(self.versions):
            raise SchemaRegistryError("Schema not found", 40403)
        return self.versions[schema_id - 1]

    def latest(self, subject: str) -> RegisteredSchema:
        if not self.versions:
            raise SchemaRegistryError(f"{subject} not found", 40401)
        return RegisteredSchema(subject, len(self.versions), len(self.versions), self.versions[-1])


def records(*values: bytes | None) -> Any:
    """Return values as records from offset 0 on."""
    columns: list[Any] = [range(len(values)), [0] * len(values), [None] * len(values), [b"k"] * len(values), values]
    arrays = [
        pa.array(column, field.type) for column, field in zip([*columns, [None] * len(values)], RECORD, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORD)


def values_of(rows: Rows) -> list[dict[str, Any]]:
    """Return the fields of rows, with their offset, without nulls."""
    omitted = ("partition", "timestamp", "key")
    return [{n: v for n, v in row.items() if n not in omitted and v is not None} for row in rows.batch.to_pylist()]


def test_columns_are_widened_by_a_newer_schema_without_changing_values() -> None:
    registry = MemoryRegistry()
    for kind, precision in (("float", 4), ("double", 6)):
        price = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}
        registry.add(record(("number", ["null", kind]), ("parts", {"type": "array", "items": kind}), ("price", price)))
    third, largest = header(2) + b"\x02" + pack("<d", 0.1), (999_999).to_bytes(3, "big")
    values = records(
        header(1) + b"\x00\x00\x02\x01",
        header(2) + b"\x02" + pack("<d", 0.5) + b"\x02" + pack("<d", 1.5) + b"\x00\x06" + largest,
        third + b"\x00\x02\x01",
    )
    newest = registry.versions.pop()
    narrow = RegistryConverter(registry, "t", pa.schema([])).schema
    registry.versions.append(newest)
    wide = RegistryConverter(registry, "t", narrow).convert(values)
    assert wide.dead is None
    assert [(row["number"], row["parts"], row["price"]) for row in wide.batch.to_pylist()] == [
        (None, [], Decimal("0.01")),
        (0.5, [1.5], Decimal("9999.99")),
        (0.1, [], Decimal("0.01")),
    ]
    delta = RegistryConverter(registry, "t", narrow, widens=False)
    assert delta.schema == narrow
    rows = delta.convert(values)
    assert [row["offset"] for row in rows.batch.to_pylist()] == [0]
    errors = [row["error"] for row in rows.dead.to_pylist()]
    assert "price: " in errors[0]
    assert errors[1] == "number: the double is not a float"


def avro_type(random: Random, depth: int = 0) -> Any:
    """Return a random type with a decoder for batches."""
    names = ("boolean", "int", "long", "float", "double", "bytes", "string", "null")
    logical = {"date": "int", "timestamp-millis": "long", "local-timestamp-micros": "long", "uuid": "string"}
    name = f"N{random.random()}".replace(".", "_")
    choices: list[Any] = [
        *names,
        *({"type": kind, "logicalType": logical_type} for logical_type, kind in logical.items()),
        {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 38},
        {"type": "fixed", "name": name, "size": 5, "logicalType": "decimal", "precision": 9, "scale": 1},
        {"type": "fixed", "name": name, "size": 3},
        {"type": "enum", "name": name, "symbols": ["A", "B", "C"]},
    ]
    if depth < 2:
        parts = [{"name": f"p{i}", "type": avro_type(random, depth + 1)} for i in range(3)]
        inner = {"type": "record", "name": name, "fields": [*parts, {"name": "last", "type": "int"}]}
        items = avro_type(random, depth + 1)
        choices += [{"type": "array", "items": items}, {"type": "map", "values": items}] if items != "null" else []
        choices += [inner, ["null", "string"], ["double", "null"], ["null", inner], ["null", "long", "string", inner]]
    return random.choice(choices)


def dead_offsets(rows: Rows) -> list[int]:
    return [] if rows.dead is None else rows.dead.column("offset").to_pylist()


def test_avro_batch_decoder_matches_fastavro(monkeypatch: pytest.MonkeyPatch) -> None:
    random, batched, batch_decoder = Random(1), 0, AvroValues._batch_decoder
    monkeypatch.setattr(avro_batches, "FEW_ROWS", 0)

    def no_decoder(self: AvroValues, *schemas: Any) -> None:
        nonlocal batched
        batched += batch_decoder(self, *schemas) is not None

    for _ in range(12):
        fields = [{"name": f"f{i}", "type": avro_type(random)} for i in range(4)]
        writer: dict[str, Any] = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}, *fields]}
        retained = [field for field in fields if random.random() < 0.8]
        added = {"name": "added", "type": ["null", "long"], "default": None}
        latest = {
            **writer,
            "fields": [added, *reversed(retained), {"name": "n", "type": random.choice(["int", "long"])}],
        }
        registry = MemoryRegistry()
        registry.add(json.dumps(writer))
        registry.add(json.dumps(latest))
        encoded, parsed = [], parse_schema(writer)
        for value in generate_many(parsed, 12):
            buffer = BytesIO()
            schemaless_writer(buffer, parsed, value)
            data = bytearray(header(1) + buffer.getvalue())
            if random.random() < 0.1 and len(data) > 5:
                place = random.randrange(5, len(data))
                damaged = [
                    data[:place],
                    data + b"\0",
                    bytes(data[:place]) + bytes([random.randrange(256)]) + data[place + 1 :],
                ]
                data = bytearray(random.choice(damaged))
            encoded.append(bytes(data))
        values = records(*encoded)
        rows = RegistryConverter(registry, "t", pa.schema([])).convert(values)
        with monkeypatch.context() as patch:
            patch.setattr(AvroValues, "_batch_decoder", no_decoder)
            expected = RegistryConverter(registry, "t", pa.schema([])).convert(values)
        rows.batch.validate(full=True)
        assert rows.batch.schema == expected.batch.schema
        for column, other in zip(rows.batch.columns, expected.batch.columns, strict=True):
            # As text, too: nan is not equal to itself.
            assert column.equals(other) or repr(column.to_pylist()) == repr(other.to_pylist())
        assert dead_offsets(rows) == dead_offsets(expected)
    assert batched > 9, "most schemas are decoded in batches"


@pytest.mark.parametrize("few_rows", [0, 50])
def test_avro_arrays_with_any_number_of_blocks_are_decoded(monkeypatch: pytest.MonkeyPatch, few_rows: int) -> None:
    monkeypatch.setattr(avro_batches, "FEW_ROWS", few_rows)
    registry = MemoryRegistry()
    by = {"type": "map", "values": {"type": "array", "items": "int"}}
    registry.add(record(("list", {"type": "array", "items": "int"}), ("by", by)))
    two_blocks = b"\x03\x04\x02\x04" + b"\x02\x06" + b"\0"  # -2 items of 2 bytes, 1 item, the end
    long = b"\xa0\x1f" + b"\x02" * 2000 + b"\0"
    maps = [b"\0", b"\x02\x02a" + two_blocks + b"\0", b"\x04\x02a\0\x02a\x02\x08\0\0", b"\x02\x02b" + long + b"\0"]
    values = [header(1) + part + whole for part in (b"\0", two_blocks, long) for whole in maps]
    bad = header(1) + (b"\xff" * 9 + b"\x01\x02\x02") + b"\0\0"  # -2 ** 63 items
    rows = RegistryConverter(registry, "t", pa.schema([])).convert(records(*values, bad))
    lists: Any = ([], [1, 2, 3], [1] * 2000)
    by_key: list[Any] = [[], [("a", [1, 2, 3])], [("a", [4])], [("b", [1] * 2000)]]
    assert [(row["list"], row["by"]) for row in rows.batch.to_pylist()] == [(a, b) for a in lists for b in by_key]
    assert dead_offsets(rows) == [len(values)]


def test_avro_arrays_of_few_values_are_decoded_by_fastavro(monkeypatch: pytest.MonkeyPatch) -> None:
    items, count_item = 0, avro_batches.Batch.count_item

    def count(self: avro_batches.Batch, rows: int) -> None:
        nonlocal items
        items += 1
        count_item(self, rows)

    monkeypatch.setattr(avro_batches.Batch, "count_item", count)
    registry = MemoryRegistry()
    registry.add(record(("list", {"type": "array", "items": "int"})))
    value = header(1) + b"\x88\x0e" + b"\x02" * 900 + b"\0"
    for number, expected in ((1, 11), (20, 12), (60, 900)):
        items = 0
        rows = RegistryConverter(registry, "t", pa.schema([])).convert(records(*[value] * number))
        assert [row["list"] for row in rows.batch.to_pylist()] == [[1] * 900] * number
        assert items == expected, number


def test_avro_timestamps_keep_their_units_and_large_decimals_are_dead_letters() -> None:
    registry = MemoryRegistry()
    millis, micros = (("at", {"type": "long", "logicalType": f"timestamp-{unit}"}) for unit in ("millis", "micros"))
    decimals = [("price", {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": s}) for s in (2, 3)]
    for field, price in ((millis, decimals[0]), (millis, decimals[1]), (micros, decimals[1])):
        registry.add(record(field, price))
    converter = RegistryConverter(registry, "t", pa.schema([]))
    at = b"\xd4\x0f"  # 1002
    largest = (10**38 - 1).to_bytes(16, "big")
    rows = converter.convert(
        records(
            header(3) + at + b"\x02\x7b",
            header(2) + at + b"\x20" + largest,
            header(1) + at + b"\x02\x7b",
            header(3) + at + b"\x80\x80\x80\x01" + b"\x7b" * (1 << 20),
        )
    )
    assert [(row["at"].microsecond, row["price"]) for row in rows.batch.to_pylist()] == [
        (1002, Decimal("0.123")),
        (2000, Decimal("9" * 35 + ".999")),
    ]
    errors = [row["error"] for row in rows.dead.to_pylist()]
    assert "/price is decimal with scale 2" in errors[0]
    assert "the decimal has 1048576 bytes" in errors[1]


def test_avro_values_of_removed_fields_and_plain_bytes_are_decoded() -> None:
    registry = MemoryRegistry()
    doubles = {"type": "array", "items": "double"}
    registry.add(record(("a", doubles), ("at", {"type": "long", "logicalType": "timestamp-micros"})))
    registry.add(record(("at", "long")))
    converter = RegistryConverter(registry, "t", pa.schema([]))
    at = b"\xd4\x0f"  # 1002
    endless = b"\x80" * 9 + b"\x01"  # 2**62 items
    rows = converter.convert(
        records(header(1) + endless + b"\0", header(1) + b"\x02" + b"\0" * 8 + b"\0" + at, header(2) + at)
    )
    assert values_of(rows) == [{"offset": 1, "at": 1002}, {"offset": 2, "at": 1002}]
    assert "EOFError" in rows.dead.to_pylist()[0]["error"]
    registry = MemoryRegistry()
    registry.add('"bytes"')
    converter = RegistryConverter(registry, "t", pa.schema([]))
    assert values_of(converter.convert(records(header(1) + b"raw"))) == [{"offset": 0, "value": b"raw"}]


def test_avro_records_become_branches_of_a_newer_union_and_get_its_defaults() -> None:
    old, value = record(("id", "int")), header(1) + b"\x02"
    event = {"type": "record", "name": "Event", "fields": [{"name": "n", "type": "int"}]}
    cases: list[tuple[Any, bytes, list[Any]]] = [
        (["null", json.loads(old)], header(2) + b"\x02\x04", [{"id": 1}, {"id": 2}]),
        ([json.loads(old), event], header(2) + b"\x02\x06", [{"Order": {"id": 1}}, {"Event": {"n": 3}}]),
    ]
    for latest, newer, expected in cases:
        registry = MemoryRegistry()
        registry.add(old)
        registry.add(json.dumps(latest))
        rows = values_of(RegistryConverter(registry, "t", pa.schema([])).convert(records(value, newer)))
        assert rows == [{"offset": offset, **row} for offset, row in enumerate(expected)]
    registry = MemoryRegistry()
    registry.add(old)
    registry.add(record(("id", "int"), ("n", "long", True)))
    rows_without_default = RegistryConverter(registry, "t", pa.schema([])).convert(
        records(value, header(2) + b"\x02\x02")
    )
    assert values_of(rows_without_default) == [{"offset": 1, "id": 1, "n": 1}]
    assert dead_offsets(rows_without_default) == [0], "true is no long, which fastavro does not notice"


def test_avro_defaults_are_converted_to_the_type_of_their_column() -> None:
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "y", "type": "float"}]}
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
    cases: list[tuple[Any, Any, Any]] = [
        ("float", 16_777_217, 16_777_216.0),
        ("float", 0.1, 0.10000000149011612),
        ("double", 1, 1.0),
        (["float", "null"], 1e39, float("inf")),
        (inner, {"y": 16_777_217}, {"y": 16_777_216.0}),
        ({"type": "array", "items": "float"}, [16_777_217], [16_777_216.0]),
        ({"type": "map", "values": "bytes"}, {"a": "\xff"}, [("a", b"\xff")]),
        ("bytes", "\x00\xff", b"\x00\xff"),
        (decimal, "\x01\xff", Decimal("5.11")),
        ({"type": "fixed", "name": "F", "size": 1}, "\xff", b"\xff"),
        ("boolean", True, True),
    ]
    for kind, default, expected in cases:
        registry = MemoryRegistry()
        registry.add(record(("id", "int")))
        registry.add(record(("id", "int"), ("x", kind, default)))
        for count in (1, 100):  # decoded one by one, and together
            rows = RegistryConverter(registry, "t", pa.schema([])).convert(records(*[header(1) + b"\x02"] * count))
            assert dead_offsets(rows) == []
            assert rows.batch.column("x").to_pylist() == [expected] * count, kind


def test_avro_decimals_with_more_bytes_than_digits_are_decoded_in_batches() -> None:
    registry = MemoryRegistry()
    for kind, size in (("fixed", {"name": "F", "size": 20}), ("bytes", {})):
        number = {"type": kind, **size, "logicalType": "decimal", "precision": 38, "scale": 2}
        registry.add(record(("price", number)))
        length = b"" if kind == "fixed" else b"\x28"
        value = header(1) + length + b"\xff" * 20
        (prices,) = AvroValues(registry, registry.versions[-1]).decoder(registry.versions[-1])(pa.array([value] * 3))
        assert prices.to_pylist() == [Decimal("-0.01")] * 3


PROTO = """syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
message Order {
  int64 id = 1; uint64 big = 2; optional string note = 3; Kind kind = 4; repeated Item items = 5;
  map<string, Item> by = 6; google.protobuf.Timestamp at = 7; google.protobuf.Int32Value maybe = 8;
  google.protobuf.Struct any = 9; Tree tree = 10; oneof choice { string a = 11; int32 b = 12; }
  %s
  enum Kind { NONE = 0; NEW = 1; }
  message Item { int32 n = 1; }
}
message Tree { int32 n = 1; repeated Tree children = 2; }
"""


def test_protobuf_messages_of_all_versions_have_the_fields_of_the_latest() -> None:
    registry = MemoryRegistry()
    schema_id = registry.add(PROTO % "", "PROTOBUF")
    converter = RegistryConverter(registry, "t", pa.schema([]))
    order = (
        b"\x08\x05"
        b"\x10" + b"\xff" * 9 + b"\x01"
        b"\x1a\x00"
        b"\x20\x01"
        b"\x2a\x02\x08\x07"
        b"\x32\x07\x0a\x01x\x12\x02\x08\x08"
        b"\x3a\x06\x08\x80\xa8\xd6\xb9\x06"
        b"\x42\x00"
        b"\x52\x04\x12\x02\x08\x03"
        b"\x60\x00"
    )
    rows = converter.convert(
        records(header(schema_id) + b"\0" + order, None, header(1) + b"\x02\x02" + order, header(1) + b"\0\x08")
    )
    columns = {
        **{"id": 5, "big": 2**64 - 1, "note": "", "kind": "NEW", "items": [{"n": 7}], "by": [("x", {"n": 8})]},
        **{"at": datetime.fromtimestamp(1731564544, UTC), "maybe": 0, "b": 0},
        "tree": {"n": 0, "children": ['{"n": 3}']},
    }
    assert values_of(rows) == [{"offset": 0, **columns}, {"offset": 1}]
    assert [row["offset"] for row in rows.dead.to_pylist()] == [2, 3]
    assert "the message is a shop.Tree" in rows.dead.to_pylist()[0]["error"]
    second = registry.add(PROTO % "double price = 13; google.protobuf.Timestamp due = 14;", "PROTOBUF")
    price = b"\x69\0\0\0\0\0\0\xf8\x3f"
    rows = converter.convert(records(header(schema_id) + b"\0" + order, header(second) + b"\2\0" + order + price))
    assert values_of(rows) == [{"offset": 0, **columns, "price": 0}, {"offset": 1, **columns, "price": 1.5}]
    assert pa.types.is_timestamp(rows.batch.schema.field("due").type)
    assert rows.dead is None


DATES = """syntax = "proto3"; package google.type;
message Dates { repeated Date days = 1; } message Date { int32 year = 1; int32 month = 2; int32 day = 3; }
"""


def test_partial_protobuf_dates_have_their_parts() -> None:
    def encoded(*parts: int) -> bytes:
        day = bytearray()
        for tag, part in enumerate(parts, 1):
            day.append(8 * tag)
            write_uvarint(day, part)
        return b"\x0a" + bytes([len(day)]) + day

    registry = MemoryRegistry()
    registry.add(DATES, "PROTOBUF")
    legal = [(2024, 2, 29), (0, 2, 29), (2026, 0, 0), (2026, 11, 0), (0, 0, 0), (0, 12, 0)]
    illegal = [(2026, 2, 29), (2026, 13, 0), (2026, 0, 5), (10_000, 1, 1), (0, 4, 31)]
    values = [b"".join(encoded(*parts) for parts in legal), *(encoded(*parts) for parts in illegal)]
    rows = RegistryConverter(registry, "t", pa.schema([])).convert(records(*(header(1) + b"\0" + v for v in values)))
    (row,) = rows.batch.to_pylist()
    assert [tuple(day.values()) for day in row["days"]] == [
        (date(2024, 2, 29), 2024, 2, 29),
        *((None, *parts) for parts in legal[1:]),
    ]
    assert [dead["offset"] for dead in rows.dead.to_pylist()] == list(range(1, 1 + len(illegal)))


def test_protobuf_value_of_a_schema_without_messages_is_a_dead_letter() -> None:
    registry = MemoryRegistry()
    registry.add('syntax = "proto3"; enum E { A = 0; }', "PROTOBUF")
    registry.add('syntax = "proto3"; message M { int32 a = 1; }', "PROTOBUF")
    rows = RegistryConverter(registry, "t", pa.schema([])).convert(records(header(1) + b"\0\x08\x05"))
    (dead,) = rows.dead.to_pylist()
    assert dead["error"] == "schema 1: the Protobuf schema has no message type"


def test_json_values_have_the_fields_of_their_schema() -> None:
    registry = MemoryRegistry()
    schema_id = registry.add(json.dumps(JSON_SCHEMA), "JSON")
    converter = RegistryConverter(registry, "t", pa.schema([]))
    value = {
        **{"id": 1, "price": 2, "at": "2026-01-02T04:04:05.678+01:00", "day": "2026-01-02", "ok": True},
        **{
            "part": {"n": 1, "extra": 9},
            "parts": [{"n": 2}, {}],
            "by": {"a": 1.5},
            "any": {"x": [1, "ä"]},
            "maybe": "m",
        },
        **{"tree": {"name": "a", "children": [{"name": "b", "children": []}]}, "extra": 1, "mixed": 5},
    }
    good = header(schema_id) + json.dumps(value).encode()
    bad = [
        b"x",
        b"[1]",
        b"[]",
        b'{"id": "1"}',
        b'{"id": 1.5}',
        b'{"at": "noon"}',
        b"{" + b'"any":[' * 100_000,
        b'{"part": [{}]}',
        b'{"part": []}',
    ]
    rows = converter.convert(records(good, header(schema_id) + b"{}", *(header(schema_id) + text for text in bad)))
    assert values_of(rows) == [
        {
            **{"offset": 0, "id": 1, "price": 2.0, "at": AT, "day": date(2026, 1, 2), "ok": True, "part": {"n": 1}},
            **{"parts": [{"n": 2}, {"n": None}], "by": [("a", 1.5)], "any": '{"x": [1, "ä"]}', "maybe": "m"},
            **{"tree": {"name": "a", "children": ['{"name": "b", "children": []}']}, "mixed": "5"},
        },
        {"offset": 1},
    ]
    assert [row["offset"] for row in rows.dead.to_pylist()] == list(range(2, 2 + len(bad)))
    nanos = records(header(schema_id) + b'{"at": "2026-01-02T03:04:05.678000999Z"}')
    assert values_of(converter.convert(nanos)) == [{"offset": 0, "at": AT}]


JSON_SCHEMA = {
    "type": "object",
    "properties": {
        **{"id": {"type": "integer"}, "price": {"type": "number"}, "ok": {"type": ["boolean", "null"]}},
        **{"at": {"type": "string", "format": "date-time"}, "day": {"type": "string", "format": "date"}},
        **{"part": {"$ref": "#/definitions/part"}, "parts": {"type": "array", "items": {"$ref": "#/definitions/part"}}},
        **{"by": {"type": "object", "additionalProperties": {"type": "number"}}, "any": {"type": "object"}},
        **{"maybe": {"oneOf": [{"type": "null"}, {"type": "string"}]}, "tree": {"$ref": "#/definitions/tree"}},
        "mixed": {"type": ["string", "integer"]},
    },
    "definitions": {
        "part": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "tree": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/definitions/tree"}},
            },
        },
    },
}


def test_unavailable_registry_or_unsupported_schema_stops_the_writer() -> None:
    registry = MemoryRegistry()
    converter = RegistryConverter(registry, "t", pa.schema([]))
    value = records(header(1) + b"\x02a")
    registry.failure = SchemaRegistryError("no registry responds")
    with pytest.raises(SchemaRegistryError):
        converter.convert(value)
    registry.failure = None
    registry.add('"string"')
    assert values_of(converter.convert(value)) == [{"offset": 0, "value": "a"}]
    assert "no schema 2" in converter.convert(records(header(2) + b"\x02b")).dead.to_pylist()[0]["error"]
    registry.add('{"type": "string", "doc": "registered at another registry, which this one is behind"}')
    assert values_of(converter.convert(records(header(2) + b"\x02b"))) == [{"offset": 0, "value": "b"}]
    tree = record(("children", {"type": "array", "items": "Order"}))
    for schema in (tree, record(), '{"type": "array", "items": "null"}', '{"type": "fixed", "name": "F", "size": 0}'):
        registry.add(schema)
        with pytest.raises(TableError, match="t-value, version"):
            converter.convert(records(header(len(registry.versions))))
    fixed = {"type": "fixed", "name": "record", "size": 1}
    named = record(("first", {"type": "enum", "name": "map", "symbols": ["A"]}), ("second", "map"), ("third", fixed))
    value = records(header(registry.add(named)) + b"\0\0x")
    assert values_of(converter.convert(value)) == [{"offset": 0, "first": "A", "second": "A", "third": b"x"}]
    with pytest.raises(TableError, match="recursion"):
        converter.convert(records(header(registry.add(record(("e", {**fixed, "name": "fixed"}))))))


def test_credentials_are_sent_to_the_configured_registry_only(tmp_path: Path) -> None:
    configured = {"schema.registry.url": "http://127.0.0.1:1", "schema.registry.basic.auth.user.info": "user:secret"}
    factory = ConverterFactory(configured)
    assert "Authorization" in factory._registry("")._headers
    assert "Authorization" not in factory._registry("http://127.0.0.1:2")._headers
    with pytest.raises(ConfigurationError, match=r"schema\.registry\.url"):
        ConverterFactory({}).converter("t", "registry", None)
    with pytest.raises(ValueError, match="registry:http"):
        table_schema("registry:file:///etc")
