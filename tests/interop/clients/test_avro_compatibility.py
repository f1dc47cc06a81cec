"""The registry's Avro rules compared with Avro's Java library: canonical forms, and pairs of readers and writers."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("pyspark", reason="Avro's jars come with PySpark")

import pyspark
from scripts import maven
from scripts.apache_kafka import SHORT_LIVED
from tests.interop.java_clients import SOURCES

from ottla_registry.schemas.avro import AvroSchema

pytestmark = pytest.mark.interop

JARS = Path(pyspark.__file__).parent / "jars"
ERROR_TYPE = re.compile(r"\{errorType:'(\w+)'")


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, **more, "fields": list(fields)}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


SCHEMAS: list[Any] = [
    "null",
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "bytes",
    "string",
    {"type": "int", "logicalType": "date"},
    {"type": "array", "items": "int"},
    {"type": "array", "items": "long"},
    {"type": "map", "values": "string"},
    {"type": "map", "values": ["null", "bytes"]},
    {"type": "fixed", "name": "F", "size": 4},
    {"type": "fixed", "name": "F", "size": 5},
    {"type": "fixed", "name": "n.F", "size": 4},
    enum("A"),
    enum("A", "B"),
    enum("B", default="B"),
    enum("A", name="n.E"),
    ["int"],
    ["null", "int"],
    ["null", "long", "string"],
    ["null", enum("A")],
    ["null", record(field("a", "int"))],
    record(),
    record(field("a", "int")),
    record(field("a", "long", default=1)),
    record(field("a", ["null", "int"], default=None)),
    record(field("a", "int"), field("b", "string", default="")),
    record(field("b", "string"), field("a", "int")),
    record(field("c", "int", aliases=["a"])),
    record(field("a", "int"), name="S"),
    record(field("a", "int"), name="S", aliases=["R"]),
    record(field("a", "int"), name="R", namespace="n"),
    record(field("v", "int"), field("next", ["null", "R"])),
    record(field("v", "long"), field("next", ["null", "R"])),
    record(field("v", "int"), field("next", ["null", "L"]), name="L"),
    record(field("e", enum("A", "B")), field("l", {"type": "array", "items": "E"})),
    record(field("e", enum("A", "B", "C")), field("l", {"type": "array", "items": "E"})),
    # Attributes that the type does not have: Java drops those of other types, and has all others as properties.
    {"type": "int", "name": "x", "namespace": "n", "doc": "d", "aliases": ["y"], "default": 1, "order": "z"},
    {"type": "int", "logicalType": "date", "doc": "d", "x": [1]},
    {"type": "array", "items": "int", "name": "x", "doc": "d", "aliases": ["y"], "size": 1, "default": []},
    {"type": "map", "values": "int", "items": "int", "symbols": [], "order": "z", "java-class": "M"},
    {"type": "fixed", "name": "G", "size": 4, "values": "int", "default": "", "x": {"b": 1, "a": 2}},
    enum("A", items="int", size=1, order="z"),
    record(field("a", {"type": "string", "doc": "d", "x": 1}, items="int"), size=1, symbols=["A"], default={}),
]


def test_avro_canonical_forms_and_compatibility_equal_those_of_avros_java_library() -> None:
    if reason := maven.missing():
        pytest.skip(reason)
    source = SOURCES / "AvroCompatibility.java"
    classes = maven.compiled("avro", JARS, [source])
    command = ["java", "-Xmx256M", *SHORT_LIVED, "-cp", f"{classes}:{JARS}/*", source.stem]
    lines = "".join(json.dumps(schema) + "\n" for schema in SCHEMAS)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=120, check=True)
    texts, pairs = done.stdout.splitlines()[: len(SCHEMAS)], done.stdout.splitlines()[len(SCHEMAS) :]
    parsed = [AvroSchema(json.dumps(schema)) for schema in SCHEMAS]
    assert [schema.canonical for schema in parsed] == texts
    ours = [
        " ".join(sorted({kind for error in reader.cannot_read(writer) for kind in ERROR_TYPE.findall(error)}))
        for reader in parsed
        for writer in parsed
    ]
    different = [
        (texts[i // len(SCHEMAS)], texts[i % len(SCHEMAS)], theirs, own)
        for i, (theirs, own) in enumerate(zip(pairs, ours, strict=True))
        if theirs != own
    ]
    assert different == []
