"""Avro schemas: validation, canonical text and compatibility."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("fastavro")

from ottla_registry.schemas.avro import AvroSchema
from ottla_registry.schemas.parsed import Compatibility, ReferencedSchema


def schema(document: Any) -> AvroSchema:
    return AvroSchema(json.dumps(document))


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F") -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size}


TREE = record(field("v", "int"), field("next", ["null", "R"]))
LONG_TREE = record(field("v", "long"), field("next", ["null", "R"]))
PAIRS = [
    # reader, writer, the error or None
    ("int", "int", None),
    ("long", "int", None),
    ("float", "long", None),
    ("double", "float", None),
    ("int", "long", "TYPE_MISMATCH"),
    ("float", "double", "TYPE_MISMATCH"),
    ("string", "bytes", None),
    ("bytes", "string", None),
    ("string", "int", "TYPE_MISMATCH"),
    ("boolean", "null", "TYPE_MISMATCH"),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, None),
    ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, "TYPE_MISMATCH"),
    ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, "TYPE_MISMATCH"),
    ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}, "TYPE_MISMATCH"),
    (fixed(4), fixed(4), None),
    (fixed(4), fixed(5), "FIXED_SIZE_MISMATCH"),
    (fixed(4), fixed(4, "G"), "NAME_MISMATCH"),
    (enum("A", "B"), enum("A"), None),
    (enum("A"), enum("A", "B"), "MISSING_ENUM_SYMBOLS"),
    (enum("A", default="A"), enum("A", "B"), None),
    (["null", "int"], "int", None),
    (["null", "int"], "string", "MISSING_UNION_BRANCH"),
    (["null", "long"], ["int"], None),
    ("int", ["int"], None),
    ("int", ["null", "int"], "TYPE_MISMATCH"),
    (["null", "int", "string"], ["null", "int"], None),
    (["null", "int"], ["null", "int", "string"], "MISSING_UNION_BRANCH"),
    (record(), record(field("a", "int")), None),
    (record(field("a", "int")), record(), "READER_FIELD_MISSING_DEFAULT_VALUE"),
    (record(field("a", "int", default=1)), record(), None),
    (record(field("b", "int", aliases=["a"])), record(field("a", "int")), None),
    (record(field("a", "int")), record(field("a", "string")), "TYPE_MISMATCH"),
    (record(name="S"), record(), "NAME_MISMATCH"),
    (record(name="S", aliases=["R"]), record(), None),
    (record(name="n.S", aliases=["R"]), record(name="n.R"), None),
    (record(name="m.R"), record(name="n.R"), None),
    (LONG_TREE, TREE, None),
    (TREE, LONG_TREE, "TYPE_MISMATCH"),
    ({"type": "long", "logicalType": "timestamp-millis"}, "long", None),
]


@pytest.mark.parametrize(("reader", "writer", "error"), PAIRS)
def test_compatibility_follows_avro_schema_resolution(reader: Any, writer: Any, error: str | None) -> None:
    errors = schema(reader).cannot_read(schema(writer))
    assert [error for error in errors if not error.startswith("{errorType:'")] == []
    assert (errors == []) if error is None else (error in errors[0]), errors


@pytest.mark.parametrize(
    ("document", "canonical"),
    [
        ({"type": "string"}, '"string"'),
        ({"logicalType": "date", "type": "int"}, '{"type":"int","logicalType":"date"}'),
        ({"type": "string", "name": "s", "doc": "d", "x": 1}, '{"type":"string","x":1}'),
        ({"type": "array", "items": "int", "doc": "d", "aliases": ["a"]}, '{"type":"array","items":"int"}'),
        (
            {"fields": [], "doc": "d", "name": "a.b.R", "type": "record", "x": 1, "aliases": ["Q"]},
            '{"type":"record","name":"R","namespace":"a.b","doc":"d","fields":[],"x":1,"aliases":["Q"]}',
        ),
        (
            record(field("e", enum("A")), field("f", "n.E", order="ignore", doc="é"), namespace="n"),
            '{"type":"record","name":"R","namespace":"n","fields":[{"name":"e","type":{"type":"enum","name":"E",'
            '"symbols":["A"]}},{"name":"f","type":"E","doc":"é","order":"ignore"}]}',
        ),
    ],
)
def test_canonical_text_has_the_order_of_the_java_library_of_avro(document: Any, canonical: str) -> None:
    assert schema(document).canonical == canonical
    assert AvroSchema(canonical).canonical == canonical


def test_normalized_text_sorts_properties_and_references_are_resolved() -> None:
    document = {"type": "string", "b": 1, "a": {"y": 1}}
    assert schema(document).canonical == '{"type":"string","b":1,"a":{"y":1}}'
    assert schema(document).normalized == '{"type":"string","a":{"y":1},"b":1}'
    reference = ReferencedSchema("n.E", json.dumps(enum("A", namespace="n")))
    text = json.dumps(record(field("e", "n.E")))
    expected = '{"type":"record","name":"R","fields":[{"name":"e","type":"n.E"}]}'
    assert AvroSchema(text, [reference]).normalized == expected
    with pytest.raises(ValueError, match="Expecting value"):
        AvroSchema("string")


def test_resolved_schema_defines_each_type_once() -> None:
    inner = enum("A", namespace="n")
    outer = {**record(field("e", inner), namespace="n"), "name": "Outer"}
    text = json.dumps({**record(field("first", "n.E"), field("second", "n.Outer")), "name": "Main"})
    resolved = AvroSchema(text, [ReferencedSchema("n.Outer", json.dumps(outer))]).resolved
    expected = (
        '{"type":"record","name":"Main","fields":[{"name":"first","type":{"type":"enum","name":"E","namespace":"n",'
        '"symbols":["A"]}},{"name":"second","type":{"type":"record","name":"Outer","namespace":"n","fields":'
        '[{"name":"e","type":"E"}]}}]}'
    )
    assert resolved == expected


@pytest.mark.parametrize(
    "document",
    [
        None,
        3,
        {},
        {"type": "foo"},
        "foo",
        ["int", "int"],
        ["int", ["null"]],
        record(field("a", "int"), field("a", "int")),
        record(field("a-b", "int")),
        record({"name": "a"}),
        record(field("a", "int", default="x")),
        record(field("a", "int", order="up")),
        record(field("a", "S")),
        record(field("a", record())),
        record(name="9"),
        {"type": "record", "name": "R", "fields": {"a": 1}},
        {"type": "record", "name": "R"},
        enum("A", "A"),
        enum("A", default="B"),
        enum("a-b"),
        {"type": "enum", "name": "E", "symbols": 3},
        fixed(-1),
        {"type": "array"},
    ],
)
def test_invalid_schema_is_rejected(document: Any) -> None:
    with pytest.raises(ValueError, match="."):
        schema(document)


def test_compatibility_level_chooses_versions_and_direction() -> None:
    short, long = schema(record()), schema(record(field("a", "int")))
    text = schema("string")
    assert not Compatibility.BACKWARD.check(short, [long])
    assert Compatibility.FORWARD.check(short, [long])
    assert Compatibility.FULL.check(short, [long])
    assert not Compatibility.NONE.check(text, [long])
    assert not Compatibility.BACKWARD.check(text, [long, text])
    assert Compatibility.BACKWARD_TRANSITIVE.check(text, [long, text])
    assert not Compatibility.FULL_TRANSITIVE.check(text, [])
